"""Serving a load of known arrivals on an engine in this process, in real or in virtual time, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...engine.sampling_params import SamplingParams

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from ...engine.kv_cache_manager import KVCacheManager
    from ...engine.request import Request
    from ...engine.types import RequestOutput


class VirtualClock:
    """Seconds that pass only when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@dataclass(frozen=True)
class Arrival:
    """A request to come: ``at_s`` seconds after the start, ``max_tokens`` tokens long in its reply."""

    at_s: float
    prompt: list[int]
    max_tokens: int


@dataclass
class Served:
    """How one request was served; seconds, and the times between its tokens."""

    arrival: Arrival
    admitted_s: float | None = None
    token_times: list[float] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    preemptions: int = 0
    cached_tokens: int = 0
    error: str | None = None

    @property
    def queue_s(self) -> float:
        """From arrival to admission."""
        return (self.token_times[0] if self.admitted_s is None else self.admitted_s) - self.arrival.at_s

    @property
    def ttft_s(self) -> float:
        """From arrival to the first token."""
        return self.token_times[0] - self.arrival.at_s

    @property
    def itl_s(self) -> list[float]:
        """Between one token and the next."""
        return [later - one for one, later in pairwise(self.token_times)]

    @property
    def tpot_s(self) -> float | None:
        """Mean time of a token after the first; None for replies of one token."""
        gaps = self.itl_s
        return sum(gaps) / len(gaps) if gaps else None


@dataclass
class StepSample:
    """A moment of the load: requests in the step, and the KV right after it.

    Attributes:
        rows: tokens computed.
        live_tokens, slots: tokens with live KV, and slots of the blocks in use.
    """

    at_s: float
    seconds: float
    running: int
    rows: int
    live_tokens: int
    slots: int


@dataclass
class Replay:
    """What a load brought."""

    requests: list[Served]
    steps: list[StepSample]
    seconds: float
    preemptions: int

    @property
    def tokens(self) -> int:
        """Tokens of all replies."""
        return sum(len(one.ids) for one in self.requests)

    @property
    def tokens_per_s(self) -> float:
        """Reply tokens a second, from the first arrival to the last token."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def mean_over_time(self, value: Callable[[StepSample], float]) -> float:
        """A figure's mean, each step weighted with its length."""
        total = sum(step.seconds for step in self.steps)
        return sum(value(step) * step.seconds for step in self.steps) / total if total else 0.0

    @property
    def utilization(self) -> float:
        """Tokens with live KV a slot of blocks in use, over time."""
        slots = self.mean_over_time(lambda step: step.slots)
        return self.mean_over_time(lambda step: step.live_tokens) / slots if slots else 0.0


def replay(
    engine: Engine,
    arrivals: Sequence[Arrival],
    clock: VirtualClock | None = None,
    on_events: Callable[[list[dict[str, Any]]], None] = lambda events: None,
) -> Replay:
    """Serve a load to its end, greedily, every reply as long as its arrival says.

    Args:
        clock: the engine's virtual one; None for real time, in which it waits for the next arrival.
        on_events: called after each step with the pool's events.
    """
    now, began = _time_of(clock)
    waiting = sorted(enumerate(arrivals), key=lambda one: one[1].at_s)
    served = [Served(one) for one in arrivals]
    steps: list[StepSample] = []
    probe = _Probe(engine)
    while waiting or engine.has_unfinished():
        while waiting and waiting[0][1].at_s <= now() - began:
            index, one = waiting.pop(0)
            params = SamplingParams(temperature=0, max_tokens=one.max_tokens, ignore_eos=True)
            engine.add_request(str(index), one.prompt, params)
        if not engine.has_unfinished():
            _pass(clock, waiting[0][1].at_s - (now() - began))
            continue
        start = now()
        outputs = engine.step()
        end = now()
        on_events(engine.drain_events())
        for output in outputs:
            _note(served[int(output.request_id)], output, end - began)
        for request in probe.planned:
            served_one = served[int(request.parent_id)]
            if served_one.admitted_s is None:
                served_one.admitted_s = start - began
        if probe.planned:
            steps.append(probe.sample(start - began, end - start))
    return Replay(served, steps, now() - began, engine.scheduler.num_preemptions)


def live_slots(kv: KVCacheManager, requests: Iterable[Request]) -> int:
    """Slots that hold live KV of these requests, those of shared blocks once."""
    filled: dict[int, int] = {}
    size = kv.block_size
    for request in requests:
        for table in request.tables:
            for logical, block in enumerate(table):
                here = min(size, request.num_computed - logical * size)
                if here > filled.get(block, 0):
                    filled[block] = here
    return sum(filled.values())


class _Probe:
    """Sees each step of an engine as it is planned."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.planned: list[Request] = []
        self._rows = 0
        engine.before_step = self._before

    def _before(self, num_tokens: int) -> None:
        self.planned = list(self.engine.scheduler.running)
        self._rows = num_tokens

    def sample(self, at_s: float, seconds: float) -> StepSample:
        kv, running, planned = self.engine.kv, self.engine.scheduler.running, self.planned
        self.planned = []
        live = live_slots(kv, running) if kv.enable_caching else sum(one.num_computed for one in running)
        return StepSample(at_s, seconds, len(planned), self._rows, live, kv.pool.num_active * kv.block_size)


def _note(served: Served, output: RequestOutput, at_s: float) -> None:
    served.ids += output.token_ids
    served.token_times += [at_s] * len(output.token_ids)
    if output.error:
        served.error = output.error
    if output.metrics is not None:
        served.preemptions, served.cached_tokens = output.metrics.preemptions, output.metrics.cached_tokens


def _time_of(clock: VirtualClock | None) -> tuple[Callable[[], float], float]:
    now: Any = time.perf_counter if clock is None else clock
    return now, now()


def _pass(clock: VirtualClock | None, seconds: float) -> None:
    if clock is None:
        time.sleep(max(0.0, seconds))
    else:
        clock.advance(max(0.0, seconds) + 1e-9)
