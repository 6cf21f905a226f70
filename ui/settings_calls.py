"""Calls of the settings: what acts where nothing is chosen, what is stored where, copies, caches, and presets."""

from __future__ import annotations

import asyncio
from typing import Any

from ..engine.errors import RequestError
from ..sessions.sampling import effective_params
from .call_registry import call, pass_on
from .connection import Connection
from .views import View

pass_on("copies", "storage.copies", answers=True)
pass_on("back_up", "storage.back_up", answers=True)
pass_on("delete_copy", "storage.delete_copy", "name", answers=True)
pass_on("empty_trash", "storage.empty_trash", answers=True)
pass_on("preset_drift", "presets.drift", "preset", answers=True)
pass_on("preset_of_chat", "presets.of_chat", "session", answers=True)


@call
async def settings_facts(connection: Connection, frame: View) -> View:
    """{"usual", "installation"}: the sampling of a chat that has chosen nothing, and what is known of the installation
    (None where the application tells nothing)."""
    hub = connection.hub
    usual = effective_params({}, hub.client.status.info.get("sampling_defaults") or {})
    return {"usual": usual, "installation": hub.installation.facts() if hub.installation else None}


@call
async def storage(connection: Connection, frame: View) -> View:
    """What chats, files, copies, models and caches take up. Measured in other threads."""
    hub = connection.hub
    chats = await hub.service.storage.measure()
    if hub.installation is None:
        return chats
    loaded = hub.client.status.info.get("model_path")
    return {**chats, **await asyncio.to_thread(hub.installation.measure, loaded)}


@call
async def clear_cache(connection: Connection, frame: View) -> View:
    """Delete a folder of the cache; the storage as it is then."""
    hub, name = connection.hub, str(frame["name"])
    if hub.installation is None:
        raise RequestError("This server knows no caches.")
    if name == "kernels" and hub.client.status.info.get("compiling"):
        raise RequestError("Kernels are being compiled into this folder just now; delete it when they are ready.")
    await asyncio.to_thread(hub.installation.clear_cache, name)
    return await storage(connection, frame)


@call
async def preset_preview(connection: Connection, frame: View) -> Any:
    """How a prompt of a preset that is being edited begins."""
    return await connection.hub.service.presets.preview(frame["change"] or {})
