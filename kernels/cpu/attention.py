"""Attention of one tile of queries over the block table, with the softmax taken as it goes (FlashAttention's rule).

A *tile* is up to 16 tokens that read the same slots: neighbours of one prompt, or decoding sequences that share blocks.
A decoding sequence's context is split over threads and merged afterwards (flash-decoding); see `plan`.
"""

# pyright: reportCallIssue=false
# (pyright sees an intrinsic's typing context as one more argument)

from __future__ import annotations

import numpy as np
from numba import njit

from .attention_tiles import CHUNK, MAX_QUERIES, WIDTH
from .elementwise import REORDER, load_run
from .plan import BEGIN, END, FIRST, PART, SPLIT, TOKENS
from .primitives import call_4, call_5, call_6, call_7, call_8, call_9, call_10, call_12, fast_exp
from .softmax_tile import LOWEST
from .tiles import MAX_TILE_ROWS, PANEL, TILE_KINDS

GATHER_FROM = 12
"""Query rows from which a chunk of keys and values is unpacked once instead of for every three rows."""
MATRIX_FROM = 6
"""Query rows from which the matrix unit is used where there is one."""

SCORES = len(TILE_KINDS) * MAX_TILE_ROWS
VALUES = SCORES + 2 * MAX_QUERIES
TRANSPOSE = VALUES + 2 * MAX_QUERIES
SOFTEN = TRANSPOSE + 2
MATRIX_QUERIES, MATRIX_VALUES, MATRIX_SCORES, MATRIX_SOFTEN, MATRIX_SUMS = range(-5, 0)
PLAIN = TILE_KINDS.index("f32") * MAX_TILE_ROWS
"""Where the tiles stand among the addresses of all tiles; those of the matrix unit are the last ones."""


@njit(nogil=True, inline="always")
def soften(tile_code, scores, r, visible, count, peaks, norms, sums):
    """Turns one row of scores into weights and brings row ``r`` up to date (see `softmax_tile.soften_tile`)."""
    peak, norm, gathered = peaks[r:].ctypes.data, norms[r:].ctypes.data, sums[r:].ctypes.data
    call_7(tile_code[SOFTEN], (scores.ctypes.data, visible, count, peak, norm, gathered, sums.shape[1]))


@njit(nogil=True, error_model="numpy")
def to_word_order(row, paired, factor, out):
    """A row times ``factor``, its first ``paired`` numbers in word order (see `attention_tiles`)."""
    for group in range(0, paired, 2 * WIDTH):
        for i in range(WIDTH):
            out[group + i] = row[group + 2 * i] * factor
            out[group + WIDTH + i] = row[group + 2 * i + 1] * factor
    for i in range(paired, row.shape[0]):
        out[i] = row[i] * factor


@njit(nogil=True, error_model="numpy")
def from_word_order(row, paired, factor, out):
    """The reverse of `to_word_order`."""
    for group in range(0, paired, 2 * WIDTH):
        for i in range(WIDTH):
            out[group + 2 * i] = row[group + i] * factor
            out[group + 2 * i + 1] = row[group + WIDTH + i] * factor
    for i in range(paired, row.shape[0]):
        out[i] = row[i] * factor


@njit(nogil=True, error_model="numpy")
def attend_direct(
    tile_code, rows, q, limits, table, keys, values, block_stride, block_size, bf16, begin, end,
    peaks, norms, sums, scores,
):  # fmt: skip
    """Gathers ``sums`` [rows, head_dim], ``peaks`` and ``norms`` [rows] of a few queries, reading blocks in place.

    ``q`` float32 [rows, head_dim] is already scaled and, for bfloat16, in word order, as ``sums`` will be. Row i sees
    slots below ``limits[i]``, which never fall from row to row; only slots ``begin .. end`` are looked at. ``keys``
    and ``values`` are addresses of one head in block 0, ``block_stride`` the bytes from one block to the next.
    ``begin`` is where a block begins, or chunks later; a block is a part of a chunk, or a multiple of it.
    """
    head_dim = q.shape[1]
    line = head_dim * (2 if bf16 else 4)
    kind = MAX_QUERIES - 1 if bf16 else -1  # bfloat16 tiles follow those of float32
    score_at, score_line, row_line = scores.ctypes.data, scores.strides[0], q.strides[0]
    blocks = (end - 1) // block_size + 1
    for start in range(begin, end, CHUNK):
        first, offset = start // block_size, start % block_size * line  # 0, but in blocks longer than a chunk
        entry, reach = table.ctypes.data + 4 * first, blocks - first
        for row in range(0, rows, MAX_QUERIES):
            n = min(MAX_QUERIES, rows - row)
            count = min(CHUNK, min(end, limits[row + n - 1]) - start)
            if count <= 0:
                continue
            query, total = q.ctypes.data + row * row_line, sums.ctypes.data + row * row_line
            call_12(
                tile_code[SCORES + kind + n],
                (keys + offset, entry, block_stride, block_size, line, count, reach, query, row_line, head_dim,
                 score_at, score_line),
            )  # fmt: skip
            for r in range(row, row + n):
                visible = min(count, limits[r] - start)
                soften(tile_code, scores[r - row], r, visible, count, peaks, norms, sums)
            call_12(
                tile_code[VALUES + kind + n],
                (values + offset, entry, block_stride, block_size, line, count, reach, score_at, score_line, head_dim,
                 total, row_line),
            )  # fmt: skip


@njit(nogil=True, error_model="numpy")
def attend_gathered(
    tile_code, rows, q, limits, table, keys, values, block_stride, block_size, bf16, begin, end,
    peaks, norms, sums, scores, unpacked,
):  # fmt: skip
    """As `attend_direct`, for many queries: each chunk of keys and values is unpacked once for all of them.

    Keys become panels of 16 slots, so that scores, and sums over values, are products of `tiles`.
    ``unpacked`` float32 [4, chunk * head_dim] belongs to the thread.
    """
    head_dim = q.shape[1]
    line = head_dim * (2 if bf16 else 4)
    transpose = tile_code[TRANSPOSE + (1 if bf16 else 0)]
    score_at, score_line, row_line = scores.ctypes.data, scores.strides[0], q.strides[0]
    panels, gathered = unpacked.ctypes.data, unpacked.ctypes.data + unpacked.strides[0]
    panel_size = head_dim * PANEL * 4
    span = max(block_size, PANEL)
    for start in range(begin, end, CHUNK):
        available, offset = min(CHUNK, end - start), start % block_size * line
        for t in range(0, available, block_size):
            run = min(block_size, available - t)
            at = table[(start + t) // block_size] * block_stride + offset
            load_run(values + at, run * head_dim, bf16, unpacked[1, t * head_dim :])
            if block_size >= PANEL:
                call_5(transpose, (keys + at, line, run, head_dim, panels + t // PANEL * panel_size))
            else:
                load_run(keys + at, run * head_dim, bf16, unpacked[2, t * head_dim :])
        if span > block_size:
            whole = unpacked.ctypes.data + 2 * unpacked.strides[0]
            call_5(tile_code[TRANSPOSE], (whole, 4 * head_dim, available, head_dim, panels))
        for row in range(0, rows, MAX_TILE_ROWS):
            n = min(MAX_TILE_ROWS, rows - row)
            count = min(CHUNK, min(end, limits[row + n - 1]) - start)
            if count <= 0:
                continue
            code = tile_code[PLAIN + n - 1]
            query, total = q.ctypes.data + row * row_line, sums.ctypes.data + row * row_line
            for t in range(0, count, PANEL):
                at = panels + t // PANEL * panel_size
                call_8(code, (at, 4 * PANEL, query, row_line, head_dim, score_at + 4 * t, score_line, 0))
            for r in range(row, row + n):
                visible = min(count, limits[r] - start)
                soften(tile_code, scores[r - row], r, visible, count, peaks, norms, sums)
            for d in range(0, head_dim, PANEL):
                at = gathered + 4 * d
                call_8(code, (at, 4 * head_dim, score_at, score_line, count, total + 4 * d, row_line, 1))


@njit(nogil=True, error_model="numpy")
def attend_matrix(
    tile_code, rows, q, table, keys, values, block_stride, block_size, begin, end, peaks, norms, sums, scratch
):
    """As `attend_direct` for many queries that all see slots ``begin .. end``, at most 256, with the matrix unit.

    The cache is bfloat16 in blocks of 16 to 128 slots, ``head_dim`` a multiple of 32. ``q`` is in plain order, ``sums``
    in pair order (see `matrix_tiles`); both have room for whole groups of 16 rows.
    """
    head_dim, row_line = q.shape[1], q.strides[0]
    line, count, first = 2 * head_dim, end - begin, begin // block_size
    entry, reach = table.ctypes.data + 4 * first, (end - 1) // block_size + 1 - first
    paired_values, scores, words, packed = (
        scratch[0].ctypes.data, scratch[1].ctypes.data, scratch[2].ctypes.data, scratch[3].ctypes.data,
    )  # fmt: skip
    weights = words + 128 * 64
    call_9(
        tile_code[MATRIX_VALUES],
        (values, entry, block_stride, block_size, line, count, reach, head_dim, paired_values),
    )
    for row in range(0, rows, 16):
        query, total = q.ctypes.data + row * row_line, sums.ctypes.data + row * row_line
        call_4(tile_code[MATRIX_QUERIES], (query, row_line, head_dim, packed))
        call_10(
            tile_code[MATRIX_SCORES],
            (keys, entry, block_stride, block_size, line, count, reach, packed, head_dim, scores),
        )
        peak, norm = peaks[row:].ctypes.data, norms[row:].ctypes.data
        call_6(tile_code[MATRIX_SOFTEN], (scores, count, peak, norm, words, weights))
        call_5(tile_code[MATRIX_SUMS], (weights, paired_values, count, head_dim, total))


@njit(nogil=True, error_model="numpy")
def from_pair_order(row, factor, out):
    """A row times ``factor``, from pair order (see `matrix_tiles`)."""
    for group in range(0, row.shape[0], 32):
        for part in range(8):
            to, at = group + 4 * part, group + part % 2 * 16 + part // 2 * 4
            for i in range(4):
                out[to + i] = row[at + i] * factor


@njit(nogil=True, error_model="numpy")
def attend_tile(
    tile_code, tile, head, group, query, scale, positions, order, first_part, table, keys, values, block_stride,
    block_size, bf16, partial_sums, partial_stats, out, q, sums, stats, limits, scores, unpacked,
):  # fmt: skip
    """Attention of one tile for one KV head, to ``out`` [num_tokens, heads, head_dim] or to partial results.

    ``query`` is [num_tokens, heads or more, head_dim]. Scratch of the thread: ``q`` and ``sums`` [16 * group,
    head_dim], ``stats`` [2, 16 * group] (peaks, norms), ``limits`` int32 [16 * group], ``scores`` [6, chunk + 16],
    ``unpacked`` [4, chunk * head_dim].
    """
    head_dim = query.shape[2]
    first, rows, begin, end = tile[FIRST], tile[TOKENS] * group, tile[BEGIN], tile[END]
    for row in range(rows):
        limits[row] = min(positions[order[first + row // group]] + 1, end)
    by_matrix = (
        tile_code[MATRIX_SUMS] != 0 and bf16 and rows >= MATRIX_FROM and limits[0] == end and end - begin <= SPLIT
        and head_dim % 32 == 0 and block_size >= 16 and CHUNK % block_size == 0
    )  # fmt: skip
    gathered = rows >= GATHER_FROM and head_dim % PANEL == 0
    paired = 0 if by_matrix or gathered or not bf16 else head_dim // (2 * WIDTH) * (2 * WIDTH)
    for row in range(rows):
        token = order[first + row // group]
        to_word_order(query[token, head * group + row % group], paired, scale, q[row])
        stats[0, row], stats[1, row] = np.float32(LOWEST), np.float32(0)
        for d in range(head_dim):
            sums[row, d] = np.float32(0)
    if by_matrix:
        attend_matrix(
            tile_code, rows, q, table, keys, values, block_stride, block_size, begin, end, stats[0], stats[1], sums,
            unpacked,
        )  # fmt: skip
    elif gathered:
        attend_gathered(
            tile_code, rows, q, limits, table, keys, values, block_stride, block_size, bf16, begin, end,
            stats[0], stats[1], sums, scores, unpacked,
        )  # fmt: skip
    else:
        attend_direct(
            tile_code, rows, q, limits, table, keys, values, block_stride, block_size, bf16, begin, end,
            stats[0], stats[1], sums, scores,
        )  # fmt: skip
    for row in range(rows):
        token, index = order[first + row // group], head * group + row % group
        factor, target = np.float32(1) / stats[1, row], out[token, index]
        if first_part[token] >= 0:
            partial = first_part[token] + tile[PART]
            partial_stats[partial, index, 0], partial_stats[partial, index, 1] = stats[0, row], stats[1, row]
            factor, target = np.float32(1), partial_sums[partial, index]
        if by_matrix:
            from_pair_order(sums[row], factor, target)
        else:
            from_word_order(sums[row], paired, factor, target)


@njit(nogil=True, fastmath=REORDER, error_model="numpy")
def merge_partials(first, count, head, partial_sums, partial_stats, out):
    """Puts the partial results of one row and head together in ``out`` [head_dim]."""
    peak = partial_stats[first, head, 0]
    for p in range(first + 1, first + count):
        peak = max(peak, partial_stats[p, head, 0])
    norm = np.float32(0)
    for d in range(out.shape[0]):
        out[d] = np.float32(0)
    for p in range(first, first + count):
        weight = fast_exp(partial_stats[p, head, 0] - peak)
        norm += partial_stats[p, head, 1] * weight
        for d in range(out.shape[0]):
            out[d] += partial_sums[p, head, d] * weight
    for d in range(out.shape[0]):
        out[d] /= norm
