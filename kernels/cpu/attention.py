"""Attention of one tile of queries over the block table, with the softmax taken as it goes (FlashAttention's rule).

A *tile* is up to 16 neighbouring tokens of one sequence; a decoding sequence is a tile of one token whose context is
split over threads and merged afterwards (flash-decoding). Splits depend on the sequence alone, never on the threads
or on the company in the batch.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .attention_tiles import MAX_QUERIES
from .elementwise import REORDER, load_run
from .primitives import call_8, fast_exp
from .tiles import MAX_TILE_ROWS, TILE_KINDS

TILE_TOKENS = 16
CHUNK = 128
SPLIT = 256
GATHER_FROM = 12
"""Query rows from which a chunk of keys and values is unpacked once instead of for every three rows."""

SCORES = len(TILE_KINDS) * MAX_TILE_ROWS
VALUES = SCORES + 2 * MAX_QUERIES
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
def attend(
    tile_code, q, limits, table, keys, values, block_stride, block_size, bf16, begin, end, peaks, norms, sums, scratch
):  # fmt: skip
    """Gathers ``sums`` [rows, head_dim], ``peaks`` and ``norms`` [rows] of query rows over slots ``begin .. end``.

    ``q`` float32 [rows, head_dim] is already scaled; row i sees slots below ``limits[i]``. ``keys`` and ``values``
    are addresses of one head in block 0, ``block_stride`` the bytes from one block to the next. ``begin`` is a
    multiple of the chunk. ``scratch`` float32 holds scores and unpacked chunks (see `scratch_size`).
    """
    rows, head_dim = q.shape
    scores = scratch[: MAX_QUERIES * (CHUNK + 8)].reshape(MAX_QUERIES, CHUNK + 8)
    unpacked_keys = scratch[MAX_QUERIES * (CHUNK + 8) :]
    unpacked_values = unpacked_keys[CHUNK * head_dim :]
    peaks[:rows], norms[:rows], sums[:rows] = np.float32(-1e30), np.float32(0), np.float32(0)
    gather = bf16 and rows >= GATHER_FROM
    line = head_dim * (2 if bf16 and not gather else 4)
    kind = MAX_QUERIES - 1 if bf16 and not gather else -1  # bfloat16 tiles follow those of float32
    score_at, score_line = scores.ctypes.data, scores.strides[0]
    for start in range(begin, end, CHUNK):
        count = min(CHUNK, end - start)
        if gather:
            for t in range(0, count, block_size):
                run = min(block_size, count - t) * head_dim
                at = table[(start + t) // block_size] * block_stride
                load_run(keys + at, run, bf16, unpacked_keys[t * head_dim :])
                load_run(values + at, run, bf16, unpacked_values[t * head_dim :])
        for row in range(0, rows, MAX_QUERIES):
            n = min(MAX_QUERIES, rows - row)
            query, query_line = q[row:].ctypes.data, q.strides[0]
            step = count if gather else block_size
            for t in range(0, count, step):
                run = min(step, count - t)
                at = unpacked_keys.ctypes.data
                if not gather:
                    at = keys + table[(start + t) // block_size] * block_stride
                out = score_at + 4 * t
                code = tile_code[SCORES + kind + n]
                call_8(code, (at, line, run, query, query_line, head_dim, out, score_line))
            for r in range(n):
                visible = min(count, limits[row + r] - start)
                peaks[row + r], norms[row + r] = soften(
                    scores[r], visible, count, peaks[row + r], norms[row + r], sums[row + r]
                )
            total, total_line = sums[row:].ctypes.data, sums.strides[0]
            for t in range(0, count, step):
                run = min(step, count - t)
                at = unpacked_values.ctypes.data
                if not gather:
                    at = values + table[(start + t) // block_size] * block_stride
                weight = score_at + 4 * t
                code = tile_code[VALUES + kind + n]
                call_8(code, (at, line, run, weight, score_line, head_dim, total, total_line))


@njit(nogil=True, error_model="numpy")
def attend_tile(
    tile_code, tile, head, group, query, scale, positions, table, keys, values, block_stride, block_size, bf16,
    partial_sums, partial_peaks, partial_norms, out, scratch,
):  # fmt: skip
    """Attention of one tile for one KV head, to ``out`` [num_tokens, heads, head_dim] or to its partial result.

    ``query`` is [num_tokens, heads, head_dim]; ``scratch`` float32 of `scratch_size` numbers belongs to the thread.
    """
    head_dim = query.shape[2]
    first, tokens = tile[FIRST_ROW], tile[TOKENS]
    rows = tokens * group
    capacity = TILE_TOKENS * group
    q = scratch[: capacity * head_dim].reshape(capacity, head_dim)[:rows]
    rest = scratch[capacity * head_dim :]
    sums = rest[: capacity * head_dim].reshape(capacity, head_dim)
    rest = rest[capacity * head_dim :]
    peaks, norms, limits = (
        rest[:capacity],
        rest[capacity : 2 * capacity],
        rest[2 * capacity : 3 * capacity].view(np.int32),
    )
    rest = rest[3 * capacity :]
    for token in range(tokens):
        for g in range(group):
            limits[token * group + g] = positions[first + token] + 1
            for d in range(head_dim):
                q[token * group + g, d] = query[first + token, head * group + g, d] * scale
    begin, end, partial = tile[BEGIN], tile[END], tile[PARTIAL]
    attend(
        tile_code, q, limits, table, keys, values, block_stride, block_size, bf16, begin, end, peaks, norms, sums, rest
    )
    for token in range(tokens):
        for g in range(group):
            row = token * group + g
            if partial >= 0:
                partial_peaks[partial, head * group + g] = peaks[row]
                partial_norms[partial, head * group + g] = norms[row]
                partial_sums[partial, head * group + g] = sums[row]
            else:
                factor = np.float32(1) / norms[row]
                for d in range(head_dim):
                    out[first + token, head * group + g, d] = sums[row, d] * factor


@njit(nogil=True, fastmath=REORDER, error_model="numpy")
def merge_partials(first, count, head, partial_sums, partial_peaks, partial_norms, out):
    """Puts the partial results of one row and head together in ``out`` [head_dim]."""
    peak = partial_peaks[first, head]
    for p in range(first + 1, first + count):
        peak = max(peak, partial_peaks[p, head])
    norm = np.float32(0)
    out[:] = np.float32(0)
    for p in range(first, first + count):
        weight = fast_exp(partial_peaks[p, head] - peak)
        norm += partial_norms[p, head] * weight
        for d in range(out.shape[0]):
            out[d] += partial_sums[p, head, d] * weight
    for d in range(out.shape[0]):
        out[d] /= norm


def scratch_size(group: int, head_dim: int) -> int:
    """float32 numbers of scratch that a thread needs for `attend_tile`."""
    capacity = TILE_TOKENS * group
    return capacity * (2 * head_dim + 3) + MAX_QUERIES * (CHUNK + 8) + 2 * CHUNK * head_dim
