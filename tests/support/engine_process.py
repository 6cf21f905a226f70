"""Runs async tests against the real child process with the scripted engine in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pagedchat.engine.client import EngineClient
from pagedchat.engine.config import EngineConfig
from pagedchat.engine.generate_request import GenerateRequest, RequestStarted
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.types import RequestOutput

SCRIPTED = "support.scripted_engine:ScriptedEngine"
TESTS_FOLDER = str(Path(__file__).parents[1])


def scripted_client(**options: Any) -> EngineClient:
    """A client whose child runs the scripted engine."""
    return EngineClient(engine=SCRIPTED, env={"PYTHONPATH": TESTS_FOLDER}, **options)


@asynccontextmanager
async def running_client(
    model: str = "good", *, config: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[EngineClient]:
    """A started and ready client, closed in the end. ``config`` are more settings of the engine."""
    client = scripted_client(**options)
    try:
        await client.start(EngineConfig(model, **(config or {})))
        await client.wait_ready()
        yield client
    finally:
        await client.close()


def with_client(test: Callable[[EngineClient], Awaitable[None]], model: str = "good", **options: Any) -> None:
    """Run ``test`` with a ready client, for 30 s at most."""

    async def run() -> None:
        async with asyncio.timeout(30), running_client(model, **options) as client:
            await test(client)

    asyncio.run(run())


def asked(prompt: str, max_tokens: int | None = None, **fields: Any) -> GenerateRequest:
    """A request for a text prompt."""
    return GenerateRequest(SamplingParams(max_tokens=max_tokens), prompt=prompt, **fields)


async def answer(client: EngineClient, request: GenerateRequest) -> tuple[RequestStarted, list[RequestOutput]]:
    """The whole reply."""
    started, outputs = None, []
    async for item in client.generate(request):
        if isinstance(item, RequestStarted):
            started = item
        else:
            outputs.append(item)
    assert started is not None
    return started, outputs


def text_of(outputs: list[RequestOutput]) -> str:
    """Joined text."""
    return "".join(output.text for output in outputs)


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
