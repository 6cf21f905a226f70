"""The pool's size: a desktop's share by default, wishes in their order, and refusals with numbers."""

import pytest

from pagedchat.engine.config import EngineConfig
from pagedchat.engine.errors import ConfigError
from pagedchat.engine.pool_size import num_blocks

GIB = 2**30
BLOCK = 16 * 23_040  # bytes of 16 tokens of the default model in bfloat16


def blocks(free=16 * GIB, total=24 * GIB, length=8192, bytes_per_block=BLOCK, **settings):
    return num_blocks(EngineConfig(model="m", **settings), bytes_per_block, length, free, total)


def test_the_default_is_the_smallest_of_all_sequences_half_the_free_memory_and_the_cap():
    assert blocks() == 2 * GIB // BLOCK
    assert blocks(free=2 * GIB) == GIB // BLOCK
    assert blocks(max_num_seqs=1) == 512
    assert blocks(length=100, max_num_seqs=4) == 28


def test_the_default_holds_one_whole_context_even_where_half_the_memory_does_not():
    assert blocks(free=512 * BLOCK + 1) == 512


def test_blocks_beat_bytes_which_beat_a_share_of_the_memory():
    assert blocks(num_blocks=7, kv_cache_memory=GIB, gpu_memory_utilization=0.5) == 7
    assert blocks(kv_cache_memory=GIB, gpu_memory_utilization=0.5) == GIB // BLOCK
    assert blocks(gpu_memory_utilization=0.5) == 4 * GIB // BLOCK


@pytest.mark.parametrize(
    "settings", [{"num_blocks": 10**6}, {"kv_cache_memory": 20 * GIB}, {"free": 100 * BLOCK, "num_blocks": None}]
)
def test_a_pool_that_does_not_fit_is_refused_with_both_numbers_and_a_way_out(settings):
    with pytest.raises(ConfigError, match=r"MiB.*MiB.*Try --num-blocks \d+"):
        blocks(**settings)


def test_less_than_one_block_is_refused():
    with pytest.raises(ConfigError, match="no block"):
        blocks(kv_cache_memory=100)
    with pytest.raises(ConfigError, match="no block"):
        blocks(free=GIB, gpu_memory_utilization=0.5)


@pytest.mark.parametrize("share", [0, 1, 1.0, 1.5, -0.1])
def test_all_of_the_memory_is_refused_with_the_reason(share):
    with pytest.raises(ConfigError, match="weights, activations"):
        EngineConfig(model="m", gpu_memory_utilization=share)
