"""Which requests run in the next step, and how many tokens of each.

Every request has only *computed* and *total* tokens. A step has a token budget: first each running request that lacks
just its newest token gets it (decode), then prompts continue in chunks, oldest first, then waiting requests are
admitted; prompts of less priority than those that wait come after them. While prompts run or wait, decodes take half of
the budget at most, those that waited longest first: a running reply gets a token at least every second step, and every
step some prompt gets on. Beside replies that are being written, prompts get as much as these can wait for (see
`step_pace`), unless nobody waits for the replies as much as for the prompts.

A waiting request whose prefix a running one is just computing is *pending*: it waits for those blocks instead of
computing them too, and looks again at every step, so a writer that ends early holds nobody up.

Blocks that run out are taken from the running request of least priority, the newest of them, which waits and
recomputes later; the first in rank always goes on.
"""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .kv_cache_manager import KVCacheManager
from .prefix_index import Match
from .request import Request, RequestState
from .step_pace import StepPace
from .waiting import WaitingQueue

WATERMARK = 0.01
COMPARED_AT_ONCE = 256
ROWS_OF_LOGITS = 64
LOOK_AHEAD = 4
"""Waiting requests that a step looks at, for each that may run."""


@dataclass(slots=True)
class Scheduled:
    """A request's share of a step: the next ``num_tokens`` tokens after its computed ones.

    Attributes:
        forks: other samples of the same request, which take their first token from the same logits.
    """

    request: Request
    num_tokens: int
    forks: Sequence[Request] = ()


class Scheduler:
    """Owner of the waiting and running queues.

    Args:
        kv: block tables.
        max_num_seqs: requests running at the same time.
        token_budget: tokens of one step; never less than ``max_num_seqs``, so that no decode starves.
        on_exhausted: called with a request that is alone and for which the pool has no block left.
        give_way: called when a request that is alone lacks blocks; True if it made some available (pins given up).
        clock: seconds, for timelines.

    Attributes:
        preempted: requests that lost their blocks for the step that was planned last.
        pace: is told by whoever runs the steps how long they took.
    """

    def __init__(
        self,
        kv: KVCacheManager,
        max_num_seqs: int,
        token_budget: int,
        on_exhausted: Callable[[Request], None] = lambda request: None,
        give_way: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kv = kv
        self.max_num_seqs = max_num_seqs
        self.token_budget = max(token_budget, max_num_seqs)
        self.waiting = WaitingQueue()
        self.running: list[Request] = []
        self._on_exhausted = on_exhausted
        self._give_way = give_way
        self._clock = clock
        self.num_preemptions = 0
        self.preempted: list[Request] = []
        self.pace = StepPace()
        self._step = 0

    @property
    def num_pending(self) -> int:
        """Waiting requests whose prefix a running one is computing."""
        writers = (request.pending_on for request in self.waiting)
        return sum(writer is not None and writer.state is RequestState.RUNNING for writer in writers)

    # -- queues -------------------------------------------------------------------------------------------------

    def add(self, request: Request) -> None:
        """Queue a new request."""
        request.state = RequestState.WAITING
        self.waiting.add(request)

    def run_fork(self, request: Request) -> None:
        """Run a request whose blocks were forked from a running one."""
        request.state = RequestState.RUNNING
        insort(self.running, request, key=lambda one: one.rank)
        request.note("scheduled", self._clock(), "forked")

    def remove(self, request: Request) -> None:
        """Take a request out, wherever it stands, and its blocks back."""
        if request in self.running:
            self.running.remove(request)
        else:
            self.waiting.remove(request)
        request.state = RequestState.FINISHED
        self.kv.free(request)

    # -- a step -------------------------------------------------------------------------------------------------

    def schedule(self) -> list[Scheduled]:
        """Plan one step. Blocks are allocated and copies planned; nothing is computed yet."""
        self._step += 1
        self.preempted = []
        self._yield_to_better()
        decoding, prefilling = [], []
        for request in self.running:
            (decoding if len(request.token_ids) - request.num_computed == 1 else prefilling).append(request)
        budget, plan = self.token_budget, []
        decode_budget = (budget + 1) // 2 if prefilling or self.waiting else budget
        if len(decoding) > decode_budget:
            decoding = sorted(decoding, key=lambda one: one.last_step)[:decode_budget]
        for request in decoding:
            if request.state is RequestState.RUNNING and self._make_room(request, 1, plan):
                plan.append(Scheduled(request, 1))
                request.last_step = self._step
        num_replies = len(plan)
        head = next(iter(self.waiting.candidates()), None)
        if prefilling or head is not None:
            self._plan_prompts(prefilling, head, budget - num_replies, plan)
        self.pace.planned(num_replies, max(0, sum(one.num_tokens for one in plan) - num_replies))
        return plan

    def _plan_prompts(
        self, prefilling: list[Request], head: Request | None, budget: int, plan: list[Scheduled]
    ) -> None:
        """Add chunks of prompts to the replies that are planned."""
        prompts = [*prefilling, *([] if head is None else [head])]
        best = min(request.priority for request in prompts)
        if any(one.request.priority <= best for one in plan):
            budget = min(budget, self.pace.most_tokens(len(plan)) or budget)
        behind = [request for request in prefilling if head is not None and request.priority > head.priority]
        budget = self._prefill([request for request in prefilling if request not in behind], budget, plan)
        for one in self._admit(budget):
            plan.append(one)
            budget -= one.num_tokens
        self._prefill(behind, budget, plan)

    def _prefill(self, requests: Sequence[Request], budget: int, plan: list[Scheduled]) -> int:
        """Give prompts their next chunks; the budget that is left."""
        for request in requests:
            count = min(request.num_to_compute, budget, self._most_tokens(request))
            if count and request.state is RequestState.RUNNING and self._make_room(request, count, plan):
                plan.append(Scheduled(request, count))
                request.last_step = self._step
                budget -= count
        return budget

    def _admit(self, budget: int) -> list[Scheduled]:
        admitted: list[Scheduled] = []
        pending: set[Request] = set()
        while budget > 0 and len(self.running) < self.max_num_seqs:
            chosen = self._next_to_admit(pending)
            if chosen is None:
                break
            request, found = chosen
            count = self._take_in(request, found, budget)
            if not count:
                break
            admitted.append(Scheduled(request, count))
            budget -= count
        return admitted

    def _next_to_admit(self, pending: set[Request]) -> tuple[Request, Match] | None:
        """The first waiting request that waits for no other's blocks, and what it would find; adds to ``pending``
        those that do."""
        for request in self.waiting.candidates()[: LOOK_AHEAD * self.max_num_seqs]:
            if request in pending:
                continue
            if not self._still_pending(request):
                found = self.kv.match_request(request)
                writer = self._writer_of(request, found)
                if writer is None:
                    return request, found
            pending.add(request)
        return None

    def _take_in(self, request: Request, found: Match, budget: int) -> int:
        """Move a waiting request among the running ones; its tokens in this step, 0 if it does not fit."""
        while not self.kv.admit(request, found, self._reserve()):
            if self.running or not self._give_way():
                return 0
            found = self.kv.match_request(request)
        count = min(request.num_to_compute, budget, self._most_tokens(request))
        if not self.kv.append_slots(request, count):
            self.kv.free(request)
            if not self.running:  # it had outgrown the pool when it was preempted
                self._on_exhausted(request)
            return 0
        again = request.metrics.preemptions > 0
        self.waiting.served(request)
        request.state, request.last_step, request.pending_on = RequestState.RUNNING, self._step, None
        insort(self.running, request, key=lambda one: one.rank)
        request.note("restored" if again else "scheduled", self._clock())
        if again:
            self.kv.events.emit("restored", [], request_id=request.request_id, labels=request.labels)
        return count

    def _most_tokens(self, request: Request) -> int:
        """Tokens of one request in one step; few where each needs a row of logits, [vocab_size] floats."""
        most = self.kv.demand.max_step_tokens
        return min(most, ROWS_OF_LOGITS) if request.needs_prompt_logits else most

    def _yield_to_better(self) -> None:
        """Background work that runs makes way for a waiting request of higher priority that has no seat or no room,
        unless it computes what that one waits for."""
        head = next(iter(self.waiting.candidates()), None)
        if head is None or not self.running or head.priority >= self.running[-1].priority:
            return
        found = self.kv.match_request(head)
        if self._still_pending(head) or self._writer_of(head, found):
            return
        while self.running and head.priority < self.running[-1].priority:
            if len(self.running) < self.max_num_seqs and self.kv.can_admit(head, found, self._reserve()):
                return
            self._preempt(self.running[-1])

    def _reserve(self) -> int:
        """Blocks that running requests will want soon: the rest of their prompts, and one more for each reply."""
        if not self.running:
            return 0
        promised = sum(map(self.kv.admission.still_wanted, self.running))
        more = len(self.running) * len(self.kv.windows)
        return promised + max(more, int(self.kv.pool.num_blocks * WATERMARK))

    # -- shared prefixes ----------------------------------------------------------------------------------------

    def _writer_of(self, request: Request, found: Match) -> Request | None:
        """A running request that is about to compute much more of this one's prefix than is cached; the oldest.

        Much is a block, or half of all there is to compute; for less, waiting would cost more than it saves.
        """
        if not self.kv.enable_caching or request.needs_prompt_logits:
            return None
        limit, cached = request.num_tokens - 1, found.num_tokens(self.kv.block_size)
        worth = min(self.kv.block_size, max(1, (limit - cached) // 2))
        for writer in self.running:
            if writer.salt == request.salt and writer.num_to_compute > 1 and writer.keep:
                common = common_prefix(writer.token_ids, request.token_ids, limit)
                if common - cached >= worth and writer.num_computed < common:
                    request.pending_on, request.pending_tokens = writer, common
                    request.note("pending", self._clock(), writer.request_id)
                    self._lift(writer, request.priority)
                    return writer
        return None

    def _lift(self, writer: Request, priority: int) -> None:
        """Whoever is waited for runs with the priority of the one who waits, if that is higher."""
        if priority < writer.priority:
            self.running.remove(writer)
            writer.priority = priority
            insort(self.running, writer, key=lambda one: one.rank)

    def _still_pending(self, request: Request) -> bool:
        """Whether the request that this one waits for is still at it."""
        writer = request.pending_on
        if writer is None:
            return False
        if writer.state is RequestState.RUNNING and writer.num_computed < request.pending_tokens:
            return True
        request.pending_on = None
        return False

    # -- preemption ---------------------------------------------------------------------------------------------

    def _make_room(self, request: Request, count: int, plan: list[Scheduled]) -> bool:
        """Get the slots for ``count`` tokens, preempting the last in rank while that is needed."""
        while not self.kv.append_slots(request, count):
            if len(self.running) == 1:
                if self._give_way():
                    continue
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
        request.state = RequestState.WAITING
        request.metrics.preemptions += 1
        self.num_preemptions += 1
        self.preempted.append(request)
        request.note("preempted", self._clock())
        self.kv.events.emit("preempted", [], request_id=request.request_id, labels=request.labels)
        self.kv.free(request)
        self.waiting.add_preempted(request)


def common_prefix(first: Sequence[int], second: Sequence[int], limit: int) -> int:
    """Equal leading tokens of two lists, at most ``limit``."""
    limit, start = min(limit, len(first), len(second)), 0
    while start < limit:
        end = min(start + COMPARED_AT_ONCE, limit)
        if first[start:end] != second[start:end]:
            break
        start = end
    while start < limit and first[start] == second[start]:
        start += 1
    return start
