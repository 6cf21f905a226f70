"""Calls of the KV panel that change something, or measure it for the tour."""

from __future__ import annotations

from .call_registry import call
from .connection import Connection
from .views import View


@call
async def kv_forget(connection: Connection, frame: View) -> View:
    """Forget all cached blocks, pinned ones too: {"blocks": how many there were}.

    Raises:
        EngineError: while replies hold blocks, or without an engine.
    """
    client = connection.hub.client
    held = (await client.books())["cached"]
    await client.reset_cache()
    return {"blocks": held}
