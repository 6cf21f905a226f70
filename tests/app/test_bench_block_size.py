"""What the size of a block decides, on scripted loads; formulas hold exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pagedchat.app.bench.block_size import (
    CLASSES,
    BlockSizeLoad,
    lost_at_boundary,
    pool_work,
    real_speed,
    run_block_size,
    supported_size,
    waste_of,
)
from pagedchat.app.bench.random_model import random_model
from pagedchat.app.bench.shared_blocks import blocks_by_engine, blocks_by_formula, blocks_unshared
from pagedchat.app.bench.step_cost import StepCost
from pagedchat.app.bench.traces import Lengths
from pagedchat.engine.errors import ConfigError

COST = StepCost(0.01, 0.001, 0.0)
SMALL = BlockSizeLoad(sizes=(1, 16, 64), sequences=20, chats=4, prompt=30, burst=8, budget=2048)


def test_waste_is_what_rounding_up_to_blocks_leaves_empty():
    assert waste_of(1, CLASSES["up to 127"], SMALL) == 0
    lone = BlockSizeLoad(sequences=1)
    assert waste_of(16, (100, 100), lone) == pytest.approx(12 / 112)
    assert waste_of(128, (128, 128), lone) == 0
    assert waste_of(16, CLASSES["128-383"], SMALL) < waste_of(64, CLASSES["128-383"], SMALL) < 0.3


@pytest.mark.parametrize("size", [1, 8, 16, 64])
def test_reuse_to_the_token_loses_nothing_where_whole_blocks_lose_the_part_filled_one(size):
    lost = lost_at_boundary(size, SMALL)
    assert lost["exact"] == 0
    assert lost["blocks"] <= size - 1
    assert (lost["blocks"] > 0) == (size > 1)


def test_blocks_are_taken_and_given_back_as_often_as_the_tokens_of_the_load_need():
    found = pool_work(16, SMALL, COST)
    for reply in (16, 64, 256):
        blocks = SMALL.chats * -(-(SMALL.prompt + reply - 1) // 16)
        prefill, decode = 0.01 + 0.001 * SMALL.chats * SMALL.prompt, (reply - 1) * (0.01 + 0.001 * SMALL.chats)
        assert found["allocated_per_s"][reply] == pytest.approx(blocks / (prefill + decode), rel=1e-3)
        assert found["released_per_s"][reply] == found["allocated_per_s"][reply]


def test_larger_blocks_waste_more_and_are_taken_less_often():
    result = run_block_size(SMALL, None, COST)
    sizes = result.figures["sizes"]
    for name in CLASSES:
        assert sizes["1"]["waste"][name] <= sizes["16"]["waste"][name] < sizes["64"]["waste"][name]
    assert sizes["1"]["allocated_per_s"][256] > sizes["64"]["allocated_per_s"][256]
    assert [table.title for table in result.tables][-1] != "Speed"
    assert result.figures["supported"] == 16 and "which is the default" in result.verdict


def test_a_size_is_supported_by_its_waste_and_by_its_speed():
    def one(waste: float, speed: float) -> dict:
        return {"waste": {"128-383": waste}, "tokens_per_s": speed}

    assert supported_size({8: one(0.01, 100), 16: one(0.03, 99), 32: one(0.06, 101)}) == 16
    assert supported_size({8: one(0.01, 100), 16: one(0.03, 80), 32: one(0.06, 101)}) == 8
    assert supported_size({64: one(0.12, 100), 128: one(0.2, 100)}) is None


def test_where_no_size_is_fit_none_is_said_to_be():
    result = run_block_size(replace(SMALL, sizes=(64,)), None, COST)
    assert result.verdict.startswith("None of these sizes wastes at most 5%") and result.figures["supported"] is None


def test_speed_is_measured_on_a_model_by_size():
    model = random_model(
        num_layers=1,
        hidden_size=32,
        intermediate_size=32,
        num_heads=2,
        num_kv_heads=1,
        head_dim=16,
        max_position=512,
    )
    load = BlockSizeLoad(sizes=(8, 16), real_chats=2, real_prompts=Lengths(20, most=40), real_reply=4, rounds=2)
    found = real_speed(model, load)
    assert set(found) == {8, 16}
    assert all(value > 0 for one in found.values() for value in one.values())


@pytest.mark.parametrize(
    ("chats", "prefix", "own", "replies", "block_size"),
    [
        (1, 5, 1, 1, 4),
        (4, 37, 3, 5, 8),
        (16, 64, 10, 7, 16),
        (5, 100, 29, 20, 16),
        (3, 7, 2, 9, 16),
        (6, 33, 1, 1, 1),
        (7, 130, 200, 3, 128),
    ],
)
def test_chats_under_one_prefix_hold_exactly_the_blocks_of_the_formula(chats, prefix, own, replies, block_size):
    held, tokens = blocks_by_engine(prefix, [own + index for index in range(chats)], replies, block_size)
    assert len(tokens) == chats and min(tokens) >= own + replies - 1
    assert held == blocks_by_formula(prefix, tokens, block_size)
    assert held <= blocks_unshared(prefix, tokens, block_size)


def test_the_formula_counts_full_blocks_once_and_ends_apart():
    assert blocks_by_formula(33, [1, 15, 16], 16) == 2 + 1 + 1 + 2
    assert blocks_by_formula(32, [1, 15, 16], 16) == 2 + 1 + 1 + 1
    assert blocks_unshared(33, [1, 15, 16], 16) == 3 + 3 + 4


def test_a_size_that_no_engine_takes_is_refused_before_anything_runs():
    with pytest.raises(ConfigError, match="powers of two from 1 to 128, not 24"):
        BlockSizeLoad(sizes=(16, 24))
