"""The client of an engine that runs in the test's own event loop, through the engine process's own loop: real prompts,
blocks, sampling and lines, and no process."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from pagedchat.engine import wire
from pagedchat.engine.client_calls import EngineCalls
from pagedchat.engine.config import EngineConfig
from pagedchat.engine.engine import Engine
from pagedchat.engine.generate_request import GenerateRequest, RequestStarted
from pagedchat.engine.status import EngineStatus
from pagedchat.engine.types import RequestOutput
from pagedchat.engine.worker_loop import WorkerLoop
from support.chat_engine import ScriptedModel
from support.paged_model import CheckedEngine
from support.prompts import builder_of


class LoopClient(EngineCalls):
    """One engine; steps run whenever the event loop has nothing better to do."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.requests: list[GenerateRequest] = []
        self._commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._loop = WorkerLoop(engine, self._commands, self._heard)
        self._items: dict[str, asyncio.Queue[Any]] = {}
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._pump: asyncio.Task[None] | None = None

    @property
    def status(self) -> EngineStatus:
        return EngineStatus("ready", None, "", self.engine.info())

    def watch_status(self, callback: Callable[[EngineStatus], None]) -> Callable[[], None]:
        return lambda: None

    def watch_events(self, callback: Callable[[list[dict[str, Any]]], None]) -> Callable[[], None]:
        return lambda: None

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[RequestStarted | RequestOutput, None]:
        self.requests.append(request)
        items = self._items[request.request_id] = asyncio.Queue()
        self._send({"op": "add", "request": wire.request_to_wire(request)})
        ended = False
        try:
            while not ended:
                item = await items.get()
                if isinstance(item, Exception):
                    raise item
                ended = isinstance(item, RequestOutput) and item.finish_reason is not None
                yield item
        finally:
            del self._items[request.request_id]
            if not ended:
                await self.cancel(request.request_id)

    async def cancel(self, request_id: str) -> None:
        self._send({"op": "cancel", "id": request_id})

    async def _call(self, method: str, *args: Any) -> Any:
        number = len(self._answers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._send({"op": "call", "call": number, "method": method, "args": args})
        return await self._answers[number]

    def _send(self, command: dict[str, Any]) -> None:
        self._commands.put(wire.decode(wire.encode(command)))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self.engine.has_unfinished() or not self._commands.empty():
            self._loop.turn()
            await asyncio.sleep(0)

    def _heard(self, message: dict[str, Any]) -> None:
        message = wire.decode(wire.encode(message))
        if message["type"] == "started":
            self._hand(message["started"]["request_id"], wire.started_from_wire(message["started"]))
        elif message["type"] == "refused":
            self._hand(message["id"], wire.error_from_wire(message))
        elif message["type"] == "outputs":
            for fields in message["outputs"]:
                self._hand(fields[0], wire.output_from_wire(fields))
        elif message["type"] == "reply":
            answer = self._answers[message["call"]]
            if "error" in message:
                answer.set_exception(wire.error_from_wire(message["error"]))
            elif not answer.done():
                answer.set_result(message["value"])

    def _hand(self, request_id: str, item: Any) -> None:
        if request_id in self._items:
            self._items[request_id].put_nowait(item)


def scripted_loop_client(
    template: str, num_blocks: int = 512, block_size: int = 4, client: type[LoopClient] = LoopClient, **settings: Any
) -> LoopClient:
    """Over a model that is none: what it says is a function of all it sees through its block tables."""
    builder = builder_of(template)
    tokenizer = builder._tokenizer
    engine = CheckedEngine(
        EngineConfig("scripted", block_size=block_size, num_blocks=num_blocks, **settings),
        runner=ScriptedModel(num_blocks, block_size, tokenizer.num_tokens, tokenizer.end_ids),  # type: ignore[arg-type]
        tokenizer=tokenizer,
        prompt_builder=builder,
        num_blocks=num_blocks,
    )
    engine._model_info = {"model": "scripted", "fingerprint": "scripted"}
    return client(engine)


def tiny_model_client(path: Path, **settings: Any) -> LoopClient:
    """Over a tiny model with random weights, computed in float32."""
    from support.tiny_gguf import write_gguf
    from support.tiny_tokenizers import byte_level_metadata

    if not path.exists():
        spec = tiny_spec()
        write_gguf(path, spec, metadata=byte_level_metadata())
    return LoopClient(Engine(EngineConfig(str(path), dtype="float32", device="cpu", **settings)))


def tiny_spec() -> Any:
    """A spec whose vocabulary is the byte-level tokenizer's."""
    from dataclasses import replace

    from support.tiny_gguf import TINY
    from support.tiny_tokenizers import byte_level_metadata

    return replace(TINY, vocab_size=len(byte_level_metadata()["tokenizer.ggml.tokens"]))
