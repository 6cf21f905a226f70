"""What happens to a pool, told twice: by its events, and by what it is between them."""

from __future__ import annotations

import random
from typing import Any

from pagedchat.engine.inspect import pool_snapshot
from pagedchat.engine.kv_cache_manager import KVCacheManager
from pagedchat.engine.request import Request
from pagedchat.engine.sampling_params import SamplingParams

Moment = dict[str, Any]
"""``states``: a letter a block; ``refs``: counts; ``owners``: of each held block, sorted."""


class PoolReference:
    """A pool by its events alone: counts and states are those that each event tells of its blocks."""

    def __init__(self, snapshot: dict[str, Any]) -> None:
        self.seq: int = snapshot["seq"]
        self.states = [block["state"][0] for block in snapshot["blocks"]]
        self.refs = [block["ref_count"] for block in snapshot["blocks"]]

    def apply(self, event: dict[str, Any]) -> None:
        """The next event."""
        assert event["seq"] == self.seq + 1, "an event is missing"
        self.seq = event["seq"]
        for block, count, state in zip(event["blocks"], event["ref_counts"], event["states"], strict=True):
            self.states[block], self.refs[block] = state, count

    def totals(self) -> dict[str, int]:
        """What the page's grid tells of this moment."""
        count = "".join(self.states).count
        shared = count("s")
        return {
            "free": count("f"),
            "cached": count("c"),
            "active": count("a") + shared,
            "shared": shared,
            "seq": self.seq,
        }


def moment_of(snapshot: dict[str, Any]) -> Moment:
    """States, counts and owners of a snapshot."""
    blocks = snapshot["blocks"]
    return {
        "states": "".join(block["state"][0] for block in blocks),
        "refs": [block["ref_count"] for block in blocks],
        "owners": {str(block["id"]): sorted(block["owners"]) for block in blocks if block["owners"]},
    }


class PoolStory:
    """A pool of 48 blocks of 4 tokens to which chance happens: chats begin, grow, fork, are preempted and end, prefixes
    are pinned, the cache is forgotten.

    Attributes:
        events: all that was told, in order.
        moments: what the pool was after each thing that happened, by the number of its last event.
    """

    def __init__(self, seed: int, num_blocks: int = 48) -> None:
        self.chance = random.Random(seed)
        self.kv = KVCacheManager(num_blocks, 4)
        self.running: list[Request] = []
        self.events: list[dict[str, Any]] = []
        self.begin = pool_snapshot(self.kv, [])
        self.moments: dict[int, Moment] = {}
        self.pins: dict[int, int] = {}
        self._names = 0

    def go_on(self, times: int) -> None:
        """So many more things happen."""
        deeds = [self._begin, self._begin, self._grow, self._grow, self._grow, self._fork, self._end, self._preempt]
        for _ in range(times):
            self.chance.choice([*deeds, self._pin, self._unpin, self._forget])()
            self.kv.step_done()
            self._note()

    def _note(self) -> None:
        self.events += self.kv.events.drain()
        snapshot = pool_snapshot(self.kv, self.running)
        self.moments[snapshot["seq"]] = moment_of(snapshot)
        self.pins[snapshot["seq"]] = snapshot["pinned"]

    def _request(self, tokens: list[int]) -> Request:
        self._names += 1
        labels = {"session": f"session-{self._names}"}
        return Request(f"r{self._names}", tokens, SamplingParams(), 0, 0.0, 0, 1 << 20, labels)

    def _begin(self) -> None:
        stem = [self.chance.randrange(3)] * self.chance.randrange(4, 14)
        request = self._request([*stem, *(self.chance.randrange(9) for _ in range(self.chance.randrange(1, 9)))])
        if not self.kv.admit(request):
            return
        if not self.kv.append_slots(request, request.num_to_compute):
            self.kv.free(request)
            return
        self.kv.commit(request, request.num_to_compute)
        self.running.append(request)

    def _grow(self) -> None:
        for request in self.running:
            request.token_ids.append(self.chance.randrange(9))
            if self.kv.append_slots(request, request.num_to_compute):
                self.kv.commit(request, request.num_to_compute)

    def _fork(self) -> None:
        if self.running and len(self.running) < 6:
            source = self.chance.choice(self.running)
            if source.num_to_compute == 0:
                target = self._request([*source.token_ids])
                self.kv.fork(source, target)
                self.running.append(target)

    def _end(self) -> None:
        if self.running:
            self.kv.free(self.running.pop(self.chance.randrange(len(self.running))))

    def _preempt(self) -> None:
        if self.running and self.chance.random() < 0.3:
            request = self.running.pop()
            self.kv.events.emit("preempted", [], request_id=request.request_id, labels=request.labels)
            self.kv.free(request)

    def _pin(self) -> None:
        cached = [block for block in range(self.kv.pool.num_blocks) if self.kv.pool.is_evictable(block)]
        if cached and len(self.kv.pool.pinned) < 5:
            self.kv.set_pinned([self.chance.choice(cached)], True)

    def _unpin(self) -> None:
        if self.kv.pool.pinned:
            self.kv.set_pinned([min(self.kv.pool.pinned)], False)

    def _forget(self) -> None:
        if self.chance.random() < 0.2:
            while self.running:
                self._end()
            self.kv.reset()
