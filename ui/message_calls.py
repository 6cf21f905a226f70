"""Calls about single messages: write a reply again, look at how one came to be and at its exact text."""

from __future__ import annotations

from .call_registry import call, pass_on
from .connection import Connection
from .views import View

pass_on("details", "facts.details", "message", answers=True)
pass_on("raw", "facts.raw", "message", answers=True)


@call
async def regenerate(connection: Connection, frame: View) -> View:
    """One more reply, or several at once, with settings of their own if ``params`` names some."""
    count = frame.get("count") or 1
    first = await connection.hub.service.regenerate(frame["message"], count, frame.get("params"))
    return {"reply": first["id"], "replies": first["siblings"][-count:]}


@call
async def reproduce(connection: Connection, frame: View) -> View:
    """Make a run of a reply again (the last one without a number), unseen."""
    return await connection.hub.service.reproduce(frame["message"], frame.get("run"))
