"""What the panel's tour measures: the same few short replies one after the other and all at once.

```
one after the other   |--1--||--2--||--3--||--4--|      as if only one request might run
all at once           |---1---|                         pages of all four lie in the pool together
                      |---2---|
                      |---3---|
                      |---4---|
```
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any
from uuid import uuid4

from ..engine.errors import EngineError
from ..engine.generate_request import OWN_WORK, GenerateRequest, RequestStarted
from ..engine.pool_views import spread
from ..engine.sampling_params import SamplingParams
from .views import View

MOST_REPLIES = 4
REPLY_TOKENS = 24


@dataclass
class Run:
    """How some replies went.

    Attributes:
        tokens: of all replies together.
        seconds: from the start of the first to the end of the last.
        rate: tokens a second of all together, prompts included.
        rate_each: tokens a second of one reply from its first token to its last, the mean of all; None where they
            were too short to tell.
        peak_blocks: the most blocks that were in use at a time, those of others included.
    """

    tokens: int
    seconds: float
    rate: float
    rate_each: float | None
    peak_blocks: int


class BlocksInUse:
    """The most blocks in use at a time, followed by the engine's events from a snapshot on."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._held: set[int] | None = None
        self._early: list[dict[str, Any]] = []
        self.peak = 0

    async def __aenter__(self) -> BlocksInUse:
        self._leave = self._client.watch_events(self._take)
        pool = await self._client.brief()
        self._held = set(spread(pool["held"]))
        self.peak = len(self._held)
        self._take([event for event in self._early if event["seq"] > pool["seq"]])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _take(self, events: list[dict[str, Any]]) -> None:
        if self._held is None:
            self._early += events
            return
        for event in events:
            for block, state in zip(event["blocks"], event.get("states") or "", strict=False):
                (self._held.add if state in "as" else self._held.discard)(block)
            self.peak = max(self.peak, len(self._held))


async def measure(client: Any, question: View) -> View:
    """Both runs, on a chat's own prompt: {"replies", "alone", "together"}, the last two with the fields of `Run`.

    Nothing of it stays in the cache, is stored, or counts in the metrics of users' requests.

    Args:
        question: the prompt as arguments of ``EngineClient.probe``.

    Raises:
        PagedChatError: the engine is not there, or a reply ended with an error.
    """
    replies = max(1, min(MOST_REPLIES, client.status.info.get("max_num_seqs") or MOST_REPLIES))
    alone = await _run(client, question, replies, at_once=False)
    together = await _run(client, question, replies, at_once=True)
    return {"replies": replies, "alone": asdict(alone), "together": asdict(together)}


async def _run(client: Any, question: View, replies: int, at_once: bool) -> Run:
    async with BlocksInUse(client) as blocks:
        began = time.monotonic()
        if at_once:
            ended = await asyncio.gather(*(_reply(client, question, seed) for seed in range(replies)))
        else:
            ended = [await _reply(client, question, seed) for seed in range(replies)]
        took = max(time.monotonic() - began, 1e-6)
    tokens = sum(count for count, _ in ended)
    rates = [rate for _, rate in ended if rate is not None]
    return Run(tokens, took, tokens / took, sum(rates) / len(rates) if rates else None, blocks.peak)


async def _reply(client: Any, question: View, seed: int) -> tuple[int, float | None]:
    """Tokens of one short reply, and how many came in a second from its first to its last."""
    request = GenerateRequest(
        params=SamplingParams(max_tokens=REPLY_TOKENS, seed=seed, ignore_eos=True),
        request_id=f"{OWN_WORK}tour-{uuid4().hex}",
        messages=question["messages"],
        begun_at=question["begun_at"],
        trim=True,
        salt=question["salt"],
        keep=False,
    )
    tokens = first_tokens = 0
    first = last = 0.0
    async with aclosing(client.generate(request)) as items:
        async for item in items:
            if isinstance(item, RequestStarted):
                continue
            if item.finish_reason in ("error", "abort"):
                raise EngineError(item.error or "The engine ended the measurement; try again.")
            last = time.monotonic()
            tokens += len(item.token_ids)
            if not first and tokens:
                first, first_tokens = last, tokens
    return tokens, (tokens - first_tokens) / (last - first) if tokens > first_tokens and last > first else None
