"""Steps with many rows: products and attention in bfloat16 keep the stated error, and stay out where they must."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from platformdirs import user_cache_path

import pagedchat
from pagedchat.engine.models.decoder import OperationSteps, decoder_shape, read_weights
from pagedchat.kernels.cpu import compiled, many_rows, prefill, products
from pagedchat.kernels.cpu.crossover import CANDIDATES, FILE, crossover
from pagedchat.kernels.cpu.pack import pack
from pagedchat.kernels.cpu.prefill_tiles import HAS_BF16
from pagedchat.kernels.cpu.program import CpuProgram
from pagedchat.kernels.cpu.threads import Team
from pagedchat.kernels.interface import rows_apart
from pagedchat.kernels.reference import ReferenceKernels
from support.compiled_ops import compiled_many_rows_product, compiled_spans
from support.fake_checkpoint import checkpoint_of, scattered_sequences, step_batch, tiny_llama
from support.file_blocks import file_blocks
from support.paged_batches import PagedCase, paged_case

STATED = 0.003
BLOCK = 4
needs_bf16 = pytest.mark.skipif(not HAS_BF16, reason="this processor has no bfloat16 instructions")
TILES = [prefill.DOT, *([prefill.AMX] if many_rows.best_tile() == prefill.AMX else [])]
KINDS = ["Q4_1", "Q4_0", "Q8_0", "bfloat16", "float16"]


def packed_and_numbers(kind: str, rows: int, columns: int, seed: int):
    if kind.startswith("Q"):
        blocks = file_blocks(kind, rows, columns, seed)
        return pack(blocks, torch.bfloat16), blocks.numbers
    tensor = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)).to(getattr(torch, kind))
    return pack(tensor, torch.bfloat16), tensor.float().numpy()


@needs_bf16
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 8, 15, 16, 17, 31, 33, 100, 600])
def test_products_keep_the_stated_error(tile, kind, rows):
    matrix, numbers = packed_and_numbers(kind, 83, 576, rows)
    x = np.random.default_rng(rows).standard_normal((rows, 576)).astype(np.float32)
    expected = x.astype(np.float64) @ numbers.T.astype(np.float64)
    got = compiled_many_rows_product([matrix], x, tile)
    assert np.linalg.norm(got - expected) <= STATED * np.linalg.norm(numbers) * np.linalg.norm(x) / 576**0.5


@needs_bf16
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("columns", [32, 736, 768, 800, 1632])
def test_pieces_of_a_long_input_add_up_and_an_output_is_added_to(tile, columns):
    matrix, numbers = packed_and_numbers("Q4_1", 64, columns, columns)
    draw = np.random.default_rng(columns)
    x, before = draw.standard_normal((21, columns), np.float32), draw.standard_normal((21, 64), np.float32)
    expected = x @ numbers.T + before
    got = compiled_many_rows_product([matrix], x, tile, before=before)
    assert np.linalg.norm(got - expected) <= STATED * np.linalg.norm(expected)


@needs_bf16
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("before", [False, True])
def test_matrices_of_different_kinds_stand_side_by_side_with_their_biases(tile, before):
    sizes = (("Q4_1", 40), ("Q8_0", 7), ("bfloat16", 33), ("float16", 64))
    parts = [packed_and_numbers(kind, rows, 64, rows) for kind, rows in sizes]
    draw = np.random.default_rng(1)
    bias, x, added = draw.standard_normal(144), draw.standard_normal((70, 64)), draw.standard_normal((70, 144))
    expected = x @ np.concatenate([numbers for _, numbers in parts]).T + bias + before * added
    given = added.astype(np.float32) if before else None
    for threads in (1, 7):
        got = compiled_many_rows_product(
            [matrix for matrix, _ in parts], x.astype(np.float32), tile, bias.astype(np.float32), given, threads
        )
        assert np.linalg.norm(got - expected) <= STATED * np.linalg.norm(expected)


def reference(case: PagedCase) -> np.ndarray:
    scale = case.query.shape[2] ** -0.5
    return ReferenceKernels().attention(case.query, case.cache[0], case.cache[1], case.batch, scale).numpy()


@needs_bf16
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("sizes", [(9, 3, 64), (4, 4, 32), (32, 2, 32), (5, 1, 96)])
@pytest.mark.parametrize("block_size", [1, 4, 16, 32, 128, 256, 384])
def test_spans_equal_the_reference_over_scattered_tables(tile, block_size, sizes):
    spans = [(0, 1), (0, 8), (120, 137), (5, 300), (599, 600), (0, 129), (250, 257)]
    case = paged_case(block_size, spans, block_size, *sizes, dtype=torch.bfloat16)
    got, expected = compiled_spans(case.query, case.cache, case.batch, tile), reference(case)
    new = np.repeat([end - begin for begin, end in spans], [end - begin for begin, end in spans])
    assert np.isnan(got[new < prefill.LEAST_SPAN]).all()
    rows = new >= prefill.LEAST_SPAN
    assert np.abs(got[rows] - expected[rows]).max() < 0.02
    assert np.linalg.norm(got[rows] - expected[rows]) <= STATED * np.linalg.norm(expected[rows])


@needs_bf16
@pytest.mark.parametrize("tile", TILES)
def test_scores_far_apart_neither_overflow_nor_vanish(tile):
    case = paged_case(7, [(260, 300)], 16, 4, 2, 32, dtype=torch.bfloat16)
    case.query *= 60
    got = compiled_spans(case.query, case.cache, case.batch, tile)
    assert np.isfinite(got).all()
    rounded = PagedCase(case.cache, case.batch, case.query.bfloat16().float())
    assert np.linalg.norm(got - reference(rounded)) <= 0.1 * np.linalg.norm(got)


@pytest.fixture(scope="module")
def functions() -> compiled.CompiledFunctions:
    folder = compiled.cache_folder(user_cache_path("pagedchat", appauthor=False), pagedchat.__version__)
    return compiled.compile_functions(folder if compiled.prepare_folder(folder) is None else None)


WIDE = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 96}


def empty_cache(dtype: torch.dtype) -> torch.Tensor:
    return torch.full((2, 2, 64, 1, BLOCK, 32), float("nan"), dtype=dtype)


def program(functions, dtype=torch.bfloat16, threads: int = 2, enabled: bool = True, **changes) -> CpuProgram:
    checkpoint = checkpoint_of(tiny_llama(**{**WIDE, **changes}))
    weights = read_weights(checkpoint, checkpoint.spec.max_position)
    made = CpuProgram(decoder_shape(checkpoint.spec), weights, empty_cache(dtype), Team(threads), functions)
    if made._many.product_tile != prefill.NO_TILE:
        made._many.least_rows = CANDIDATES[0]
    if not enabled:
        made._many = many_rows.ManyRows(made.shape, threads, prefill.NO_TILE)
    return made


def mixed_steps() -> list:
    ids, tables = scattered_sequences()
    return [
        step_batch([ids[0]], tables[:1], [(0, 33)], BLOCK),
        step_batch(ids, tables, [(33, 34), (0, 9), (0, 40)], BLOCK),
        step_batch(ids[:2], tables[:2], [(34, 35), (9, 30)], BLOCK, list(range(20))),
        step_batch(ids[:1], tables[:1], [(35, 36)], BLOCK),
    ]


def run(target, steps) -> list[np.ndarray]:
    return [target.forward(step.token_ids, step.groups, step.sample_rows) for step in steps]


BIASES = {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False, "intermediate_size": 160}


@needs_bf16
@pytest.mark.parametrize("changes", [{}, BIASES])
def test_a_program_gives_the_logits_of_the_reference(functions, changes):
    checkpoint = checkpoint_of(tiny_llama(**{**WIDE, **changes}))
    weights = read_weights(checkpoint, checkpoint.spec.max_position)
    shape, plain = decoder_shape(checkpoint.spec), ReferenceKernels("cpu", torch.float32)
    expected = run(OperationSteps(shape, weights, plain, empty_cache(torch.float32)), mixed_steps())
    many, few = (run(program(functions, enabled=enabled, **changes), mixed_steps()) for enabled in (True, False))
    apart = 0
    for got, packed, wanted in zip(many, few, expected, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, atol=0.1 * np.abs(wanted).max())  # a cache in bfloat16 alone: 0.06
        apart += not np.array_equal(got, packed)
    assert apart >= 3, "the path for many rows was taken"


@needs_bf16
def test_threads_change_no_bit(functions):
    alone, crowded = (run(program(functions, threads=threads), mixed_steps()) for threads in (1, 5))
    for one, five in zip(alone, crowded, strict=True):
        np.testing.assert_array_equal(one, five)


def test_rows_that_stand_apart_and_float32_never_take_this_path(functions):
    apart = [replace(step, groups=[rows_apart(group) for group in step.groups]) for step in mixed_steps()]
    for own, packed in zip(run(program(functions), apart), run(program(functions, enabled=False), apart), strict=True):
        np.testing.assert_array_equal(own, packed)
    assert program(functions, torch.float32)._many.product_tile == prefill.NO_TILE


@needs_bf16
def test_the_crossover_is_measured_once_and_kept_beside_the_kernels(functions, tmp_path):
    addresses = functions.tile_code.addresses
    first = crossover(tmp_path, addresses, products.Q4, TILES[-1])
    assert first in CANDIDATES
    (tmp_path / FILE).write_text((tmp_path / FILE).read_text().replace(str(first), str(CANDIDATES[2])))
    assert crossover(tmp_path, addresses, products.Q4, TILES[-1]) == CANDIDATES[2]
    assert crossover(None, addresses, products.F16, TILES[-1]) in CANDIDATES
    (tmp_path / FILE).write_text("damaged")
    assert crossover(tmp_path, addresses, products.Q4, TILES[-1]) in CANDIDATES
    assert "damaged" not in (tmp_path / FILE).read_text()


def test_spans_hold_every_row_of_long_sequences_once():
    starts = np.array([0, 1, 101, 108, 116], np.int32)
    positions = np.concatenate([[5], np.arange(50, 150), np.arange(7), np.arange(3, 11)]).astype(np.int32)
    spans = prefill.plan_spans(starts, positions, 3)
    rows = sorted(row for _, first, tokens, _ in spans for row in range(first, first + tokens))
    assert rows == [*range(1, 101), *range(108, 116)]
    for sequence, first, tokens, end in spans:
        assert starts[sequence] <= first < first + tokens <= starts[sequence + 1]
        assert end == positions[first + tokens - 1] + 1 and 3 * tokens <= prefill.SPAN_ROWS
