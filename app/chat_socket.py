"""The socket by which a terminal chats beside the page: calls in, answers and events of the chats out.

    {"id": 1, "call": "hello", "with": {"version": ...}}     the first frame; another version is refused
    {"id": 2, "call": "send", "with": {"text": ...}}         -> {"re": 2, "ok": ...} or {"re": 2, "error": "..."}
    {"id": 3, "call": "follow", "with": {"on": true}}        from then on {"event": ...} for all that happens

Who may connect is the application's matter (`security`): a program without Origin on this computer, no foreign page.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import deque
from typing import Any

import orjson
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from .. import __version__
from ..ui.sockets import Frame, next_frame, take_calls, until_one_ends
from .chat_calls import GOING_AWAY, LARGEST_FRAME, PATH, answer

MOST_CALLS = 16
MOST_EVENTS = 10_000
"""Frames that wait for a terminal that does not read, before it is let go."""
FLUSH_S = 1.0
REFUSED = 1008


def chat_router(service: Any, client: Any) -> APIRouter:
    """The route of terminals.

    Args:
        service: the chat service.
        client: the engine client.
    """
    router = APIRouter()

    @router.websocket(PATH)
    async def chats(socket: WebSocket) -> None:
        await socket.accept()
        await _Terminal(socket, service, client).serve()

    return router


class _Terminal:
    """One terminal that is connected. Text that it has not read yet is put together, so that it never lies behind by
    more than what there is to say."""

    def __init__(self, socket: WebSocket, service: Any, client: Any) -> None:
        self._socket = socket
        self._service = service
        self._client = client
        self._out: deque[dict[str, Any]] = deque()
        self._wake = asyncio.Event()
        self._unsubscribe: Any = None
        self._full = asyncio.Event()

    async def serve(self) -> None:
        """Serve it until it goes away or the server ends."""
        shutting_down: asyncio.Event = self._socket.app.state.shutting_down
        if not await self._greet():
            return
        calls = take_calls(self._socket, LARGEST_FRAME, MOST_CALLS, self._run)
        try:
            await until_one_ends(self._pump(), calls, shutting_down.wait(), self._full.wait())
        finally:
            self._follow(False)
            await self._end(GOING_AWAY)

    async def _greet(self) -> bool:
        """The first frame: whether terminal and server are of one version."""
        frame = await next_frame(self._socket, LARGEST_FRAME)
        if frame is None or frame.get("call") != "hello":
            await self._end(REFUSED)
            return False
        theirs = _arguments(frame).get("version")
        if theirs != __version__:
            sentence = (
                f"This terminal is pagedchat {theirs}, and the server on this data folder is {__version__}; end the "
                "server and start it again."
            )
            self._out.append({"re": frame["id"], "error": sentence})
            await self._end(REFUSED)
            return False
        self._put({"re": frame["id"], "ok": {"version": __version__}})
        return True

    async def _run(self, frame: Frame) -> None:
        if frame.get("call") == "follow":
            self._follow(bool(_arguments(frame).get("on")))
            self._put({"re": frame["id"], "ok": None})
        else:
            self._put(await answer(self._service, self._client, frame))

    # -- what goes out ----------------------------------------------------------------------------------------------

    def _follow(self, on: bool) -> None:
        if on and self._unsubscribe is None:
            self._unsubscribe = self._service.subscribe(self._hear)
        elif not on and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _hear(self, event: dict[str, Any]) -> None:
        last = self._out[-1].get("event") if self._out else None
        if last is not None and goes_on(last, event):
            self._out[-1] = {"event": {**last, "text": last["text"] + event["text"], "tokens": event["tokens"]}}
        else:
            self._put({"event": event})

    def _put(self, frame: dict[str, Any]) -> None:
        self._out.append(frame)
        self._wake.set()
        if len(self._out) > MOST_EVENTS:
            self._full.set()

    async def _pump(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._out:
                await self._socket.send_text(encoded(self._out.popleft()))

    async def _end(self, code: int) -> None:
        """Send what there is, then close."""
        with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                while self._out and not self._full.is_set():
                    await self._socket.send_text(encoded(self._out.popleft()))
                await self._socket.close(code)


def _arguments(frame: dict[str, Any]) -> dict[str, Any]:
    given = frame.get("with")
    return given if isinstance(given, dict) else {}


def goes_on(last: dict[str, Any], event: dict[str, Any]) -> bool:
    """Whether an event of text goes on right where ``last`` ends."""
    return (
        event["type"] in ("delta", "reasoning")
        and last["type"] == event["type"]
        and last["message_id"] == event["message_id"]
        and last["offset"] + len(last["text"]) == event["offset"]
    )


def encoded(frame: dict[str, Any]) -> str:
    """A frame as JSON; bytes in it become ``{"base64": ...}``, paths their text."""
    return orjson.dumps(frame, default=_plain).decode()


def _plain(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes | bytearray) else str(value)
