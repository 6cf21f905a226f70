"""Answers that follow an engine: they stop when the client goes away or the server shuts down."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from .api_errors import ApiError

Result = TypeVar("Result")


class ClientGone(Exception):
    """The client closed the connection before its answer was complete."""


class StreamingAnswer(Response):
    """Sends each piece as it comes.

    The source is closed at once when the client disconnects or ``app.state.shutting_down`` (an ``asyncio.Event``, if
    the app has one) is set: an ordinary streaming response notices only at its next piece.
    """

    def __init__(self, pieces: AsyncIterator[bytes], first: bytes = b"") -> None:
        super().__init__(
            media_type="text/event-stream", headers={"cache-control": "no-store", "x-accel-buffering": "no"}
        )
        del self.headers["content-length"]
        self._pieces = pieces
        self._first = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        shutting_down = getattr(scope["app"].state, "shutting_down", None)
        await _first_of(self._send_all(send), _disconnected(receive), _is_set(shutting_down))
        with contextlib.suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> None:
        try:
            if self._first:
                await send({"type": "http.response.body", "body": self._first, "more_body": True})
            async for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        finally:
            await _close(self._pieces)


async def until_disconnect(request: Request, work: Awaitable[Result]) -> Result:
    """The result of ``work``, whose body must have been read; it is cancelled when nobody waits for it any more.

    Raises:
        ClientGone: if the client disconnected.
        ApiError: 503 if the server is shutting down.
    """
    task = asyncio.ensure_future(work)
    shutting_down = getattr(request.app.state, "shutting_down", None)
    await _first_of(task, _disconnected(request.receive), _is_set(shutting_down))
    if task.cancelled():
        if shutting_down is not None and shutting_down.is_set():
            raise ApiError(503, "The server is shutting down.")
        raise ClientGone
    return task.result()


async def _first_of(*work: Awaitable[Any]) -> None:
    """Run all until one ends, then cancel the others and wait for their end. Errors of the first are raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if not tasks[0].cancelled() and (error := tasks[0].exception()) is not None:
        raise error


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _is_set(event: asyncio.Event | None) -> None:
    await (event or asyncio.Event()).wait()


async def _close(pieces: AsyncIterator[bytes]) -> None:
    close = getattr(pieces, "aclose", None)
    if close is not None:
        await close()
