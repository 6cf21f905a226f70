"""What is known of each block: its birth, its last use, and how often it was taken again."""

from __future__ import annotations

import itertools

from pagedchat.engine.block_pool import BlockPool
from pagedchat.engine.inspect import pool_snapshot
from pagedchat.engine.kv_cache_manager import KVCacheManager
from pagedchat.engine.pool_views import idle_rows
from pagedchat.engine.request import Request
from pagedchat.engine.sampling_params import SamplingParams
from support.paged_model import drain, greedy, make_engine, prompt_of, run


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def seconds(histogram) -> tuple[int, float]:
    return histogram.count, histogram.sum


def test_lifetime_idle_time_and_reuse_gap_are_told_when_they_end():
    clock = Clock()
    pool = BlockPool(2, clock=clock)
    history = pool.history
    (block,) = pool.allocate(1)
    pool.set_content(block, True)
    clock.now = 10
    pool.release([block])
    clock.now = 13
    pool.acquire(block)
    assert seconds(history.reuse_gap) == (1, 3) and history.reuses[block] == 1
    clock.now = 20
    pool.release([block])
    clock.now = 27
    assert history.lifetime.count == 0
    pool.allocate(2)
    assert seconds(history.lifetime) == (1, 27) and seconds(history.idle_before_evict) == (1, 7)
    assert history.born[block] == 27 and history.reuses[block] == 0
    assert (history.allocated, history.released, history.reused, history.evicted) == (4, 2, 1, 1)


def test_a_block_that_is_taken_while_others_hold_it_is_reused_but_not_allocated_again():
    pool = BlockPool(2)
    (block,) = pool.allocate(1)
    pool.acquire(block)
    pool.acquire(block)
    assert (pool.history.allocated, pool.history.reused, pool.num_shared) == (1, 2, 1)
    pool.release([block, block])
    assert (pool.history.released, pool.num_shared) == (0, 0)
    pool.release([block])
    assert pool.history.released == 1 and pool.conserved([])


def test_a_block_without_content_is_not_evicted():
    pool = BlockPool(1)
    pool.release(pool.allocate(1))
    pool.allocate(1)
    assert pool.history.evicted == pool.history.lifetime.count == 0 and pool.history.allocated == 2


def test_the_books_do_not_balance_when_totals_and_blocks_disagree():
    pool = BlockPool(2)
    held = pool.allocate(1)
    assert pool.conserved(held)
    pool.history.allocated += 1
    assert not pool.conserved(held)
    pool.history.allocated -= 1
    pool.num_shared += 1
    assert not pool.conserved(held)


def test_copies_are_counted():
    engine = make_engine()
    run(engine, {"a": prompt_of(6, 1)}, 6)
    run(engine, {"b": [*prompt_of(6, 1), 1, 2]}, 2)
    copied = engine.metrics()["counters"]["kv_blocks_copied_total"]
    events = [event for event in engine.events_since(0) if event["type"] == "copied"]
    assert copied == len(events) > 0


def test_evictions_are_those_of_the_event_stream():
    engine = make_engine(num_blocks=12)
    for i in range(6):
        run(engine, {f"r{i}": prompt_of(17, i)}, 4)
    evicted = [block for event in engine.events_since(0) if event["type"] == "evicted" for block in event["blocks"]]
    assert engine.metrics()["counters"]["kv_blocks_evicted_total"] == len(evicted) > 0


def test_decoding_touches_no_history():
    engine, clock = make_engine(block_size=64), itertools.count()
    engine.add_request("a", prompt_of(6, 1), greedy(40))
    engine.step()
    engine.kv.pool.history.clock = lambda: float(next(clock))
    for _ in range(30):
        engine.step()
    assert next(clock) == 30, "the snapshots of the checked engine alone, one a step"


def test_the_snapshot_tells_ages_and_reuses_and_the_idlest_blocks_come_first():
    clock = Clock()
    kv = KVCacheManager(8, 4, clock=clock)

    def serve(name: str, seed: int) -> None:
        request = Request(name, prompt_of(8, seed), SamplingParams(), 0, 0.0, 0, 9)
        assert kv.admit(request)
        count = request.num_to_compute
        assert kv.append_slots(request, count)
        kv.commit(request, count)
        kv.step_done()
        kv.free(request)

    serve("never again", 1)
    clock.now = 10
    serve("often", 2)
    for _ in range(4):
        clock.now += 10
        serve("again", 2)
    clock.now = 100
    held = Request("held", [1, 2, 3], SamplingParams(), 0, 0.0, 0, 9)
    assert kv.admit(held) and kv.append_slots(held, 3)
    snapshot = pool_snapshot(kv, [held])
    rows = {row["id"]: row for row in snapshot["blocks"]}
    (active,) = (row for row in rows.values() if row["state"] == "active")
    assert (active["born_s"], active["last_used_s"], active["reuses"]) == (0, 0, 0)
    free = next(row for row in rows.values() if row["state"] == "free")
    assert "born_s" not in free and "reuses" not in free
    idlest = idle_rows(kv, 3)
    assert [(row["born_s"], row["last_used_s"], row["reuses"]) for row in idlest[:2]] == [(100, 100, 0)] * 2
    assert len(idlest) == 3 and idlest[2]["reuses"] == 4 and idlest[2]["last_used_s"] == 50
    assert all(row["state"] == "cached" for row in idle_rows(kv, 99))


def test_forks_share_blocks_without_allocating_any():
    engine = make_engine()
    engine.add_request("a", prompt_of(8, 1), SamplingParams(temperature=1, seed=1, n=4, max_tokens=1))
    drain(engine)
    counters = engine.metrics()["counters"]
    assert counters["kv_blocks_allocated_total"] == 2 and counters["kv_blocks_reused_total"] == 3 * 2
