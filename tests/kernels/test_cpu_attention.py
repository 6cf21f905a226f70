"""Compiled attention equals the reference over scattered tables, mixed batches and all block sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pagedchat.kernels.reference import ReferenceKernels
from support.compiled_ops import compiled_attention, compiled_rotary_write
from support.paged_batches import PagedCase, paged_case

HEADS = [(4, 2, 16), (9, 3, 64), (3, 3, 8), (8, 1, 32), (5, 1, 24), (2, 2, 80)]


def reference(case: PagedCase) -> np.ndarray:
    scale = case.query.shape[2] ** -0.5
    return ReferenceKernels().attention(case.query, case.cache[0], case.cache[1], case.batch, scale).numpy()


def random_spans(random: np.random.Generator) -> list[tuple[int, int]]:
    spans = []
    for _ in range(random.integers(1, 6)):
        end = int(random.choice([1, 2, 15, 16, 17, 31, 33, 100, 129, 255, 257, 600]))
        new = int(random.choice([1, 1, 1, 2, 3, 7, 16, 17, 40, end]))
        spans.append((max(0, end - new), end))
    return spans


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("block_size", [1, 2, 4, 8, 16, 32, 64, 128, 256, 384])
def test_mixed_batches_equal_the_reference_and_unused_slots_do_not_leak(block_size, dtype):
    random = np.random.default_rng(block_size)
    for seed, sizes in enumerate(HEADS):
        case = paged_case(seed, random_spans(random), block_size, *sizes, dtype=dtype)
        got = compiled_attention(case.query, case.cache, case.batch)
        exact = reference(case)
        np.testing.assert_allclose(got, exact, rtol=1e-4, atol=2e-5, err_msg=f"{sizes} {case.batch.seq_lens}")
        got = compiled_attention(case.query, case.cache, case.batch, matrix_unit=True)
        assert np.linalg.norm(got - exact) < 4e-3 * np.linalg.norm(exact)


@pytest.mark.parametrize("context", [1, 16, 255, 256, 257, 512, 1025])
def test_a_split_context_equals_the_reference(context):
    case = paged_case(context, [(context - 1, context)], 16, 9, 3, 64)
    np.testing.assert_allclose(
        compiled_attention(case.query, case.cache, case.batch), reference(case), rtol=1e-4, atol=1e-5
    )


def test_scores_far_apart_neither_overflow_nor_vanish():
    case = paged_case(7, [(299, 300), (260, 300)], 16, 4, 2, 16)
    case.query *= 60
    got = compiled_attention(case.query, case.cache, case.batch)
    np.testing.assert_allclose(got, reference(case), rtol=1e-3, atol=1e-4)
    assert np.isfinite(got).all()


def test_a_sequence_gets_the_same_bits_alone_and_in_company():
    spans = [(50, 51), (0, 33), (599, 600)]
    case = paged_case(3, spans, 16, 9, 3, 64)
    together = compiled_attention(case.query, case.cache, case.batch)
    starts = case.batch.query_start
    for i in range(3):
        rows = slice(int(starts[i]), int(starts[i + 1]))
        alone = PagedCase(case.cache, one_sequence(case, i), case.query[rows].contiguous())
        np.testing.assert_array_equal(compiled_attention(alone.query, alone.cache, alone.batch), together[rows])


def one_sequence(case: PagedCase, i: int):
    from pagedchat.kernels.interface import AttentionBatch

    batch = case.batch
    begin, end = int(batch.query_start[i]), int(batch.query_start[i + 1])
    return AttentionBatch(
        query_start=np.array([0, end - begin], np.int32),
        seq_lens=batch.seq_lens[i : i + 1].copy(),
        block_tables=batch.block_tables[i : i + 1].copy(),
        positions=batch.positions[begin:end].copy(),
        slot_mapping=batch.slot_mapping[begin:end].copy(),
        block_size=batch.block_size,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("block_size", [1, 16, 128])
def test_rotary_positions_and_cache_writes_equal_the_reference(block_size, dtype):
    heads, kv_heads, head_dim = 6, 2, 24
    case = paged_case(11, [(0, 19), (30, 31), (5, 9)], block_size, heads, kv_heads, head_dim, dtype)
    tokens = case.batch.num_tokens
    qkv = torch.randn(tokens, heads + 2 * kv_heads, head_dim, generator=torch.Generator().manual_seed(1))
    angles = torch.rand(64, head_dim // 2, generator=torch.Generator().manual_seed(2)) * 6
    cos, sin = angles.cos(), angles.sin()
    expected_cache, expected = case.cache.clone(), qkv.clone()
    query, key, value = expected.split([heads, kv_heads, kv_heads], dim=1)
    kernels = ReferenceKernels()
    kernels.rotary(query, cos, sin, case.batch.positions)
    kernels.rotary(key, cos, sin, case.batch.positions)
    kernels.write_cache(key, value, expected_cache[0], expected_cache[1], case.batch)
    rotated = compiled_rotary_write(qkv, case.cache, case.batch, cos, sin, heads)
    np.testing.assert_allclose(rotated, expected.numpy(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(case.cache, expected_cache, rtol=1e-2, atol=1e-6, equal_nan=True)
