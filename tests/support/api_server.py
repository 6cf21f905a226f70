"""The HTTP interfaces on a real port, for tests of streams and disconnects; the engine is whatever the test gives."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from pagedchat.app.api_health import health_router
from pagedchat.app.api_kv import kv_router
from pagedchat.app.api_v1 import v1_router
from pagedchat.app.watch.metrics import metrics_router
from pagedchat.engine.client import EngineClient
from pagedchat.engine.config import EngineConfig
from pagedchat.sessions.errors import SessionError
from support.engine_process import scripted_client

BRANCH = list(range(40))


class ApiServer:
    """A running server.

    Attributes:
        http: a client for it.
        engine: the engine client behind it; belongs to the server's event loop (see ``call``).
    """

    def __init__(self, make_engine: Callable[[], Any], start: EngineConfig | None) -> None:
        self._make_engine, self._start = make_engine, start
        self.engine: Any = None
        self.app = FastAPI(lifespan=self._lifespan)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._server = uvicorn.Server(uvicorn.Config(self.app, log_level="warning", timeout_graceful_shutdown=2))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=120)

    def call(self, function: Callable[[], Any]) -> Any:
        """Run a function, or await what it returns, in the server's event loop."""

        async def run() -> Any:
            result = function()
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(120)

    def shut_down(self) -> None:
        """Say that the server is going to end, as the app does before it stops."""
        self.call(lambda: self.app.state.shutting_down.set())

    def open(self) -> None:
        """Start and wait until it serves."""
        self._thread.start()
        deadline = time.monotonic() + 120
        while not self._server.started and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.002)

    def close(self) -> None:
        """End it and its engine."""
        self.http.close()
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()

    @asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        app.state.shutting_down = asyncio.Event()
        self.engine = self._make_engine()
        for router in (v1_router(self.engine), kv_router(self.engine, _branch_tokens), health_router(self.engine)):
            app.include_router(router)
        app.include_router(metrics_router(self.engine))
        if self._start is not None:
            await self.engine.start(self._start)
            await self.engine.wait_ready()
        yield
        await self.engine.close()


async def _branch_tokens(session_id: str, message_id: str | None) -> list[int]:
    if session_id != "known":
        raise SessionError("There is no such chat.")
    return BRANCH if message_id is None else BRANCH[:10]


@contextmanager
def api_server(engine: Any = None, config: EngineConfig | None = None) -> Iterator[ApiServer]:
    """A server on ``engine``, or on a real model in a child process (``config``), or on the scripted engine in one."""
    if engine is not None:
        server = ApiServer(lambda: engine, None)
    elif config is not None:
        server = ApiServer(EngineClient, config)
    else:
        server = ApiServer(scripted_client, EngineConfig("slow"))
    server.open()
    try:
        yield server
    finally:
        server.close()
