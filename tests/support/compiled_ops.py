"""Calls single compiled CPU operations as the step does, on torch tensors, so that they compare with the reference."""

# pyright: reportCallIssue=false
# (scratch arrays are handed over in one go)

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from platformdirs import user_cache_path

import pagedchat
from pagedchat.kernels.cpu import compiled, elementwise, many_rows, pack, plan, prefill, products, step
from pagedchat.kernels.cpu.matrix_tiles import NAMES as MATRIX_NAMES
from pagedchat.kernels.cpu.pack import PackedMatrix
from pagedchat.kernels.cpu.program import StepScratch
from pagedchat.kernels.interface import AttentionBatch, DecoderShape


@cache
def prepared() -> np.ndarray:
    """The tiles' addresses; the operations are compiled into the user's cache on first use."""
    folder = compiled.cache_folder(user_cache_path("pagedchat", appauthor=False), pagedchat.__version__)
    compiled.prepare_folder(folder)
    with compiled.numba_cache_in(folder):
        for function in (
            products.product, products.read_row, step.attend_tiles, step.merge_rows, step.norm_rows,
            pack.fill_q4, pack.fill_q8,
            step.rotate_and_store, step.activate_rows, elementwise.quantize_row, plan.plan_tiles,
            prefill.many_rows_product, prefill.attend_spans, prefill.round_row,
        ):  # fmt: skip
            function.enable_caching()
    code = compiled.load_tiles(folder)
    _keep.append(code)
    return code.addresses


_keep: list[Any] = []


def shape_of(heads: int, kv_heads: int, head_dim: int) -> DecoderShape:
    """Sizes of which only the heads matter."""
    return DecoderShape(32, 32, 32, 1, heads, kv_heads, head_dim, head_dim**-0.5, 1e-5)


def dims_of(shape: DecoderShape, cache: torch.Tensor) -> np.ndarray:
    """The step's sizes for one layer's cache [2, num_blocks, kv_heads, block_size, head_dim]."""
    sizes = (shape.hidden_size, shape.intermediate_size, 1, shape.num_heads, shape.num_kv_heads, shape.head_dim)
    bf16 = int(cache.dtype == torch.bfloat16)
    return np.array([*sizes, cache.shape[3], cache.shape[1], bf16, cache.data_ptr(), 0], np.int64)


@dataclass
class Planned:
    """What `plan.plan_tiles` makes of a batch."""

    tiles: np.ndarray
    merges: np.ndarray
    order: np.ndarray
    first_part: np.ndarray
    partials: int


def planned(batch: AttentionBatch) -> Planned:
    """The plan of one step."""
    prepared()
    rows = batch.num_tokens
    scratch = [np.zeros((rows, *width), np.int32) for width in ((), (), (3,), (5,), (3,))]
    tiles, merges = np.zeros((4096, 6), np.int32), np.zeros((512, 3), np.int32)
    count, merged, partials = plan.plan_tiles(
        batch.query_start, batch.positions, batch.block_tables, batch.block_size, not batch.rows_apart, *scratch,
        tiles, merges,
    )  # fmt: skip
    assert count <= len(tiles) and merged <= len(merges)
    return Planned(tiles[:count], merges[:merged], scratch[0], scratch[1], partials)


def compiled_attention(
    query: torch.Tensor, cache: torch.Tensor, batch: AttentionBatch, matrix_unit: bool = False
) -> np.ndarray:
    """Attention of float32 ``query`` [num_tokens, heads, head_dim] over one layer's cache.

    Args:
        matrix_unit: use it if the processor has one; it rounds queries and weights to bfloat16.
    """
    code = prepared()
    if not matrix_unit:
        code = code.copy()
        code[-len(MATRIX_NAMES) :] = 0
    tokens, heads, head_dim = query.shape
    shape = shape_of(heads, cache.shape[2], head_dim)
    scratch, made = StepScratch(shape, 1), planned(batch)
    scratch.reserve_partials(made.partials)
    stages = np.zeros(4, np.int64)
    out = np.full((tokens, heads, head_dim), np.nan, np.float32)
    keys, values = cache[0].data_ptr(), cache[1].data_ptr()
    step.attend_tiles(
        0, code, stages.ctypes.data, made.tiles, dims_of(shape, cache), np.float32(shape.scale),
        query.numpy(), batch.positions, made.order, made.first_part, batch.block_tables, keys, values,
        *scratch.partials, out, *scratch.threads[:-1],
    )  # fmt: skip
    step.merge_rows(stages.ctypes.data + 16, made.merges, *scratch.partials, out)
    return out


def compiled_rotary_write(
    qkv: torch.Tensor, cache: torch.Tensor, batch: AttentionBatch, cos: torch.Tensor, sin: torch.Tensor, heads: int
) -> np.ndarray:
    """Rotates and writes float32 ``qkv`` [num_tokens, heads + 2 kv_heads, head_dim]; returns it rotated."""
    tokens, _, head_dim = qkv.shape
    shape = shape_of(heads, cache.shape[2], head_dim)
    flat = qkv.reshape(tokens, -1).numpy().copy()
    stage = np.zeros(2, np.int64)
    step.rotate_and_store(
        stage.ctypes.data, flat, dims_of(shape, cache), cache[0].data_ptr(), cache[1].data_ptr(), batch.positions,
        batch.slot_mapping, cos.numpy(), sin.numpy(),
    )  # fmt: skip
    return flat.reshape(qkv.shape)


def compiled_spans(
    query: torch.Tensor, cache: torch.Tensor, batch: AttentionBatch, product_tile: int, threads: int = 1
) -> np.ndarray:
    """Attention as `compiled_attention`, in spans; NaN for rows of sequences that are too short for them."""
    code = prepared()
    tokens, heads, head_dim = query.shape
    shape = shape_of(heads, cache.shape[2], head_dim)
    many = many_rows.ManyRows(shape, threads, product_tile)
    spans = many.spans_of(batch, batch.positions)
    stage, out = np.zeros(2, np.int64), np.full((tokens, heads, head_dim), np.nan, np.float32)
    prefill.attend_spans(
        code, product_tile, stage.ctypes.data, spans, heads, shape.num_kv_heads, batch.block_size,
        np.float32(shape.scale), query.numpy(), batch.positions, batch.block_tables, cache[0].data_ptr(),
        cache[1].data_ptr(), out, many.halves[0], many.floats[0], many.limits[0],
    )  # fmt: skip
    return out


def segments_of(matrices: list[PackedMatrix], bias: np.ndarray | None) -> tuple[np.ndarray, int, Any]:
    """The segments of matrices side by side, their output columns, and what must stay alive meanwhile."""
    padded = None if bias is None else np.concatenate([bias, np.zeros(16)]).astype(np.float32)
    segments, offset = [], 0
    for matrix in matrices:
        at = 0 if padded is None else padded.ctypes.data + 4 * offset
        segments.append((matrix.kind, matrix.data.ctypes.data, matrix.rows, matrix.columns, offset, at))
        offset += matrix.rows
    return np.array(segments, np.int64), offset, padded


def compiled_many_rows_product(
    matrices: list[PackedMatrix],
    x: np.ndarray,
    product_tile: int,
    bias: np.ndarray | None = None,
    before: np.ndarray | None = None,
    threads: int = 1,
) -> np.ndarray:
    """``x`` [rows, columns] times the packed matrices side by side in bfloat16, added to ``before`` if given."""
    code = prepared()
    rows, columns = x.shape
    room = -(-rows // 32) * 32
    table, width, _alive = segments_of(matrices, bias)
    codes, out = np.full((room, columns), 0x7FC0, np.int16), np.full((room, width), np.nan, np.float32)
    for row in range(rows):
        prefill.round_row(x[row], row, 0, columns, codes)
    if before is not None:
        out[:rows] = before
    many = many_rows.ManyRows(shape_of(1, 1, 32), 1, product_tile)
    stage = np.zeros(2, np.int64)
    prefill.many_rows_product(
        code, product_tile, threads, stage.ctypes.data, table, rows, codes, out, before is not None, many.halves[0],
        many.floats[0],
    )  # fmt: skip
    return out[:rows]


def compiled_product(matrices: list[PackedMatrix], x: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """``x`` [rows, columns] times the packed matrices side by side."""
    code = prepared()
    rows, columns = x.shape
    table, offset, _alive = segments_of(matrices, bias)
    width = -(-columns // 32)
    codes, factors = np.zeros((rows, width * 32), np.int16), np.zeros((rows, width, 2), np.float32)
    if columns % 32 == 0:
        for row in range(rows):
            elementwise.quantize_row(x[row], codes[row], factors[row])
    out = np.zeros((rows, offset), np.float32)
    stage, buffer = np.zeros(2, np.int64), np.zeros((6, 16), np.float32)
    products.product(code, 1, stage.ctypes.data, table, rows, x, codes, factors, out, False, buffer)
    return out


def compiled_row(matrix: PackedMatrix, index: int) -> np.ndarray:
    """One row of a packed matrix."""
    prepared()
    out = np.zeros(matrix.columns, np.float32)
    segment = np.array([matrix.kind, matrix.data.ctypes.data, matrix.rows, matrix.columns, 0, 0], np.int64)
    products.read_row(segment, index, out)
    return out
