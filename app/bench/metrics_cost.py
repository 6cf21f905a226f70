"""What the engine's metrics cost a step: what is noted in it, and what is told of them once a second."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...engine import wire
from ...engine.worker_loop import METRICS_EVERY_S

if TYPE_CHECKING:
    from ...engine.engine import Engine

TRIES = 300


def noting_us(engine: Engine, block_size: int) -> float:
    """Microseconds of noting one step in which every running request gets a token: the step, each token's latency, and
    a new block for one in ``block_size`` requests."""
    counters, history, clock = engine.counters, engine.kv.pool.history, time.monotonic
    running = engine.scheduler.running
    fresh = list(range(max(1, len(running) // block_size)))

    def note(_: int) -> None:
        now, gaps = clock(), []
        for request in running:
            gaps.append(now - request.last_token_at)  # one by one, as the engine does it
            request.last_token_at = now
        counters.note_tokens(gaps)
        counters.note_step(len(running))
        for block in fresh:
            history.note_allocated([block])

    allocated = history.allocated
    took = median_us(note)
    history.allocated = allocated
    return took


def telling_us(engine: Engine) -> float:
    """Microseconds of telling all metrics to the parent process, once in `METRICS_EVERY_S`."""
    return median_us(lambda _: wire.encode({"type": "metrics", "metrics": engine.metrics()}))


def share_of_step(noting: float, telling: float, step_s: float) -> float:
    """Share of a step's time that metrics take, 0 to 1, noting and telling (in microseconds) together."""
    return noting / 1e6 / step_s + telling / 1e6 / METRICS_EVERY_S


def median_us(work: Callable[[Any], object], arguments: Iterable[Any] = range(TRIES)) -> float:
    """Microseconds of ``work`` with one of ``arguments``, the median of all."""
    times = []
    for argument in arguments:
        began = time.perf_counter()
        work(argument)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6
