"""Calls about messages that wait for the end of a reply. See ``QueueService``."""

from __future__ import annotations

from .call_registry import call, pass_on
from .connection import Connection
from .views import View

pass_on("remove_queued", "queue.remove", "session", "queued", answers=True)
pass_on("take_queued", "queue.take_back", "session", "queued", answers=True)
pass_on("order_queue", "queue.order", "session", "ids")
pass_on("bring_queued", "queue.bring", "session", "queued", "message")


@call
async def queue(connection: Connection, frame: View) -> View:
    """Let a message wait for a reply. With ``typed`` it was the chat's draft."""
    add, files, typed = connection.hub.service.queue.add, frame.get("files") or [], bool(frame.get("typed"))
    return await add(frame["session"], frame["message"], frame["text"], files, frame.get("place"), typed=typed)


@call
async def send_queued(connection: Connection, frame: View) -> None:
    """Send a message that is held, under the last one that the page shows."""
    await connection.hub.service.queue.send(frame["session"], frame["queued"], frame.get("parent"))
