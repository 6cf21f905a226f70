"""Calls about what a model sees: single tokens of a reply, branches at them, and summaries that a chat goes on from."""

from __future__ import annotations

from .call_registry import call, pass_on
from .connection import Connection
from .views import View

pass_on("tokens", "tokens.tokens", "message", answers=True)


@call
async def alternatives(connection: Connection, frame: View) -> View:
    """What the model held likely in the place of a token."""
    return await connection.hub.service.tokens.alternatives(frame["message"], frame["index"], frame.get("count") or 8)


@call
async def branch_at(connection: Connection, frame: View) -> View:
    """A reply that goes on behind another token."""
    made = await connection.hub.service.tokens.branch_at(frame["message"], frame["index"], frame["token"])
    return {"reply": made["id"]}


@call
async def compact(connection: Connection, frame: View) -> View:
    """Sum up a chat, down to a message if one is named."""
    made = await connection.hub.service.compaction.compact(frame["session"], frame.get("message"))
    return {"reply": made["id"]}
