"""The client of a real engine that lives in the test's own process: starts in a moment, once torch is there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

from pagedchat.engine.config import EngineConfig
from pagedchat.engine.engine import Engine
from pagedchat.engine.errors import PagedChatError
from pagedchat.engine.generate_request import GenerateRequest, RequestStarted
from pagedchat.engine.types import RequestOutput
from support.fake_client import FakeEngineClient


class LocalEngineClient(FakeEngineClient):
    """Loads and runs what it is told to; one request at a time."""

    def __init__(self) -> None:
        super().__init__(ready=False)
        self._engine: Engine | None = None
        self._end_watchers: list[Callable[[Any], None]] = []

    async def start(self, config: EngineConfig) -> None:
        self.set_status("loading")
        try:
            self._engine = Engine(config)
        except PagedChatError as error:
            self.set_failed(str(error))
            return
        self._info = {**self._engine.info(), "compiling": False}  # nothing here waits for other kernels
        self.set_status("ready")

    def watch_ends(self, callback: Callable[[Any], None]) -> Callable[[], None]:
        self._end_watchers.append(callback)
        return lambda: self._end_watchers.remove(callback)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[RequestStarted | RequestOutput, None]:
        assert self._engine is not None and request.prompt_token_ids is not None
        self._engine.add_request(request.request_id, request.prompt_token_ids, request.params)
        while self._engine.has_unfinished():
            for output in self._engine.step():
                if output.finish_reason:
                    for watcher in self._end_watchers:
                        watcher(output)
                yield output
