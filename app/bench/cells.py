"""Ways to serve that benches compare: KV reserved or paged, batches static or continuous; the rest stays the same.

    contiguous   a block is as long as the context: a request holds one from admission to end, whatever it uses of it
    paged        small blocks, taken when they are needed
    static       a batch forms, runs to its end, and only then the next one forms
    continuous   requests join at any step, as far as there is room

Engine, scheduler, sampler and kernels are those that serve; a way differs in settings and in when it admits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...engine.config import EngineConfig
from ...engine.engine import Engine
from ...engine.scheduler import Scheduled, Scheduler
from ..operate.snapshot import configuration_snapshot

if TYPE_CHECKING:
    from ...engine.models.checkpoint import Checkpoint
    from ...engine.prefix_index import Match
    from ...engine.request import Request
    from ..settings import Settings

BLOCK_SIZE = 16
CHUNK = 128
"""Blocks longer than this are multiples of it (the compiled attention's chunk)."""


@dataclass(frozen=True)
class Way:
    """One way to serve: ``memory`` is contiguous or paged, ``batching`` static or continuous."""

    memory: str
    batching: str
    caching: bool = False

    def __str__(self) -> str:
        return f"{self.memory}, {self.batching}" + (", prefix cache" if self.caching else "")


FOUR_WAYS = tuple(Way(memory, batching) for memory in ("contiguous", "paged") for batching in ("static", "continuous"))
CONTIGUOUS, PAGED = Way("contiguous", "continuous"), Way("paged", "continuous")
CACHED = Way("paged", "continuous", caching=True)


def bench_configuration(checkpoint: Checkpoint | None = None, settings: Settings | None = None) -> dict[str, Any]:
    """The configuration of a bench that runs in this process, with the model if it uses one.

    Args:
        settings: those in force, where a result is to speak for them; the defaults when None.
    """
    info = {}
    if checkpoint is not None:
        info = {"model": checkpoint.name, "fingerprint": checkpoint.fingerprint, "device": "cpu"}
    return configuration_snapshot(settings, info)


class AnyBlockSize(EngineConfig):
    """Settings whose blocks may be as long as the context, which those of a server may not."""

    def __post_init__(self) -> None:
        """Nothing is checked."""


class WayScheduler(Scheduler):
    """The scheduler, told when to admit.

    Attributes:
        static: requests join only while a batch forms: until one finds no room, none waits, or one has ended.
        grows: a request may need more blocks than it got; if not, none are kept back for it.
        planning_s: seconds that each `schedule` took.
    """

    static = False
    grows = True

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.planning_s: list[float] = []
        self._forming = True

    def schedule(self) -> list[Scheduled]:
        """See `Scheduler.schedule`."""
        began = time.perf_counter()
        plan = super().schedule()
        self.planning_s.append(time.perf_counter() - began)
        return plan

    def remove(self, request: Request) -> None:
        """See `Scheduler.remove`."""
        super().remove(request)
        self._forming = not self.running

    def _admit(self, budget: int) -> list[Scheduled]:
        admitted = super()._admit(budget)
        if not self.waiting or len(self.running) >= self.max_num_seqs:
            self._forming = not self.running
        return admitted

    def _next_to_admit(self, pending: set[Request]) -> tuple[Request, Match] | None:
        chosen = super()._next_to_admit(pending)
        if chosen is None or not self.static or self._forming or not self.running:
            return chosen
        return chosen if chosen[0].metrics.preemptions else None  # who was in the batch comes back into it

    def _take_in(self, request: Request, found: Match, budget: int) -> int:
        count = super()._take_in(request, found, budget)
        self._forming = bool(count) and (self._forming or len(self.running) == 1)
        return count

    def _reserve(self) -> int:
        return super()._reserve() if self.grows else 0


class WayEngine(Engine):
    """An engine whose scheduler is told when to admit."""

    scheduler_type = WayScheduler
    scheduler: WayScheduler


def reserved_tokens(max_model_len: int) -> int:
    """Slots that a reservation takes: the context, rounded up to what the kernels can address."""
    return -(-max_model_len // CHUNK) * CHUNK


def engine_for(
    way: Way,
    runner_for: Callable[[int, int], Any],
    tokenizer: Any,
    budget: int,
    max_model_len: int,
    *,
    block_size: int = BLOCK_SIZE,
    clock: Callable[[], float] = time.perf_counter,
    **settings: Any,
) -> WayEngine:
    """An engine that serves in one way.

    Args:
        runner_for: makes a runner from block size and number of blocks.
        budget: slots of KV in all, tokens; the same for all ways that are compared.
        max_model_len: longest sequence, tokens.
        settings: other fields of `EngineConfig`.
    """
    size = reserved_tokens(max_model_len) if way.memory == "contiguous" else block_size
    num_blocks = budget // size
    config = AnyBlockSize(
        "bench",
        device="cpu",
        block_size=size,
        num_blocks=num_blocks,
        max_model_len=max_model_len,
        enable_prefix_caching=way.caching,
        **settings,
    )
    engine = WayEngine(
        config, runner=runner_for(size, num_blocks), tokenizer=tokenizer, num_blocks=num_blocks, clock=clock
    )
    engine.scheduler.static = way.batching == "static"
    engine.scheduler.grows = way.memory == "paged"
    return engine
