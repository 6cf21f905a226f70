"""The block pool: states, order of use, and books that balance."""

import pytest

from pagedchat.engine.block_pool import BlockPool, OutOfBlocksError
from pagedchat.engine.sampling_params import SamplingParams
from support.paged_model import make_engine


def test_a_refused_allocation_changes_nothing():
    pool = BlockPool(4)
    held = pool.allocate(3)
    with pytest.raises(OutOfBlocksError):
        pool.allocate(2)
    assert (pool.num_free, pool.num_cached, pool.num_active) == (1, 0, 3)
    assert pool.conserved(held)


def test_blocks_without_content_are_taken_before_cached_ones():
    pool = BlockPool(4)
    kept, plain = pool.allocate(1), pool.allocate(1)
    pool.set_content(kept[0], True)
    pool.release(kept)
    pool.release(plain)
    assert pool.num_cached == 1
    taken = pool.allocate(3)
    assert kept[0] not in taken and pool.num_cached == 1


def test_least_recently_used_content_goes_first_and_a_chain_loses_its_tail_before_its_head():
    evicted = []
    pool = BlockPool(6, evicted.append)
    old, new = pool.allocate(3), pool.allocate(3)
    for block in [*old, *new]:
        pool.set_content(block, True)
    pool.release(old)
    pool.release(new)
    pool.allocate(6)
    assert evicted == [*reversed(old), *reversed(new)]


def test_using_a_cached_block_again_makes_it_recent():
    evicted = []
    pool = BlockPool(2, evicted.append)
    first, second = pool.allocate(2)
    for block in (first, second):
        pool.set_content(block, True)
        pool.release([block])
    pool.acquire(first)
    pool.release([first])
    pool.allocate(1)
    assert evicted == [second]


def test_pinned_content_is_never_evicted_and_does_not_count_as_available():
    pool = BlockPool(3)
    (block,) = pool.allocate(1)
    pool.set_content(block, True)
    pool.release([block])
    pool.pin(block)
    assert pool.num_available == 2
    assert block not in pool.allocate(2)
    with pytest.raises(OutOfBlocksError):
        pool.allocate(1)
    pool.acquire(block)
    pool.release([block])
    assert pool.state(block) == "cached" and pool.num_available == 0
    pool.unpin(block)
    assert pool.allocate(1) == [block]


def test_states_follow_the_count():
    pool = BlockPool(1)
    assert pool.state(0) == "free"
    pool.allocate(1)
    assert pool.state(0) == "active"
    pool.acquire(0)
    assert pool.state(0) == "shared"
    pool.set_content(0, True)
    pool.release([0, 0])
    assert pool.state(0) == "cached"


@pytest.mark.parametrize("damage", ["count", "lost", "twice"])
def test_conservation_is_computed_and_sees_a_pool_broken_on_purpose(damage):
    pool = BlockPool(4)
    held = pool.allocate(2)
    assert pool.conserved(held)
    if damage == "count":
        pool.ref_counts[held[0]] += 1
    elif damage == "lost":
        pool._free.pop()
    else:
        pool._free.append(pool._free[0])
    assert not pool.conserved(held)


def test_the_lamp_of_a_snapshot_goes_out_when_a_table_and_the_pool_disagree():
    engine = make_engine()
    engine.add_request("a", [1, 2, 3, 4, 5], SamplingParams(temperature=0, max_tokens=4))
    engine.step()
    assert engine.snapshot()["conserved"] is True
    engine._replies["a"].request.blocks.pop()
    assert engine.snapshot()["conserved"] is False
