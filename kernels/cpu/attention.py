"""Attention of one tile of queries over the block table, with the softmax taken as it goes (FlashAttention's rule).

A *tile* is up to 16 neighbouring tokens of one sequence; a decoding sequence is a tile of one token whose context is
split over threads and merged afterwards (flash-decoding). Splits depend on the sequence alone, never on the threads
or on the company in the batch.
"""

# pyright: reportCallIssue=false
# (pyright sees an intrinsic's typing context as one more argument)

from __future__ import annotations

import numpy as np
from numba import njit

from .attention_tiles import MAX_QUERIES
from .elementwise import REORDER, load_run
from .primitives import call_5, call_8, call_10, fast_exp
from .tiles import MAX_TILE_ROWS, PANEL, TILE_KINDS

TILE_TOKENS = 16
CHUNK = 128
SPLIT = 256
GATHER_FROM = 12
"""Query rows from which a chunk of keys and values is unpacked once instead of for every three rows."""
PREFETCH_SLOTS = 32

SCORES = len(TILE_KINDS) * MAX_TILE_ROWS
VALUES = SCORES + 2 * MAX_QUERIES
TRANSPOSE = VALUES + 2 * MAX_QUERIES
PLAIN = TILE_KINDS.index("f32") * MAX_TILE_ROWS
"""Where the attention tiles begin among the addresses of all tiles."""

SEQUENCE, FIRST_ROW, TOKENS, BEGIN, END, PARTIAL = range(6)


@njit(nogil=True, error_model="numpy")
def plan_tiles(query_start, seq_lens, positions, tiles, merges):
    """Cuts a step into tiles int32 [n, 6]: sequence, first row, tokens, slots begin and end, partial result or -1.

    ``merges`` int32 [m, 3] lists the rows whose partial results are to be merged: row, first partial, partials.
    Returns the numbers of tiles, merges and partials; writes only what fits.
    """
    count, merged, partials = 0, 0, 0
    for s in range(seq_lens.shape[0]):
        row, end = query_start[s], query_start[s + 1]
        alone = end - row == 1
        while row < end:
            tokens = min(TILE_TOKENS, end - row)
            slots = positions[row + tokens - 1] + 1
            splits = (slots + SPLIT - 1) // SPLIT if alone else 1
            if splits > 1:
                if merged < merges.shape[0]:
                    merges[merged, 0], merges[merged, 1], merges[merged, 2] = row, partials, splits
                merged += 1
            for split in range(splits):
                if count < tiles.shape[0]:
                    tiles[count, SEQUENCE], tiles[count, FIRST_ROW], tiles[count, TOKENS] = s, row, tokens
                    tiles[count, BEGIN] = split * SPLIT if alone else 0
                    tiles[count, END] = min(slots, (split + 1) * SPLIT) if alone else slots
                    tiles[count, PARTIAL] = partials + split if splits > 1 else -1
                count += 1
            if splits > 1:
                partials += splits
            row += tokens
    return count, merged, partials


@njit(nogil=True, fastmath=REORDER, error_model="numpy")
def soften(scores, visible, count, peak, norm, sums):
    """Turns one row of scores into weights in place; rescales what the row has gathered so far.

    Only the first ``visible`` of ``count`` slots count; the others get weight 0. Returns the new peak and norm.
    """
    for t in range(max(visible, 0), count):
        scores[t] = np.float32(0)
    if visible <= 0:
        return peak, norm
    new_peak = peak
    for t in range(visible):
        new_peak = max(new_peak, scores[t])
    total = np.float32(0)
    for t in range(visible):
        weight = fast_exp(scores[t] - new_peak)
        scores[t] = weight
        total += weight
    if new_peak > peak:
        shrink = fast_exp(peak - new_peak)
        for d in range(sums.shape[0]):
            sums[d] *= shrink
        norm *= shrink
    return new_peak, norm + total


@njit(nogil=True, error_model="numpy")
def to_word_order(row, paired, factor, out):
    """A row times ``factor``, its first ``paired`` numbers in word order (see `attention_tiles`)."""
    for group in range(0, paired, 16):
        for i in range(8):
            out[group + i] = row[group + 2 * i] * factor
            out[group + 8 + i] = row[group + 2 * i + 1] * factor
    for i in range(paired, row.shape[0]):
        out[i] = row[i] * factor


@njit(nogil=True, error_model="numpy")
def from_word_order(row, paired, factor, out):
    """The reverse of `to_word_order`."""
    for group in range(0, paired, 16):
        for i in range(8):
            out[group + 2 * i] = row[group + i] * factor
            out[group + 2 * i + 1] = row[group + 8 + i] * factor
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
    ``begin`` is a multiple of the chunk; a block is a part of a chunk, or a multiple of it.
    """
    head_dim = q.shape[1]
    line = head_dim * (2 if bf16 else 4)
    kind = MAX_QUERIES - 1 if bf16 else -1  # bfloat16 tiles follow those of float32
    score_at, score_line, row_line = scores.ctypes.data, scores.strides[0], q.strides[0]
    last, blocks_ahead = (end - 1) // block_size, PREFETCH_SLOTS // block_size
    for start in range(begin, end, CHUNK):
        first, offset = start // block_size, start % block_size * line  # 0, but in blocks longer than a chunk
        ahead = offset + PREFETCH_SLOTS * line if block_size > CHUNK else 0
        for row in range(0, rows, MAX_QUERIES):
            n = min(MAX_QUERIES, rows - row)
            count = min(CHUNK, min(end, limits[row + n - 1]) - start)
            if count <= 0:
                continue
            score_code, value_code = tile_code[SCORES + kind + n], tile_code[VALUES + kind + n]
            query, total = q.ctypes.data + row * row_line, sums.ctypes.data + row * row_line
            logical = first  # counted up: a division takes as long as a few slots
            for t in range(0, count, block_size):
                run = min(block_size, count - t)
                at = table[logical] * block_stride + offset
                next_at = table[min(logical + blocks_ahead, last)] * block_stride + ahead
                logical += 1
                call_10(
                    score_code,
                    (keys + at, line, run, query, row_line, head_dim, score_at + 4 * t, score_line, keys + next_at,
                     values + at),
                )  # fmt: skip
            for r in range(row, row + n):
                visible = min(count, limits[r] - start)
                peaks[r], norms[r] = soften(scores[r - row], visible, count, peaks[r], norms[r], sums[r])
            logical = first
            for t in range(0, count, block_size):
                run = min(block_size, count - t)
                at = values + table[logical] * block_stride + offset
                logical += 1
                call_8(value_code, (at, line, run, score_at + 4 * t, score_line, head_dim, total, row_line))


@njit(nogil=True, error_model="numpy")
def attend_gathered(
    tile_code, rows, q, limits, table, keys, values, block_stride, block_size, bf16, begin, end,
    peaks, norms, sums, scores, unpacked,
):  # fmt: skip
    """As `attend_direct`, for many queries: each chunk of keys and values is unpacked once for all of them.

    Keys become panels of 16 slots, so that scores, and sums over values, are products of `tiles`.
    ``unpacked`` float32 [3, chunk * head_dim] belongs to the thread.
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
                peaks[r], norms[r] = soften(scores[r - row], visible, count, peaks[r], norms[r], sums[r])
            for d in range(0, head_dim, PANEL):
                at = gathered + 4 * d
                call_8(code, (at, 4 * head_dim, score_at, score_line, count, total + 4 * d, row_line, 1))


@njit(nogil=True, error_model="numpy")
def attend_tile(
    tile_code, tile, head, group, query, scale, positions, table, keys, values, block_stride, block_size, bf16,
    partial_sums, partial_stats, out, q, sums, stats, limits, scores, unpacked,
):  # fmt: skip
    """Attention of one tile for one KV head, to ``out`` [num_tokens, heads, head_dim] or to its partial result.

    ``query`` is [num_tokens, heads or more, head_dim]. Scratch of the thread: ``q`` and ``sums`` [16 * group,
    head_dim], ``stats`` [2, 16 * group] (peaks, norms), ``limits`` int32 [16 * group], ``scores`` [6, chunk + 16],
    ``unpacked`` [3, chunk * head_dim].
    """
    head_dim = query.shape[2]
    first, tokens, partial = tile[FIRST_ROW], tile[TOKENS], tile[PARTIAL]
    gathered = tokens * group >= GATHER_FROM and head_dim % PANEL == 0
    paired = 0 if gathered or not bf16 else head_dim // 16 * 16
    for row in range(tokens * group):
        token = first + row // group
        limits[row], stats[0, row], stats[1, row] = positions[token] + 1, np.float32(-1e30), np.float32(0)
        to_word_order(query[token, head * group + row % group], paired, scale, q[row])
        for d in range(head_dim):
            sums[row, d] = np.float32(0)
    if gathered:
        attend_gathered(
            tile_code, tokens * group, q, limits, table, keys, values, block_stride, block_size, bf16,
            tile[BEGIN], tile[END], stats[0], stats[1], sums, scores, unpacked,
        )  # fmt: skip
    else:
        attend_direct(
            tile_code, tokens * group, q, limits, table, keys, values, block_stride, block_size, bf16,
            tile[BEGIN], tile[END], stats[0], stats[1], sums, scores,
        )  # fmt: skip
    for row in range(tokens * group):
        token, index = first + row // group, head * group + row % group
        if partial >= 0:
            partial_stats[partial, index, 0], partial_stats[partial, index, 1] = stats[0, row], stats[1, row]
            from_word_order(sums[row], paired, np.float32(1), partial_sums[partial, index])
        else:
            from_word_order(sums[row], paired, np.float32(1) / stats[1, row], out[token, index])


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
