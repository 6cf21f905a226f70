"""What the engine's own work costs a step, without any model: scheduling, block pool, prefix index."""

from __future__ import annotations

import random
import statistics
import time
import tracemalloc
from dataclasses import asdict, dataclass
from typing import Any

from ...engine.config import EngineConfig
from ...engine.engine import Engine
from ...engine.sampling_params import SamplingParams
from .metrics_cost import median_us, noting_us, share_of_step, telling_us
from .no_model import VOCAB, NoModel, NoTokenizer
from .step_cost import STATED

BLOCK_SIZE = 16
SYSTEM_TOKENS = 40
GOAL_STEP_US = 300.0
GOAL_LOOKUP_US = 50.0
GOAL_METRICS = 0.01
SHORT_STEP_S = 0.005
"""A step that no model here undercuts with so many requests."""


@dataclass
class SchedulingReport:
    """Medians in microseconds, memory in bytes.

    Attributes:
        schedule_us, pool_us: planning a step of ``running`` decoding requests, and publishing what it computed.
        batch_us: laying the step's rows out for the model.
        lookup_us: finding a prompt's prefix among ``chats`` that begin with the same system prompt.
        fork_us: a fork of a running request and its end.
        bytes_a_request: what the engine's memory grows by with each request served, once the pool is full.
        metrics_us, metrics_told_us: noting the metrics of such a step, and telling them all once a second.
    """

    running: int
    num_blocks: int
    chats: int
    schedule_us: float
    pool_us: float
    batch_us: float
    lookup_us: float
    fork_us: float
    bytes_a_request: float
    metrics_us: float
    metrics_told_us: float

    @property
    def metrics_share(self) -> float:
        """Share that metrics have of a step of 5 ms, 0 to 1."""
        return share_of_step(self.metrics_us, self.metrics_told_us, SHORT_STEP_S)

    @property
    def metrics_share_of_model(self) -> float:
        """Share that metrics have of the default model's step with so many requests of 250 tokens."""
        return share_of_step(self.metrics_us, self.metrics_told_us, STATED.seconds(self.running, 250 * self.running))

    @property
    def passed(self) -> bool:
        """Whether the goals are reached: 300 us a step for scheduling and pool, 50 us a lookup, 1 % for metrics."""
        quick = self.schedule_us + self.pool_us <= GOAL_STEP_US and self.lookup_us <= GOAL_LOOKUP_US
        return quick and self.metrics_share <= GOAL_METRICS

    def to_dict(self) -> dict[str, Any]:
        """All figures and the verdict."""
        shares = {"metrics_share": self.metrics_share, "metrics_share_of_model": self.metrics_share_of_model}
        return {**asdict(self), **shares, "passed": self.passed}


def run_scheduling(
    running: int = 64, num_blocks: int = 50_000, chats: int = 10_000, steps: int = 200
) -> SchedulingReport:
    """Measure one engine without a model."""
    rng = random.Random(1)
    busy = _engine(running, num_blocks)
    for index in range(running):
        busy.add_request(str(index), _tokens(rng, 200 + 10 * index), SamplingParams(temperature=0, max_tokens=1 << 19))
    while len(busy.scheduler.running) < running or any(one.num_to_compute > 1 for one in busy.scheduler.running):
        busy.step()
    schedule, pool, batch = _steps(busy, steps)
    noting, telling = noting_us(busy, BLOCK_SIZE), telling_us(busy)
    crowd = _engine(running, num_blocks)
    system = _tokens(rng, SYSTEM_TOKENS)
    bytes_a_request = _fill(crowd, system, chats, rng)
    queries = [[*system, *_tokens(rng, 60)] for _ in range(500)]
    lookup = median_us(lambda query: crowd.kv.match(query, "", len(query) - 1), queries)
    fork = _fork_us(busy, steps)
    return SchedulingReport(
        running, num_blocks, chats, schedule, pool, batch, lookup, fork, bytes_a_request, noting, telling
    )


def scheduling_lines(report: SchedulingReport) -> list[str]:
    """The figures as text, with the goals."""
    step = report.schedule_us + report.pool_us
    return [
        f"{report.running} requests that decode, {report.num_blocks:,} blocks; medians of a step",
        f"  scheduling            {report.schedule_us:8.0f} us",
        f"  block pool            {report.pool_us:8.0f} us",
        f"  together              {step:8.0f} us   goal: at most {GOAL_STEP_US:.0f}",
        f"  laying out the batch  {report.batch_us:8.0f} us",
        f"  metrics               {report.metrics_us:8.1f} us   and {report.metrics_told_us:.0f} us each second: "
        f"{report.metrics_share:.2%} of a step of {SHORT_STEP_S * 1e3:.0f} ms   goal: at most {GOAL_METRICS:.0%}",
        f"                                       {report.metrics_share_of_model:.2%} of the default model's step",
        f"{report.chats:,} chats under one system prompt",
        f"  finding a prefix      {report.lookup_us:8.0f} us   goal: at most {GOAL_LOOKUP_US:.0f}",
        f"  a fork and its end    {report.fork_us:8.0f} us",
        f"  memory a request      {report.bytes_a_request:8.0f} B    until all that is remembered of the past is full",
        "goals met" if report.passed else "a goal was MISSED",
    ]


def _engine(running: int, num_blocks: int) -> Engine:
    config = EngineConfig(
        "none", block_size=BLOCK_SIZE, num_blocks=num_blocks, max_num_seqs=running + 1, max_num_batched_tokens=8192
    )
    return Engine(config, runner=NoModel(), tokenizer=NoTokenizer(), num_blocks=num_blocks)  # type: ignore[arg-type]


def _tokens(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(VOCAB) for _ in range(count)]


def _steps(engine: Engine, steps: int) -> tuple[float, float, float]:
    """Medians of scheduling, pool work and batch building over some steps, in microseconds."""
    from ...engine.step_batch import build_batch

    times: list[tuple[float, float, float]] = []
    for _ in range(steps):
        began = time.perf_counter()
        plan = engine.scheduler.schedule()
        planned = time.perf_counter()
        build_batch(plan, engine.kv.block_size, engine.kv.copies, engine.kv.windows)
        built = time.perf_counter()
        for one in plan:
            engine.kv.commit(one.request, one.num_tokens)
        engine.kv.step_done()
        committed = time.perf_counter()
        for one in plan:
            one.request.token_ids.append(7)
        engine.drain_events()
        times.append((planned - began, committed - built, built - planned))
    schedule, pool, batch = (statistics.median(column) * 1e6 for column in zip(*times, strict=True))
    return schedule, pool, batch


def _fill(engine: Engine, system: list[int], chats: int, rng: random.Random) -> float:
    """Serve many chats; bytes that the last fifth of them left in memory, a request."""
    last = max(1, chats // 5)
    before = 0
    for index in range(chats):
        if index == chats - last:
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
        engine.add_request(str(index), [*system, *_tokens(rng, 60)], SamplingParams(temperature=0, max_tokens=4))
        while engine.has_unfinished():
            engine.step()
        engine.drain_events()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return grown / last


def _fork_us(engine: Engine, times: int) -> float:
    from ...engine.request import Request

    source = engine.scheduler.running[0]

    def fork(index: int) -> None:
        target = Request(f"fork{index}", source.token_ids, source.params, index, 0.0, 0, 1)
        engine.kv.fork(source, target)
        engine.kv.free(target)

    return median_us(fork, list(range(times)))
