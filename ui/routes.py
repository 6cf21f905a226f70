"""The page's own routes: its static files and its one WebSocket. Who may connect is the application's matter."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response, WebSocket
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocketDisconnect

from .calls import answer
from .connection import Connection
from .hub import Hub

STATIC = Path(__file__).parent / "static"
LARGEST_FRAME = 4 << 20
MOST_CALLS = 32
GOING_AWAY = 1001


def ui_router(service: Any, client: Any, recovery: Any = None, alerts: Any = None) -> APIRouter:
    """Routes under ``/ui``.

    Args:
        service: the chat service.
        client: the engine client.
        recovery: knows whether the configuration answers, and the way back; None where there is none.
        alerts: tells what warns (``view``, ``watch``); None where nothing is watched.
    """
    router, hub = APIRouter(), Hub(service, client, recovery, alerts)
    files = StaticFiles(directory=STATIC)

    @router.get("/ui/static/{name}", include_in_schema=False)
    async def static_file(name: str, request: Request) -> Response:
        response = await files.get_response(name, request.scope)
        response.headers["cache-control"] = "no-cache"
        return response

    @router.websocket("/ui/ws")
    async def page_socket(socket: WebSocket) -> None:
        await socket.accept()
        await _serve(socket, hub)

    return router


async def _serve(socket: WebSocket, hub: Hub) -> None:
    """Serve one page until it goes away or the server shuts down."""
    connection = Connection(hub, lambda data: socket.send_text(data.decode()))
    hub.join(connection)
    shutting_down = getattr(socket.app.state, "shutting_down", None)
    work = [
        asyncio.create_task(connection.pump()),
        asyncio.create_task(_listen(socket, connection)),
    ]
    if shutting_down is not None:
        work.append(asyncio.create_task(shutting_down.wait()))
    try:
        await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
    finally:
        hub.leave(connection)
        for task in work:
            task.cancel()
        for ended in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(ended, Exception) and not isinstance(ended, WebSocketDisconnect | RuntimeError):
                raise ended
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await socket.close(GOING_AWAY)


async def _listen(socket: WebSocket, connection: Connection) -> None:
    """Take calls until the page disconnects; they run side by side, so that Stop never waits for anything."""
    places = asyncio.Semaphore(MOST_CALLS)
    running: set[asyncio.Task[None]] = set()

    async def run(frame: dict[str, Any]) -> None:
        try:
            connection.answer(await answer(connection, frame))
        finally:
            places.release()

    while True:
        message = await socket.receive()
        if message["type"] != "websocket.receive":
            return
        data = message.get("text") or message.get("bytes") or b""
        if len(data) > LARGEST_FRAME:
            return
        try:
            frame = orjson.loads(data)
        except orjson.JSONDecodeError:
            return
        if not isinstance(frame, dict) or "id" not in frame:
            return
        await places.acquire()
        task = asyncio.create_task(run(frame))
        running.add(task)
        task.add_done_callback(running.discard)
