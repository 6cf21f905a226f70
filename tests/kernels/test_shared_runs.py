"""Decoding sequences that share blocks read them together: the plan, and the same attention as the reference's."""

from __future__ import annotations

import dataclasses
import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from platformdirs import user_cache_path

import pagedchat
from pagedchat.engine.models.decoder import decoder_shape, read_weights
from pagedchat.kernels.cpu import compiled, matrix_tiles, plan
from pagedchat.kernels.cpu.program import CpuProgram
from pagedchat.kernels.cpu.threads import Team
from pagedchat.kernels.interface import AttentionBatch, rows_apart
from pagedchat.kernels.reference import ReferenceKernels
from support.compiled_ops import compiled_attention, planned
from support.fake_checkpoint import attention_batch, checkpoint_of, step_batch, tiny_llama
from support.paged_batches import PagedCase, paged_case

SHAPES: dict[str, tuple[list[int], dict[int, tuple[int, int]]]] = {
    # lengths of the sequences, and whose first blocks (of 16) each has
    "all share": ([300, 290, 330, 289, 400], dict.fromkeys(range(1, 5), (0, 18))),
    "two groups": ([200, 300, 210, 310, 205], {2: (0, 8), 3: (1, 15), 4: (0, 9)}),
    "nested": ([600, 610, 620, 300, 640], {1: (0, 35), 2: (1, 20), 3: (0, 10), 4: (2, 30)}),
    "one alone": ([300, 300, 300], {2: (0, 18)}),
    "a part of a block": ([171, 169, 175], {1: (0, 10), 2: (0, 10)}),
    "the shared part and one more": ([129, 129, 129, 129], dict.fromkeys(range(1, 4), (0, 8))),
    "many": ([150 + i for i in range(21)], dict.fromkeys(range(1, 21), (0, 9))),
    "one is the beginning of the other": ([400, 200], {1: (0, 12)}),
}
HEADS = [(9, 3, 64), (8, 1, 32), (6, 3, 24), (5, 1, 128)]


def decodes(lengths: list[int]) -> list[tuple[int, int]]:
    return [(length - 1, length) for length in lengths]


def case_of(name: str, block_size: int, heads: tuple[int, int, int], dtype: torch.dtype) -> PagedCase:
    """The shape with prompts among its decodes, and as many shared slots whatever the block size."""
    lengths, shared = SHAPES[name]
    spans = [(20, 55), *decodes(lengths), (0, 33)]
    shared = {i + 1: (j + 1, blocks * 16 // block_size) for i, (j, blocks) in shared.items()}
    return paged_case(len(name), spans, block_size, *heads, dtype=dtype, shared=shared)


def reference(case: PagedCase) -> np.ndarray:
    scale = case.query.shape[2] ** -0.5
    return ReferenceKernels().attention(case.query, case.cache[0], case.cache[1], case.batch, scale).numpy()


def slots_read(batch: AttentionBatch) -> int:
    """Slots that all tiles read together."""
    tiles = planned(batch).tiles
    return int((tiles[:, plan.END] - tiles[:, plan.BEGIN]).sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("block_size", [8, 16, 128])
@pytest.mark.parametrize("name", SHAPES)
def test_shared_blocks_are_read_together_and_the_result_is_the_reference(name, block_size, dtype):
    for heads in HEADS:
        case = case_of(name, block_size, heads, dtype)
        if block_size <= 16:
            assert slots_read(case.batch) < slots_read(dataclasses.replace(case.batch, rows_apart=True)), (
                "some are read together"
            )
        got = compiled_attention(case.query, case.cache, case.batch)
        np.testing.assert_allclose(got, reference(case), rtol=1e-4, atol=2e-5, err_msg=f"{heads}")


@pytest.mark.parametrize("name", SHAPES)
def test_rows_that_are_to_be_apart_get_the_same_bits_with_and_without_company(name):
    case = case_of(name, 16, (9, 3, 64), torch.bfloat16)
    batch = rows_apart(case.batch)
    assert slots_read(batch) == int(batch.seq_lens.sum())
    together = compiled_attention(case.query, case.cache, batch, matrix_unit=True)
    for row in range(35, batch.num_tokens - 33):
        one = slice(row, row + 1)
        lone = dataclasses.replace(
            batch, query_start=np.array([0, 1], np.int32), seq_lens=batch.seq_lens[one], positions=batch.positions[one],
            block_tables=batch.block_tables[one].copy(), slot_mapping=batch.slot_mapping[one],
        )  # fmt: skip
        alone = compiled_attention(case.query[one], case.cache, lone, matrix_unit=True)
        np.testing.assert_array_equal(alone[0], together[row])


def random_tree(draw: random.Random, block_size: int) -> tuple[list[list[int]], list[int]]:
    """Block tables that branch at random, and lengths."""
    tables: list[list[int]] = []
    fresh = iter(draw.sample(range(10_000), 10_000))
    for _ in range(draw.randrange(1, 40)):
        stem = draw.choice(tables) if tables and draw.random() < 0.8 else []
        kept = stem[: draw.randrange(len(stem) + 1)]
        tables.append(kept + [next(fresh) for _ in range(draw.randrange(1, 12))])
    lengths = [max(1, len(table) * block_size - draw.randrange(block_size)) for table in tables]
    return tables, lengths


@pytest.mark.parametrize("block_size", [8, 16, 128])
def test_a_plan_covers_each_context_once_in_order_and_joins_only_what_is_the_same(block_size):
    joined = 0
    for seed in range(40):
        draw = random.Random(seed)
        tables, lengths = random_tree(draw, block_size)
        spans = [(length - 1, length) if draw.random() < 0.9 else (0, length) for length in lengths]
        batch = attention_batch(tables, spans, block_size)
        made = planned(batch)
        covered: dict[int, list[tuple[int, int, int]]] = {}
        for sequence, first, tokens, begin, end, part in made.tiles.tolist():
            rows = made.order[first : first + tokens].tolist()
            owners = [int(np.searchsorted(batch.query_start, row, "right")) - 1 for row in rows]
            joined += len(set(owners)) > 1
            for row, owner in zip(rows, owners, strict=True):
                limit = min(end, batch.positions[row] + 1)
                if len(set(owners)) > 1:
                    assert end <= batch.positions[row]
                blocks = slice(begin // block_size, -(-limit // block_size))
                assert (batch.block_tables[owner, blocks] == batch.block_tables[sequence, blocks]).all()
                covered.setdefault(row, []).append((part, begin, limit))
        merges = {row: (first, parts) for row, first, parts in made.merges.tolist()}
        assert sorted(covered) == list(range(batch.num_tokens))
        for row, pieces in covered.items():
            pieces.sort()
            assert [part for part, _, _ in pieces] == list(range(len(pieces)))
            assert pieces[0][1] == 0 and pieces[-1][2] == batch.positions[row] + 1
            assert all(a[2] == b[1] for a, b in pairwise(pieces))
            assert (row in merges) == (len(pieces) > 1) == (made.first_part[row] >= 0)
            if row in merges:
                assert merges[row] == (made.first_part[row], len(pieces))
        places = sorted(place for first, parts in merges.values() for place in range(first, first + parts))
        assert places == list(range(made.partials))
    assert joined > 20


def test_what_some_share_beyond_what_all_share_is_read_once_for_them():
    lengths, shared = [1000, 1000, 1000, 1000], {1: (0, 60), 2: (0, 20), 3: (2, 60)}
    case = paged_case(0, decodes(lengths), 16, 1, 1, 8, shared=shared)
    assert slots_read(case.batch) == 20 * 16 + 2 * 40 * 16 + 4 * 40


@pytest.mark.skipif(not matrix_tiles.is_permitted(), reason="this processor has no matrix unit")
@pytest.mark.parametrize("block_size", [16, 128])
@pytest.mark.parametrize("name", SHAPES)
def test_the_matrix_unit_rounds_to_bfloat16_and_no_more(name, block_size):
    taken = 0
    for heads in HEADS:
        case = case_of(name, block_size, heads, torch.bfloat16)
        exact = reference(case)
        fast = compiled_attention(case.query, case.cache, case.batch, matrix_unit=True)
        plain = compiled_attention(case.query, case.cache, case.batch)
        taken += not np.array_equal(plain, fast)
        for got, limit in ((plain, 1e-5), (fast, 4e-3)):
            assert np.linalg.norm(got - exact) < limit * np.linalg.norm(exact)
    assert taken > 0, "both ways were taken"


@pytest.fixture(scope="module")
def make_program() -> Any:
    """Makes programs of a tiny model with an empty float32 cache."""
    checkpoint = checkpoint_of(tiny_llama())
    shape, weights = decoder_shape(checkpoint.spec), read_weights(checkpoint, checkpoint.spec.max_position)
    folder = compiled.cache_folder(user_cache_path("pagedchat", appauthor=False), pagedchat.__version__)
    functions = compiled.compile_functions(folder if compiled.prepare_folder(folder) is None else None)
    return lambda: CpuProgram(shape, weights, torch.full((2, 2, 64, 2, 4, 8), float("nan")), Team(2), functions)


def test_a_shared_prefix_changes_no_greedy_id_in_float32(make_program):
    draw = random.Random(3)
    prefix, steps = [draw.randrange(97) for _ in range(88)], 12
    rows = [prefix + [draw.randrange(97) for _ in range(own)] for own in (1, 2, 5, 1)]
    common = list(range(22))
    tables = [common + list(range(22 + 6 * i, 28 + 6 * i)) for i in range(4)]

    def replies(chosen: list[int]) -> list[list[int]]:
        target, texts = make_program(), [list(rows[i]) for i in chosen]
        for step in range(steps):
            starts = [len(text) - 1 if step else 0 for text in texts]
            places = [tables[i] for i in chosen]
            spans = [(start, len(text)) for start, text in zip(starts, texts, strict=True)]
            batch = step_batch(texts, places, spans, 4)
            shares = len(chosen) > 1 and step > 0
            assert (slots_read(batch.attention) < sum(map(len, texts))) == shares
            logits = target.forward(batch.token_ids, batch.groups, batch.sample_rows)
            for text, row in zip(texts, logits, strict=True):
                text.append(int(row.argmax()))
        return [text[len(rows[i]) :] for i, text in zip(chosen, texts, strict=True)]

    assert replies([0, 1, 2, 3]) == [replies([i])[0] for i in range(4)]
