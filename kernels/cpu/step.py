"""One step of a whole decoder, run by all threads of a team side by side, with a barrier between its stages."""

# pyright: reportCallIssue=false
# (pyright sees an intrinsic's typing context as one more argument)

from __future__ import annotations

from numba import njit

from .attention import SEQUENCE, attend_tile, merge_partials
from .elementwise import quantize_row, rms_norm_row, rotate_head, silu_mul_row, store_row
from .primitives import atomic_add, barrier
from .products import product, read_row

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD_DIM, BLOCK_SIZE, NUM_BLOCKS, BF16_CACHE, CACHE, EMBEDDING = range(11)
QKV, OUTPUT, GATE_UP, DOWN = range(4)
FIRST_SEGMENT, SEGMENTS, NEEDS_CODES = range(3)
COUNTERS_A_PRODUCT = 2


@njit(nogil=True, error_model="numpy")
def norm_rows(thread, threads, residual, rows, weight, eps, normed, needs_codes, codes, factors):
    """Norms of this thread's share of ``residual[rows]``, as float32 and, where needed, as 16-bit inputs."""
    for i in range(thread, rows.shape[0], threads):
        rms_norm_row(residual[rows[i]], weight, eps, normed[i])
        if needs_codes:
            quantize_row(normed[i], codes[i], factors[i, : normed.shape[1] // 32])


@njit(nogil=True, error_model="numpy")
def rotate_and_store(thread, threads, qkv, dims, layer_keys, layer_values, positions, slots, cos, sin):
    """Rotates this thread's share of query and key heads in place and writes keys and values to their slots."""
    heads, kv_heads, head_dim, block_size = dims[HEADS], dims[KV_HEADS], dims[HEAD_DIM], dims[BLOCK_SIZE]
    item = 2 if dims[BF16_CACHE] else 4
    total = heads + 2 * kv_heads
    for index in range(thread, qkv.shape[0] * total, threads):
        row, head = index // total, index % total
        x = qkv[row, head * head_dim : (head + 1) * head_dim]
        if head < heads + kv_heads:
            rotate_head(x, cos[positions[row]], sin[positions[row]])
        if head >= heads:
            kv_head = (head - heads) % kv_heads
            block, offset = slots[row] // block_size, slots[row] % block_size
            place = ((block * kv_heads + kv_head) * block_size + offset) * head_dim * item
            base = layer_keys if head < heads + kv_heads else layer_values
            store_row(x, base + place, dims[BF16_CACHE] != 0)


@njit(nogil=True, error_model="numpy")
def attend_tiles(
    thread, tile_code, counter, tiles, dims, scale, query, positions, block_tables, layer_keys, layer_values,
    partial_sums, partial_stats, out, q, sums, stats, limits, scores, unpacked,
):  # fmt: skip
    """This thread's share of all tiles and KV heads."""
    kv_heads, head_dim, block_size = dims[KV_HEADS], dims[HEAD_DIM], dims[BLOCK_SIZE]
    group = dims[HEADS] // kv_heads
    bf16 = dims[BF16_CACHE] != 0
    head_stride = block_size * head_dim * (2 if bf16 else 4)
    own_q, own_sums, own_stats = q[thread], sums[thread], stats[thread]
    own_limits, own_scores, own_unpacked = limits[thread], scores[thread], unpacked[thread]
    while True:
        item = atomic_add(counter, 1)
        if item >= tiles.shape[0] * kv_heads:
            return
        tile, head = tiles[item // kv_heads], item % kv_heads
        attend_tile(
            tile_code, tile, head, group, query, scale, positions, block_tables[tile[SEQUENCE]],
            layer_keys + head * head_stride, layer_values + head * head_stride, kv_heads * head_stride,
            block_size, bf16, partial_sums, partial_stats, out,
            own_q, own_sums, own_stats, own_limits, own_scores, own_unpacked,
        )  # fmt: skip


@njit(nogil=True, error_model="numpy")
def merge_rows(thread, threads, merges, heads, partial_sums, partial_stats, out):
    """Merges this thread's share of the contexts that were split."""
    for index in range(thread, merges.shape[0] * heads, threads):
        merge, head = merges[index // heads], index % heads
        merge_partials(merge[1], merge[2], head, partial_sums, partial_stats, out[merge[0], head])


@njit(nogil=True, error_model="numpy")
def quantize_rows(thread, threads, x, codes, factors):
    """16-bit inputs of this thread's share of rows."""
    for row in range(thread, x.shape[0], threads):
        quantize_row(x[row], codes[row], factors[row, : x.shape[1] // 32])


@njit(nogil=True, error_model="numpy")
def activate_rows(thread, threads, gate_up, activated, needs_codes, codes, factors):
    """``silu(gate) * up`` of this thread's share of rows, cut finely so that one row occupies all threads."""
    inner = activated.shape[1]
    piece = 256 if inner % 256 == 0 else inner
    pieces = inner // piece
    for index in range(thread, activated.shape[0] * pieces, threads):
        row, first = index // pieces, index % pieces * piece
        silu_mul_row(gate_up[row, first : first + piece], gate_up[row, inner + first : inner + first + piece],
                     activated[row, first : first + piece])  # fmt: skip
        if needs_codes:
            quantize_row(
                activated[row, first : first + piece],
                codes[row, first : first + piece],
                factors[row, first // 32 : (first + piece) // 32],
            )


@njit(nogil=True, error_model="numpy")
def decoder_step(
    thread, threads, tile_code, dims, eps, scale, segments, products, norms, cos, sin,
    token_ids, positions, slots, block_tables, tiles, merges, all_rows, sample_rows,
    residual, normed, qkv, attended, gate_up, activated, codes, factors,
    partial_sums, partial_stats, logits, counters, state,
    q, sums, stats, limits, scores, unpacked, buffers,
):  # fmt: skip
    """All layers for the rows of one step; every thread of the team calls it with the same arrays.

    Each turn of the loop prepares the inputs of one product and runs it: four a layer, then the output head. (One
    place for all products keeps the compiled code small.) ``counters`` int64 starts at zero and ``state`` is a
    barrier's memory; see `program.CpuProgram` for the other arrays.
    """
    buffer = buffers[thread]
    rows, heads, kv_heads, head_dim = token_ids.shape[0], dims[HEADS], dims[KV_HEADS], dims[HEAD_DIM]
    gate, layers = state.ctypes.data, dims[LAYERS]
    half_layer = dims[NUM_BLOCKS] * kv_heads * dims[BLOCK_SIZE] * head_dim * (2 if dims[BF16_CACHE] else 4)
    query = qkv.reshape(rows, heads + 2 * kv_heads, head_dim)
    out = attended.reshape(rows, heads, head_dim)
    for row in range(thread, rows, threads):
        read_row(segments[dims[EMBEDDING]], token_ids[row], residual[row])
    barrier(gate, threads)
    for index in range(4 * layers + 1):
        layer, which, last = index // 4, index % 4, index == 4 * layers
        counter = counters.ctypes.data + 16 * index
        needs_codes = products[index, NEEDS_CODES] != 0
        source, target, count = normed, qkv, rows
        if which == OUTPUT:
            keys = dims[CACHE] + 2 * layer * half_layer
            values = keys + half_layer
            rotate_and_store(thread, threads, qkv, dims, keys, values, positions, slots, cos, sin)
            barrier(gate, threads)
            attend_tiles(
                thread, tile_code, counter + 8, tiles, dims, scale, query, positions, block_tables, keys, values,
                partial_sums, partial_stats, out, q, sums, stats, limits, scores, unpacked,
            )  # fmt: skip
            barrier(gate, threads)
            if merges.shape[0] > 0:
                merge_rows(thread, threads, merges, heads, partial_sums, partial_stats, out)
                barrier(gate, threads)
            if needs_codes:
                quantize_rows(thread, threads, attended, codes, factors)
            source, target = attended, residual
        elif which == DOWN:
            activate_rows(thread, threads, gate_up, activated, needs_codes, codes, factors)
            source, target = activated, residual
        else:
            chosen = sample_rows if last else all_rows
            norm_rows(thread, threads, residual, chosen, norms[2 * layer + which // 2], eps, normed, needs_codes,
                      codes, factors)  # fmt: skip
            target = logits if last else (qkv if which == QKV else gate_up)
            count = chosen.shape[0]
        barrier(gate, threads)
        first = products[index, FIRST_SEGMENT]
        parts = segments[first : first + products[index, SEGMENTS]]
        accumulate = which % 2 == 1  # output and down projections add to the residual
        product(tile_code, threads, counter, parts, count, source, codes, factors, target, accumulate, buffer)
        barrier(gate, threads)
