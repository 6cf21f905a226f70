"""What the sockets of pages and of terminals have in common: calls come in as frames, and run side by side."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect

Frame = dict[str, Any]


async def next_frame(socket: WebSocket, largest: int) -> Frame | None:
    """The next call, an object with an ``id``; None when the other side is gone or has sent anything else.

    Args:
        largest: characters or bytes that a frame may have.
    """
    message = await socket.receive()
    if message["type"] != "websocket.receive":
        return None
    data = message.get("text") or message.get("bytes") or b""
    if len(data) > largest:
        return None
    try:
        frame = orjson.loads(data)
    except orjson.JSONDecodeError:
        frame = _whole(data)
    return frame if isinstance(frame, dict) and isinstance(frame.get("id"), int) else None


def _whole(data: str | bytes) -> Any:
    """A frame with halves of characters (lone surrogates) in its texts: browsers send them, but no file can hold them,
    so each is U+FFFD here. None if it is no JSON either way."""
    try:
        text = json.dumps(json.loads(data), ensure_ascii=False)
        return orjson.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        return None


async def take_calls(socket: WebSocket, largest: int, most: int, run: Callable[[Frame], Awaitable[None]]) -> None:
    """Run each call that comes, ``most`` at once, side by side, so that Stop never waits for anything."""
    places = asyncio.Semaphore(most)
    running: set[asyncio.Task[None]] = set()

    async def run_one(frame: Frame) -> None:
        try:
            await run(frame)
        finally:
            places.release()

    while (frame := await next_frame(socket, largest)) is not None:
        await places.acquire()
        task = asyncio.create_task(run_one(frame))
        running.add(task)
        task.add_done_callback(running.discard)


async def until_one_ends(*work: Coroutine[Any, Any, Any]) -> None:
    """Work side by side until the first ends, and cancel the others. That a socket is gone is no error."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception) and not isinstance(ended, WebSocketDisconnect | RuntimeError):
                raise ended
