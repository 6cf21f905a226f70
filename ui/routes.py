"""The page's own routes: its static files and its one WebSocket. Who may connect is the application's matter."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response, WebSocket
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocketDisconnect

from .block_text import is_near
from .calls import answer
from .connection import Connection
from .file_routes import add_file_routes
from .hub import Hub
from .sockets import Frame, take_calls, until_one_ends

STATIC = Path(__file__).parent / "static"
LARGEST_FRAME = 4 << 20
MOST_CALLS = 32
GOING_AWAY = 1001


def ui_router(
    service: Any, client: Any, recovery: Any = None, alerts: Any = None, installation: Any = None
) -> APIRouter:
    """Routes under ``/ui``.

    Args:
        service: the chat service.
        client: the engine client.
        recovery: knows whether the configuration answers, and the way back; None where there is none.
        alerts: tells what warns (``view``, ``watch``); None where nothing is watched.
        installation: tells of folders, models and caches (``facts``, ``measure``, ``clear_cache``); None where nothing
            is known of them.
    """
    router, hub = APIRouter(), Hub(service, client, recovery, alerts, installation)
    files = StaticFiles(directory=STATIC)

    @router.get("/ui/static/{name}", include_in_schema=False)
    async def static_file(name: str, request: Request) -> Response:
        response = await files.get_response(name, request.scope)
        response.headers["cache-control"] = "no-cache"
        return response

    add_file_routes(router, service)

    @router.websocket("/ui/ws")
    async def page_socket(socket: WebSocket) -> None:
        await socket.accept()
        await _serve(socket, hub)

    return router


async def _serve(socket: WebSocket, hub: Hub) -> None:
    """Serve one page until it goes away or the server shuts down."""
    connection = Connection(hub, lambda data: socket.send_text(data.decode()), near=is_near(socket.scope))
    shutting_down = getattr(socket.app.state, "shutting_down", None)

    async def run(frame: Frame) -> None:
        connection.answer(await answer(connection, frame))

    ends = [shutting_down.wait()] if shutting_down is not None else []
    hub.join(connection)
    try:
        await until_one_ends(connection.pump(), take_calls(socket, LARGEST_FRAME, MOST_CALLS, run), *ends)
    finally:
        hub.leave(connection)
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await socket.close(GOING_AWAY)
