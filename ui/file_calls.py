"""Calls about the files of messages, and about what stands in them. See ``DocumentService``."""

from __future__ import annotations

from .call_registry import call, pass_on
from .connection import Connection
from .views import View

pass_on("files", "documents.waiting", "session", answers=True)
pass_on("cited", "documents.cited", "message", "n", answers=True)


@call
async def remove_file(connection: Connection, frame: View) -> View:
    """Take a file away from the next message; with ``on`` it comes back."""
    return await connection.hub.service.documents.set_removed(frame["file"], not frame.get("on"))


@call
async def document(connection: Connection, frame: View) -> View:
    """A part of a file's text, from its beginning or from ``offset`` on."""
    return await connection.hub.service.documents.window(frame["file"], frame.get("offset") or 0)


async def planned(connection: Connection, frame: View) -> tuple[View, View]:
    """What a message would send, as arguments of a probe; and {"files", "more"}: {"id", "how"} of each of its files,
    and in words what it quotes of those of messages above."""
    service, files = connection.hub.service, list(dict.fromkeys(frame.get("files") or []))
    session_id = frame["session"] or None
    plan = await service.documents.plan(session_id, frame["text"], files, frame.get("parent"))
    question = await service.question(session_id, frame.get("parent"), frame["text"], plan)
    told = [{"id": one, "how": source.words} for one, source in zip(files, plan.sources, strict=False)]
    more = [f"{source.words} of {source.name}" for source in plan.sources[len(files) :]]
    return question, {"files": told, "more": more}
