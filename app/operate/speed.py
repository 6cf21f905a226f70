"""A quick look at speed: one prompt, one reply, and the engine's own clock. A few seconds; benches measure better."""

from __future__ import annotations

import asyncio
import http.client
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from ...engine.client import EngineClient
from ...engine.config import EngineConfig
from ...engine.errors import EngineError, PagedChatError
from ...engine.generate_request import GenerateRequest, RequestStarted
from ...engine.sampling_params import SamplingParams
from ...engine.types import RequestMetrics
from ..instance import RunningServer, ask_json

PROMPT_TOKENS = 512
REPLY_TOKENS = 64
KERNELS_S = 90.0
LOOK_AGAIN_S = 0.2
ASK_AGAIN_S = 1.0
WORDS = ("river", "stone", "seven", "because", "window", "under", "light", "walk", "green", "paper", "morning", "far")


@dataclass(frozen=True)
class Speed:
    """Tokens per second of one chat: ``prefill`` of a prompt of ``prompt_tokens``, ``decode`` of the reply."""

    prefill: float
    decode: float
    prompt_tokens: int
    reply_tokens: int


def words(count: int) -> str:
    """So many plain words in an order that no cache knows."""
    chosen = random.Random(uuid4().int)
    return " ".join(chosen.choice(WORDS) for _ in range(count))


def speed_from(prompt_tokens: int, reply_tokens: int, prefill_s: float, decode_s: float) -> Speed:
    """Rates from times; the first token of the reply belongs to the prompt."""
    decode = (reply_tokens - 1) / decode_s if decode_s > 0 else 0.0
    return Speed(prompt_tokens / max(prefill_s, 1e-9), decode, prompt_tokens, reply_tokens)


async def try_engine(
    config: EngineConfig,
    log: Path,
    tell: Callable[[str], None] = lambda line: None,
    make_client: Callable[..., Any] = EngineClient,
) -> tuple[dict[str, Any], Speed | None]:
    """Start an engine of its own with ``config`` and let it answer.

    Returns:
        What it says of itself, and how quick it was.

    Raises:
        EngineError: it cannot start, or did not answer; with the reason.
    """
    client = make_client(log_path=log)
    try:
        tell("Loading the model")
        await client.start(config)
        await client.wait_ready()
        await _compiled(client, tell)
        tell("Measuring")
        return client.status.info, await _measure(client)
    finally:
        await client.close()


async def _compiled(client: Any, tell: Callable[[str], None]) -> None:
    """Wait while kernels are compiled, but not for ever."""
    if client.status.info.get("compiling"):
        tell("Compiling the kernels, once for this version and processor")
    end = asyncio.get_running_loop().time() + KERNELS_S
    while client.status.info.get("compiling") and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(LOOK_AGAIN_S)
        await client.refresh_info()


async def _measure(client: Any) -> Speed | None:
    limit = client.status.info.get("max_model_len", PROMPT_TOKENS + REPLY_TOKENS)
    prompt_tokens = max(1, min(PROMPT_TOKENS, limit - REPLY_TOKENS - 1))
    ids = (await client.tokenize(words(PROMPT_TOKENS)))[:prompt_tokens]
    await _reply(client, ids[:16], 4)  # what is lazy happens now
    metrics = await _reply(client, ids[16:], REPLY_TOKENS)
    if metrics is None or not metrics.prefill_s:
        return None
    return speed_from(metrics.computed_tokens, metrics.completion_tokens, metrics.prefill_s, metrics.decode_s)


async def _reply(client: Any, ids: list[int], tokens: int) -> RequestMetrics | None:
    params = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True)
    metrics = None
    async for item in client.generate(GenerateRequest(params, prompt_token_ids=ids)):
        if isinstance(item, RequestStarted):
            continue
        metrics = item.metrics or metrics
        if item.finish_reason == "error":
            raise EngineError(item.error or "The engine did not answer.")
    return metrics


def wait_for_kernels(server: RunningServer, info: dict[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
    """Wait while the server compiles its kernels, but not for ever: until then replies take many times as long.

    Returns:
        What it says of itself then; "compiling" where they are not ready yet.

    Raises:
        PagedChatError: it did not answer.
    """
    if info.get("compiling"):
        tell("The server compiles its kernels, once for this version and processor; waiting for them")
    end = time.monotonic() + KERNELS_S
    while info.get("compiling") and time.monotonic() < end:
        time.sleep(ASK_AGAIN_S)
        status, fresh = ask_json(server, "GET", "/health")
        info = fresh if status == http.client.OK else info
    return info


def ask_server(server: RunningServer, model: str) -> Speed | None:
    """The same against the server that runs: its timeline says how long prompt and reply took.

    Raises:
        PagedChatError: it refused, with its reason.
    """
    body = {
        "model": model,
        "prompt": words(PROMPT_TOKENS - 100),
        "max_tokens": REPLY_TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "own_work": True,  # no user's request: counted nowhere, and no proof that anybody was answered
        "cache_salt": uuid4().hex,  # nothing of this is found by others, or finds anything of theirs
    }
    status, answer = ask_json(server, "POST", "/v1/completions", body)
    if status != 200:
        raise PagedChatError(answer["error"]["message"])
    _, known = ask_json(server, "GET", "/api/kv/requests")
    wanted = (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"])
    for one in reversed(known["requests"]):
        metrics = one.get("metrics") or {}
        if (metrics.get("prompt_tokens"), metrics.get("completion_tokens")) == wanted and metrics.get("prefill_s"):
            return speed_from(metrics["computed_tokens"], wanted[1], metrics["prefill_s"], metrics["decode_s"])
    return None
