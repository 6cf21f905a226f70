"""Calls about single messages: write a reply again, look at how one came to be and at its exact text."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

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


_reproducing: WeakKeyDictionary[Connection, asyncio.Task[View]] = WeakKeyDictionary()


@call
async def reproduce(connection: Connection, frame: View) -> View | None:
    """Make a run of a reply again (the last one without a number), unseen; None if the page has cancelled it.

    A page has one at a time: a new one ends the one before. It is told how many tokens there are, in frames of their
    own.
    """
    await stop_reproducing(connection, frame)
    told = {"ev": "reproducing", "message": frame["message"], "run": frame.get("run")}
    again = connection.hub.service.reproduce(
        frame["message"], frame.get("run"), lambda tokens: connection.answer({**told, "tokens": tokens})
    )
    task = _reproducing[connection] = asyncio.create_task(again)
    try:
        await asyncio.wait({task})
        return None if task.cancelled() else task.result()
    finally:
        task.cancel()


@call
async def stop_reproducing(connection: Connection, frame: View) -> None:
    """The reader does not want to know any more."""
    task = _reproducing.pop(connection, None)
    if task is not None:
        task.cancel()
