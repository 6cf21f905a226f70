"""One step of a whole decoder, run by the threads of a team side by side.

The step is a row of stages, a stage a number of items. Threads claim items one by one, and a stage is over when all
its items are done: a thread that comes late, because the machine is busy, holds up nobody. Which thread does an item
never changes its result.
"""

# pyright: reportCallIssue=false
# (pyright sees an intrinsic's typing context as one more argument)

from __future__ import annotations

import numpy as np
from numba import carray, njit  # pyright: ignore[reportPrivateImportUsage]

from .attention import attend_tile, merge_partials
from .elementwise import quantize_row, rms_norm_row, rotate_head, silu_mul_row, store_row
from .plan import SEQUENCE
from .prefill import attend_spans, many_rows_gated, many_rows_product, round_row
from .primitives import claim, finish, pointer, wait_for
from .products import product, read_row

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD_DIM, BLOCK_SIZE, NUM_BLOCKS, BF16_CACHE, CACHE, EMBEDDING = range(11)
QKV, OUTPUT, GATE_UP, DOWN = range(4)
FIRST_SEGMENT, SEGMENTS, NEEDS_CODES = range(3)
PLAIN, INTEGERS, BFLOATS = range(3)
"""How a product reads its inputs: float32, 16-bit integers with scales, or bfloat16."""
STAGES_A_PRODUCT = 6
"""Stages that end in one product; a stage takes two int64."""


@njit(nogil=True, error_model="numpy")
def embed_rows(stage, segment, token_ids, residual):
    """The embeddings of the step's tokens."""
    row = claim(stage)
    while row < token_ids.shape[0]:
        read_row(segment, token_ids[row], residual[row])
        finish(stage)
        row = claim(stage)
    wait_for(stage, token_ids.shape[0])


@njit(nogil=True, error_model="numpy")
def prepare_row(form, x, row, first, columns, codes, factors):
    """A row of ``columns`` columns, or a part of it from column ``first`` on, as inputs of a product of this form."""
    if form == INTEGERS:
        quantize_row(x, codes[row, first:], factors[row, first // 32 : (first + x.shape[0]) // 32])
    elif form == BFLOATS:
        round_row(x, row, first, columns, codes)


@njit(nogil=True, error_model="numpy")
def norm_rows(stage, residual, rows, weight, eps, normed, form, codes, factors):
    """Norms of ``residual[rows]``, as float32 and in the form of the product that reads them."""
    i = claim(stage)
    while i < rows.shape[0]:
        rms_norm_row(residual[rows[i]], weight, eps, normed[i])
        prepare_row(form, normed[i], i, 0, normed.shape[1], codes, factors)
        finish(stage)
        i = claim(stage)
    wait_for(stage, rows.shape[0])


@njit(nogil=True, error_model="numpy")
def rotate_and_store(stage, qkv, dims, layer_keys, layer_values, positions, slots, cos, sin):
    """Rotates query and key heads in place and writes keys and values to their slots."""
    heads, kv_heads, head_dim, block_size = dims[HEADS], dims[KV_HEADS], dims[HEAD_DIM], dims[BLOCK_SIZE]
    item = 2 if dims[BF16_CACHE] else 4
    row = claim(stage)
    while row < qkv.shape[0]:
        block, offset = slots[row] // block_size, slots[row] % block_size
        turn, half = 4 * positions[row] * cos.shape[1], cos.shape[1]
        row_cos = carray(pointer(cos.ctypes.data + turn), half, np.float32)
        row_sin = carray(pointer(sin.ctypes.data + turn), half, np.float32)
        line = qkv.ctypes.data + row * qkv.strides[0]
        for head in range(heads + 2 * kv_heads):
            # not a view of the array: threads would count its references against each other
            x = carray(pointer(line + 4 * head * head_dim), head_dim, np.float32)
            if head < heads + kv_heads:
                rotate_head(x, row_cos, row_sin)
            if head >= heads:
                kv_head = (head - heads) % kv_heads
                place = ((block * kv_heads + kv_head) * block_size + offset) * head_dim * item
                base = layer_keys if head < heads + kv_heads else layer_values
                store_row(x, base + place, dims[BF16_CACHE] != 0)
        finish(stage)
        row = claim(stage)
    wait_for(stage, qkv.shape[0])


@njit(nogil=True, error_model="numpy")
def attend_tiles(
    thread, tile_code, stage, tiles, dims, scale, query, positions, order, first_part, block_tables, layer_keys,
    layer_values, partial_sums, partial_stats, out, q, sums, stats, limits, scores, unpacked,
):  # fmt: skip
    """Attention of all tiles and KV heads."""
    kv_heads, head_dim, block_size = dims[KV_HEADS], dims[HEAD_DIM], dims[BLOCK_SIZE]
    group = dims[HEADS] // kv_heads
    bf16 = dims[BF16_CACHE] != 0
    head_stride = block_size * head_dim * (2 if bf16 else 4)
    own_q, own_sums, own_stats = q[thread], sums[thread], stats[thread]
    own_limits, own_scores, own_unpacked = limits[thread], scores[thread], unpacked[thread]
    total = tiles.shape[0] * kv_heads
    item = claim(stage)
    while item < total:
        tile, head = tiles[item // kv_heads], item % kv_heads
        attend_tile(
            tile_code, tile, head, group, query, scale, positions, order, first_part, block_tables[tile[SEQUENCE]],
            layer_keys + head * head_stride, layer_values + head * head_stride, kv_heads * head_stride,
            block_size, bf16, partial_sums, partial_stats, out,
            own_q, own_sums, own_stats, own_limits, own_scores, own_unpacked,
        )  # fmt: skip
        finish(stage)
        item = claim(stage)
    wait_for(stage, total)


@njit(nogil=True, error_model="numpy")
def merge_rows(stage, merges, partial_sums, partial_stats, out):
    """Merges the contexts that were split."""
    item = claim(stage)
    while item < merges.shape[0]:
        merge = merges[item]
        for head in range(out.shape[1]):
            merge_partials(merge[1], merge[2], head, partial_sums, partial_stats, out[merge[0], head])
        finish(stage)
        item = claim(stage)
    wait_for(stage, merges.shape[0])


@njit(nogil=True, error_model="numpy")
def prepare_rows(stage, form, x, codes, factors):
    """All rows in the form of the product that reads them."""
    row = claim(stage)
    while row < x.shape[0]:
        prepare_row(form, x[row], row, 0, x.shape[1], codes, factors)
        finish(stage)
        row = claim(stage)
    wait_for(stage, x.shape[0])


@njit(nogil=True, error_model="numpy")
def activate_rows(stage, gate_up, activated, form, codes, factors):
    """``silu(gate) * up`` of all rows, cut finely so that one row occupies several threads."""
    inner = activated.shape[1]
    piece = 256 if inner % 256 == 0 else inner
    pieces = inner // piece
    total = activated.shape[0] * pieces
    item = claim(stage)
    while item < total:
        row, first = item // pieces, item % pieces * piece
        last = first + piece
        silu_mul_row(gate_up[row, first:last], gate_up[row, inner + first : inner + last], activated[row, first:last])
        prepare_row(form, activated[row, first:last], row, first, inner, codes, factors)
        finish(stage)
        item = claim(stage)
    wait_for(stage, total)


@njit(nogil=True, error_model="numpy")
def decoder_step(
    thread, threads, tile_code, dims, eps, scale, segments, products, norms, cos, sin,
    token_ids, positions, slots, block_tables, order, first_part, tiles, merges, spans, all_rows, sample_rows,
    residual, normed, qkv, attended, gate_up, activated, codes, factors, partial_sums, partial_stats, logits, stages,
    q, sums, stats, limits, scores, unpacked, buffers, product_tile, many_rows, halves, floats, row_limits,
    gated,
):  # fmt: skip
    """All layers for the rows of one step; the threads of the team call it with the same arrays.

    Each turn of the loop prepares the inputs of one product and runs it: four a layer, then the output head. (One
    place for all products keeps the compiled code small.) ``stages`` int64 starts at zero and belongs to this step
    alone; see `program.CpuProgram` for the other arrays.
    """
    rows, heads, kv_heads, head_dim = token_ids.shape[0], dims[HEADS], dims[KV_HEADS], dims[HEAD_DIM]
    layers = dims[LAYERS]
    half_layer = dims[NUM_BLOCKS] * kv_heads * dims[BLOCK_SIZE] * head_dim * (2 if dims[BF16_CACHE] else 4)
    query = qkv.reshape(rows, heads + 2 * kv_heads, head_dim)
    out = attended.reshape(rows, heads, head_dim)
    embed_rows(stages.ctypes.data, segments[dims[EMBEDDING]], token_ids, residual)
    for index in range(4 * layers + 1):
        layer, which, last = index // 4, index % 4, index == 4 * layers
        stage = stages.ctypes.data + 16 * (1 + STAGES_A_PRODUCT * index)
        source, target, count = normed, qkv, sample_rows.shape[0] if last else rows
        form = INTEGERS if products[index, NEEDS_CODES] != 0 else PLAIN
        if product_tile >= 0 and count >= many_rows:
            form = BFLOATS
        if which == OUTPUT:
            keys = dims[CACHE] + 2 * layer * half_layer
            values = keys + half_layer
            rotate_and_store(stage, qkv, dims, keys, values, positions, slots, cos, sin)
            if spans.shape[0] > 0:
                attend_spans(
                    tile_code, product_tile, stage + 80, spans, heads, kv_heads, dims[BLOCK_SIZE], scale, query,
                    positions, block_tables, keys, values, out, halves[thread], floats[thread], row_limits[thread],
                )  # fmt: skip
            attend_tiles(
                thread, tile_code, stage + 16, tiles, dims, scale, query, positions, order, first_part, block_tables,
                keys, values, partial_sums, partial_stats, out, q, sums, stats, limits, scores, unpacked,
            )  # fmt: skip
            merge_rows(stage + 32, merges, partial_sums, partial_stats, out)
            if form != PLAIN:
                prepare_rows(stage + 48, form, attended, codes, factors)
            source, target = attended, residual
        elif which == DOWN:
            if form != BFLOATS:  # else the product before has left its inputs
                activate_rows(stage, gate_up, activated, form, codes, factors)
            source, target = activated, residual
        else:
            chosen = sample_rows if last else all_rows
            norm = norms[2 * layer + which // 2]
            norm_rows(stage, residual, chosen, norm, eps, normed, form, codes, factors)
            target = logits if last else (qkv if which == QKV else gate_up)
        first = products[index, FIRST_SEGMENT]
        parts = segments[first : first + products[index, SEGMENTS]]
        accumulate = which % 2 == 1  # output and down projections add to the residual
        if form == BFLOATS and which == GATE_UP:
            many_rows_gated(
                tile_code, product_tile, threads, stage + 64, parts, count, codes, gated, halves[thread],
                floats[thread],
            )  # fmt: skip
        elif form == BFLOATS:
            many_rows_product(
                tile_code, product_tile, threads, stage + 64, parts, count, gated if which == DOWN else codes, target,
                accumulate, halves[thread], floats[thread],
            )  # fmt: skip
        else:
            buffer = buffers[thread]
            product(tile_code, threads, stage + 64, parts, count, source, codes, factors, target, accumulate, buffer)
