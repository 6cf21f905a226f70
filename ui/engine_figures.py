"""The engine's counters for the panel, with what the last minute brought: times to a token, tokens found cached."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ..engine.histogram import percentile

WINDOW_S = 60.0
LATENCIES = {"ttft": "time_to_first_token_seconds", "itl": "inter_token_latency_seconds"}
TOKENS = {"prompt_tokens": "prompt_tokens_total", "cached_tokens": "prompt_tokens_cached_total"}


class EngineFigures:
    """Looks at an engine's counters now and then, and remembers those of the last minute.

    Args:
        client: the engine client.
        clock: seconds that pass evenly.
        now: seconds since the epoch, as events have them.
    """

    def __init__(
        self, client: Any, clock: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._clock, self._now = clock, now
        self._past: deque[tuple[float, dict[str, Any]]] = deque()

    def begin(self) -> None:
        """Nobody has looked for a while: what was counted meanwhile is not of the last minute."""
        self._past.clear()

    async def look(self) -> dict[str, Any]:
        """Counters of this moment, its ``time`` in seconds since the epoch; ``recent`` is what came in the last minute,
        or since the first look if that was later: P50 and P95 of times to the first (``ttft``) and to the next token
        (``itl``) in seconds, None of none, how many were ``counted``, and prompt tokens.

        Raises:
            PagedChatError: the engine is not there.
        """
        stats, metrics = await asyncio.gather(self._client.stats(), self._client.metrics())
        return {**stats, "time": round(self._now(), 3), "recent": self._recent(metrics)}

    def _recent(self, metrics: dict[str, Any]) -> dict[str, Any]:
        now = self._clock()
        counts = {name: metrics["counters"][source] for name, source in TOKENS.items()}
        counted = {name: metrics["histograms"][source] for name, source in LATENCIES.items()}
        while len(self._past) > 1 and self._past[1][0] <= now - WINDOW_S:
            self._past.popleft()
        self._past.append((now, {**counts, **counted}))
        before = self._past[0][1]
        return {
            **{name: value - before[name] for name, value in counts.items()},
            **{name: _latency(histogram, before[name]) for name, histogram in counted.items()},
        }


def _latency(histogram: dict[str, Any], before: dict[str, Any]) -> dict[str, float | int | None]:
    p50, p95 = (percentile(share, histogram, before) for share in (0.5, 0.95))
    return {"p50": p50, "p95": p95, "counted": sum(histogram["counts"]) - sum(before["counts"])}
