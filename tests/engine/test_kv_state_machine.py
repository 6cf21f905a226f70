"""Random work on pool, index and tables together, checked after every step against an oracle in plain Python.

The oracle is one list: which token each slot of each block holds. A step writes tokens where the tables say, after
making the copies that were planned, as a model would.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pagedchat.engine.block_table import NO_BLOCK
from pagedchat.engine.kv_cache_manager import KVCacheManager
from pagedchat.engine.request import Request
from pagedchat.engine.sampling_params import SamplingParams

NOTHING = -7
SESSIONS = st.sampled_from(["", "a", "b"])
TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=14)


class Machine(RuleBasedStateMachine):
    """Requests come, grow, fork, fail and go in a pool that is too small for them."""

    windows: tuple[int | None, ...] = (None,)

    @initialize(block_size=st.sampled_from([1, 2, 4]), num_blocks=st.integers(3, 16), caching=st.booleans())
    def start(self, block_size, num_blocks, caching):
        self.size: int = block_size
        num_blocks *= len(self.windows)
        self.kv = KVCacheManager(num_blocks, block_size, caching, self.windows, max_step_tokens=8)
        self.content = [[NOTHING] * block_size for _ in range(num_blocks)]
        self.requests: list[Request] = []
        self.pinned: list[list[int]] = []
        self.had: dict[str, tuple[str, str, tuple[int, ...]]] = {}
        self.count = 0

    def pick(self, place: int) -> Request | None:
        return self.requests[place % len(self.requests)] if self.requests else None

    def request(self, tokens: list[int], session: str, salt: str) -> Request:
        labels = {"session": session} if session else {}
        self.count += 1
        return Request(str(self.count), tokens, SamplingParams(), self.count, 0.0, 0, 9, labels, salt)

    @rule(prompt=TOKENS, session=SESSIONS, salt=st.sampled_from(["", "", "", "x"]), aside=st.integers(0, 3))
    def admit(self, prompt, session, salt, aside):
        request = self.request(prompt, session, salt)
        request.keep = aside > 0
        before = self.books()
        if self.kv.admit(request):
            self.requests.append(request)
            assert request.num_computed < len(prompt)
        else:
            assert self.books() == before, "a refused admission changes nothing"

    @rule(place=st.integers(0, 9), chunk=st.integers(1, 6), more=st.integers(0, 2))
    def grow(self, place, chunk, more):
        request = self.pick(place)
        if request is None:
            return
        if request.num_to_compute == 0:
            request.token_ids.append(more)
        chunk = min(chunk, request.num_to_compute)
        before = self.books()
        if not self.kv.append_slots(request, chunk):
            assert self.books() == before, "a refused allocation changes nothing"
            return
        self.run_step(request, chunk)

    @rule(place=st.integers(0, 9), other=st.integers(0, 9))
    def grow_two_in_one_step(self, place, other):
        chosen = [one for one in dict.fromkeys([self.pick(place), self.pick(other)]) if one is not None]
        ready = []
        for request in chosen:
            if request.num_to_compute == 0:
                request.token_ids.append(1)
            if self.kv.append_slots(request, 1):
                ready.append(request)
        self.copy()
        for request in ready:
            self.write(request, 1)
        for request in ready:
            self.kv.commit(request, 1)
        self.kv.step_done()

    @rule(place=st.integers(0, 9), chunk=st.integers(1, 6))
    def fail_in_a_step(self, place, chunk):
        request = self.pick(place)
        if request is None or request.num_to_compute == 0:
            return
        self.settle()
        chunk = min(chunk, request.num_to_compute)
        if self.kv.append_slots(request, chunk):
            for table in request.tables:  # the step wrote half of its work, and no copy was made
                for position in range(request.num_computed, request.num_computed + chunk):
                    self.content[table[position // self.size]][position % self.size] = NOTHING
        self.end(request)
        self.kv.step_done()

    @rule(place=st.integers(0, 9), session=SESSIONS)
    def fork(self, place, session):
        source = self.pick(place)
        if source is None:
            return
        self.settle()
        target = self.request(source.token_ids, session, source.salt)
        self.kv.fork(source, target)
        target.token_ids = [*source.token_ids[: source.num_computed], 0]
        self.requests.append(target)

    @rule(place=st.integers(0, 9))
    def finish(self, place):
        request = self.pick(place)
        if request is not None:
            self.end(request)

    @rule(place=st.integers(0, 9))
    def pin(self, place):
        request = self.pick(place)
        if request is None or not self.kv.enable_caching:
            return
        found = self.kv.match(request.token_ids, request.salt)
        blocks = [block for node in found.nodes for block in node.blocks if block != NO_BLOCK]
        if blocks and len(self.kv.pool.pinned | set(blocks)) <= self.kv.pool.num_blocks // 4:
            self.kv.set_pinned(blocks, True)
            self.pinned.append(blocks)

    @rule()
    def unpin(self):
        if self.pinned:
            blocks = self.pinned.pop()
            kept = {block for others in self.pinned for block in others}
            self.kv.set_pinned([block for block in reversed(blocks) if block not in kept], False)

    @rule(session=st.sampled_from(["a", "b"]))
    def forget(self, session):
        self.settle()
        self.note_what_they_have()
        available = self.kv.pool.num_available
        gone = self.kv.forget(session)
        assert self.kv.pool.num_available >= available and not set(gone) & set(self.kv.index.blocks())
        self.pinned = [[block for block in blocks if block in self.kv.pool.pinned] for blocks in self.pinned]
        live = {request.request_id for request in self.requests}
        self.had = {name: one for name, one in self.had.items() if one[0] != session or name in live}
        assert self.kv.users.knows(session) <= any(request.user == session for request in self.requests)

    @rule()
    def reset(self):
        self.settle()
        if any(any(request.tables) for request in self.requests):
            assert not self.kv.reset()
        elif not self.requests:
            assert self.kv.reset()
            assert self.kv.pool.num_free == self.kv.pool.num_blocks
            self.pinned = []

    def note_what_they_have(self):
        for request in self.requests:
            tokens = tuple(request.token_ids[: request.num_computed])
            self.had[request.request_id] = (request.user, request.salt, tokens)

    # -- the step -------------------------------------------------------------------------------------------------

    def settle(self):
        """Copies planned at admission belong to the step that runs next."""
        self.copy()
        self.kv.step_done()

    def run_step(self, request: Request, chunk: int):
        self.copy()
        self.write(request, chunk)
        self.kv.commit(request, chunk)
        self.kv.step_done()

    def copy(self):
        for source, target in self.kv.copies:
            self.content[target] = list(self.content[source])

    def write(self, request: Request, chunk: int):
        for table in request.tables:
            for position in range(request.num_computed, request.num_computed + chunk):
                block = table[position // self.size]
                assert self.kv.pool.ref_counts[block] - self.kv._copies.holds(block) == 1, "a shared block is written"
                self.content[block][position % self.size] = request.token_ids[position]

    def end(self, request: Request):
        self.note_what_they_have()
        self.requests.remove(request)
        self.kv.free(request)
        assert not any(request.tables) and request.node is None

    def books(self):
        pool = self.kv.pool
        return list(pool.ref_counts), pool.num_free, pool.num_cached, sorted(self.kv.index.blocks()), self.kv.copies

    # -- what must hold -------------------------------------------------------------------------------------------

    @invariant()
    def the_books_balance(self):
        if not hasattr(self, "kv"):
            return
        pool = self.kv.pool
        assert self.kv.conserved(self.requests)
        assert pool.num_free + pool.num_cached + pool.num_active == pool.num_blocks
        free = set(pool._free)
        referenced = {block for one in self.requests for table in one.tables for block in table if block != NO_BLOCK}
        assert not free & referenced and not free & set(self.kv.index.blocks())
        assert pool.pinned == {block for blocks in self.pinned for block in blocks}
        if not self.kv.enable_caching:
            assert len(self.kv.index) == 0

    @invariant()
    def what_the_index_says_is_there(self):
        if not hasattr(self, "kv"):
            return
        pending = {target for _, target in self.kv.copies}
        for block in self.kv.index.blocks():
            tokens = self.kv.index.tokens_of(block)
            assert block not in pending
            assert tuple(self.content[block][: len(tokens)]) == tokens

    @invariant()
    def all_that_is_kept_was_had_by_somebody_who_is_not_forgotten(self):
        if not hasattr(self, "kv"):
            return
        self.note_what_they_have()
        kept = {(salt, tokens[:end]) for _, salt, tokens in self.had.values() for end in range(len(tokens) + 1)}
        for salt, root in self.kv.index._roots.items():
            for node in root.subtree():
                tokens, before = node.tokens, node.parent
                while before is not None:
                    tokens, before = before.tokens + tokens, before.parent
                assert (salt, tokens) in kept

    @invariant()
    def every_token_that_will_be_seen_lies_in_its_slot(self):
        if not hasattr(self, "kv"):
            return
        origin: dict[int, int] = {target: source for source, target in self.kv.copies}
        for request in self.requests:
            for group, table in enumerate(request.tables):
                first = self.kv.index.first_needed(group, request.num_computed) * self.size
                for position in range(first, request.num_computed):
                    block = table[position // self.size]
                    assert self.content[origin.get(block, block)][position % self.size] == request.token_ids[position]

    def teardown(self):
        if not hasattr(self, "kv"):
            return
        for request in list(self.requests):
            self.end(request)
        self.kv.step_done()
        assert self.kv.pool.num_active == 0


@pytest.mark.parametrize("windows", [(None,), (None, 3), (2,), (None, 5, 1)])
def test_random_work_keeps_every_promise(windows):
    trials = int(os.environ.get("PAGEDCHAT_TRIALS", "5"))
    machine = type("Machine", (Machine,), {"windows": windows})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=10 * trials,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
