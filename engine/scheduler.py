"""Which requests run in the next step, and how many tokens of each.

Every request has only *computed* and *total* tokens. A step has a token budget: first each running request that lacks
just its newest token gets it (decode), then prompts continue in chunks, oldest first, then waiting requests are
admitted. Blocks that run out are taken from the newest request, which waits and recomputes later; the oldest always
goes on.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass

from .kv_cache_manager import KVCacheManager
from .request import Request, RequestState

WATERMARK = 0.01


@dataclass
class Scheduled:
    """A request's share of a step: the next ``num_tokens`` tokens after its computed ones."""

    request: Request
    num_tokens: int


class Scheduler:
    """Owner of the waiting and running queues.

    Args:
        kv: block tables.
        max_num_seqs: requests running at the same time.
        token_budget: tokens of one step; never less than ``max_num_seqs``, so that no decode starves.
        on_exhausted: called with a running request that is alone and for which the pool has no block left.
    """

    def __init__(
        self,
        kv: KVCacheManager,
        max_num_seqs: int,
        token_budget: int,
        on_exhausted: Callable[[Request], None] = lambda request: None,
    ) -> None:
        self.kv = kv
        self.max_num_seqs = max_num_seqs
        self.token_budget = max(token_budget, max_num_seqs)
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self._on_exhausted = on_exhausted

    def add(self, request: Request) -> None:
        """Queue a request behind older ones of its priority."""
        request.state = RequestState.WAITING
        insort(self.waiting, request, key=lambda one: one.queue_key)

    def remove(self, request: Request) -> None:
        """Take a request out, wherever it stands, and its blocks back."""
        if request in self.running:
            self.running.remove(request)
        elif request in self.waiting:
            self.waiting.remove(request)
        request.state = RequestState.FINISHED
        self.kv.free(request)

    def schedule(self) -> list[Scheduled]:
        """Plan one step. Blocks are allocated and copies planned; nothing is computed yet."""
        plan: list[Scheduled] = []
        budget = self.token_budget
        decoding = [request for request in self.running if request.num_to_compute == 1]
        prefilling = [request for request in self.running if request.num_to_compute > 1]
        for request in [*decoding, *prefilling]:
            if budget == 0:
                break
            count = min(request.num_to_compute, budget)
            if request.state is RequestState.RUNNING and self._make_room(request, count, plan):
                plan.append(Scheduled(request, count))
                budget -= count
        return plan + self._admit(budget)

    def _admit(self, budget: int) -> list[Scheduled]:
        admitted: list[Scheduled] = []
        while self.waiting and budget > 0 and len(self.running) < self.max_num_seqs:
            request = self.waiting[0]
            if not self.kv.admit(request, self._reserve()):
                break
            count = min(request.num_to_compute, budget)
            if not self.kv.append_slots(request, count):
                self.kv.free(request)
                break
            self.waiting.pop(0)
            request.state = RequestState.RUNNING
            insort(self.running, request, key=lambda one: one.order)
            admitted.append(Scheduled(request, count))
            budget -= count
        return admitted

    def _reserve(self) -> int:
        """Blocks that running requests will want soon: the rest of their prompts, and one more for each reply."""
        if not self.running:
            return 0
        promised = sum(max(0, self.kv.blocks_for(request.num_tokens) - len(request.blocks)) for request in self.running)
        return promised + max(len(self.running), int(self.kv.pool.num_blocks * WATERMARK))

    def _make_room(self, request: Request, count: int, plan: list[Scheduled]) -> bool:
        """Get the slots for ``count`` tokens, preempting the newest requests while that is needed."""
        while not self.kv.append_slots(request, count):
            if len(self.running) == 1:
                self._on_exhausted(request)
                return False
            victim = self.running[-1]
            self._preempt(victim)
            plan[:] = [one for one in plan if one.request is not victim]
            if victim is request:
                return False
        return True

    def _preempt(self, request: Request) -> None:
        self.running.remove(request)
        request.metrics.preemptions += 1
        self.kv.events.emit("preempted", [], request_id=request.request_id, labels=request.labels)
        self.kv.free(request)
        self.add(request)
