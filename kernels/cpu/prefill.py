"""Steps with many rows: products and attention in bfloat16 with sums in float32 (see `prefill_tiles`).

A product widens a piece of a few weight panels, multiplies it with all rows, and goes on to the next piece; weights
stay packed in memory. Attention takes a *span*, neighbouring new tokens of one sequence, and looks at its context
chunk by chunk: keys and values become panels once for all rows of the span, the softmax is taken as it goes.

Neither takes part where a row must not depend on its company, nor in float32.
"""

# pyright: reportCallIssue=false
# (pyright sees an intrinsic's typing context as one more argument)

from __future__ import annotations

import numpy as np
from numba import carray, njit  # pyright: ignore[reportPrivateImportUsage]

from .attention_tiles import attention_tile_names
from .elementwise import REORDER
from .prefill_tiles import CHUNK, LINE, ROW_BLOCK, WIDENED, prefill_tile_names
from .primitives import call_3, call_4, call_10, call_12, claim, fast_exp, finish, pointer, to_bf16, wait_for
from .products import ADDRESS, BIAS, COLUMNS, KIND, OFFSET, ROWS, panel_bytes
from .tiles import PANEL, TILE_KINDS, product_tile_names

FIRST_TILE = len(product_tile_names()) + len(attention_tile_names())
"""Where the tiles for many rows begin among the addresses of all tiles."""
NAMES = prefill_tile_names()
WIDEN = tuple(FIRST_TILE + WIDENED.index(kind) if kind in WIDENED else -1 for kind in TILE_KINDS)
"""The tile that widens panels of each kind; -1: there is none."""
KEYS, VALUES, SOFTEN, DOT, AMX = (FIRST_TILE + len(WIDENED) + index for index in range(5))
NO_TILE = -1

INPUTS_AT_ONCE, PANELS_AT_ONCE, ROWS_AT_ONCE = 768, 6, 512
"""Most inputs and panels that are widened at a time, so that they stay in a near cache, and rows that use them."""
ITEMS_A_THREAD = 3
GATED = PANELS_AT_ONCE // 2
SPAN_TOKENS, SPAN_ROWS = 64, 256
"""Most tokens of a span, and most rows, where several query heads share a key head."""
LEAST_SPAN = 8
"""New tokens of a sequence from which it is attended in spans."""
LOG2_E = 1.4426950408889634
FIRST_PEAK = -1e30

SEQUENCE, FIRST_ROW, TOKENS, END = range(4)


def span_tokens(group: int) -> int:
    """Tokens of one span where ``group`` query heads share a key head."""
    return max(LEAST_SPAN, min(SPAN_TOKENS, SPAN_ROWS // group))


def plan_spans(query_start: np.ndarray, positions: np.ndarray, group: int) -> np.ndarray:
    """Cuts sequences with `LEAST_SPAN` rows or more into spans int32 [n, 4]: sequence, first row, tokens, slots."""
    step = span_tokens(group)
    spans = []
    for sequence in np.flatnonzero(np.diff(query_start) >= LEAST_SPAN):
        begin, end = int(query_start[sequence]), int(query_start[sequence + 1])
        for row in range(begin, end, step):
            tokens = min(step, end - row)
            spans.append((sequence, row, tokens, positions[row + tokens - 1] + 1))
    spans.sort(key=lambda span: -span[END] * span[TOKENS])  # the longest first: no thread is left with one at the end
    return np.array(spans, np.int32).reshape(-1, 4)


def scratch_sizes(group: int, head_dim: int) -> tuple[int, int, int]:
    """What a thread works in: numbers of bfloat16 (as int16), of float32 and of int32."""
    rows = -(-span_tokens(group) * group // ROW_BLOCK) * ROW_BLOCK
    attention = (rows + 3 * CHUNK) * head_dim + ROW_BLOCK * CHUNK
    sums = rows * (head_dim + 2) + ROW_BLOCK * CHUNK
    columns = PANEL * PANELS_AT_ONCE
    return max(columns * INPUTS_AT_ONCE, attention), max(columns * ROWS_AT_ONCE, sums), rows


@njit(nogil=True, error_model="numpy")
def round_row(x, row, first, columns, codes):
    """A part of a row, from column ``first`` on, as bfloat16 inputs of a product with ``columns`` columns.

    Inputs lie in ``codes`` as [rows / 16, columns / 32, 16 rows, 32 columns], int16: one such square after the other,
    as a product reads them.
    """
    place = codes.ctypes.data + 2 * (row // PANEL * PANEL * columns + row % PANEL * 32 + first * PANEL)
    for begin in range(0, x.shape[0], 32):
        target = carray(pointer(place + 2 * PANEL * begin), 32, np.int16)
        for i in range(32):
            target[i] = np.int16(to_bf16(x[begin + i]))


@njit(nogil=True, error_model="numpy")
def groups_of(segment):
    """Groups of neighbouring panels in a segment; the last one may be smaller."""
    return (segment[ROWS] + PANELS_AT_ONCE * PANEL - 1) // (PANELS_AT_ONCE * PANEL)


@njit(nogil=True, error_model="numpy")
def rows_of_an_item(threads, groups, rows):
    """Rows that one item of a product takes, so that there are enough items of ``groups`` groups for all threads."""
    wanted = min((threads * ITEMS_A_THREAD + groups - 1) // groups, (rows + 2 * ROW_BLOCK - 1) // (2 * ROW_BLOCK))
    return min(ROWS_AT_ONCE, ((rows + wanted - 1) // wanted + ROW_BLOCK - 1) // ROW_BLOCK * ROW_BLOCK)


@njit(nogil=True, error_model="numpy")
def inputs_at_a_time(columns):
    """Inputs that are widened at a time: equal pieces of no more than `INPUTS_AT_ONCE`, multiples of 32."""
    pieces = (columns + INPUTS_AT_ONCE - 1) // INPUTS_AT_ONCE
    return ((columns + pieces - 1) // pieces + 31) // 32 * 32


@njit(nogil=True, error_model="numpy")
def many_rows_product(tile_code, product_tile, threads, stage, segments, rows, x, out, accumulate, halves, floats):
    """One product in bfloat16, shared with the other threads; returns when all of it is done (see `products.product`).

    ``x`` holds bfloat16 as `round_row` leaves it; it and ``out`` have room for rows up to the next multiple of
    `ROW_BLOCK`. The columns of every segment are a multiple of 32.
    """
    groups = 0
    for s in range(segments.shape[0]):
        groups += groups_of(segments[s])
    chunk = rows_of_an_item(threads, groups, rows)
    total = groups * ((rows + chunk - 1) // chunk)
    item = claim(stage)
    while item < total:
        group, s = item % groups, 0
        while group >= groups_of(segments[s]):
            group -= groups_of(segments[s])
            s += 1
        first = item // groups * chunk
        count = min(chunk, rows - first)
        group_times_rows(tile_code, product_tile, segments[s], group, first, count, x, out, accumulate, halves, floats)
        finish(stage)
        item = claim(stage)
    wait_for(stage, total)


@njit(nogil=True, error_model="numpy")
def group_times_rows(tile_code, product_tile, segment, group, first, count, x, out, accumulate, halves, floats):
    """One group of panels of a segment times rows ``first .. first + count``."""
    kind, columns, before = segment[KIND], segment[COLUMNS], PANELS_AT_ONCE * group
    column, lanes = segment[OFFSET] + PANEL * before, min(PANEL * PANELS_AT_ONCE, segment[ROWS] - PANEL * before)
    panels = (lanes + PANEL - 1) // PANEL
    size = panel_bytes(kind, columns)
    weights = segment[ADDRESS] + before * size
    target, line = out[first:].ctypes.data + 4 * column, out.strides[0]
    aside = lanes < panels * PANEL
    if aside:  # the last panel is not full: what lies behind its columns belongs to others
        target, line = floats.ctypes.data, 4 * PANEL * panels
    step = inputs_at_a_time(columns)
    for begin in range(0, columns, step):
        width = min(step, columns - begin)
        for panel in range(panels):
            source = weights + panel * size + panel_bytes(kind, begin)
            call_3(tile_code[WIDEN[kind]], (source, width // 32, halves.ctypes.data + panel * step * 2 * PANEL))
        add = 1 if begin > 0 or (accumulate and not aside) else 0
        inputs = x.ctypes.data + 2 * first * columns + 2 * PANEL * begin
        call_12(
            tile_code[product_tile],
            (halves.ctypes.data, step * 2 * PANEL, panels, inputs, 2 * PANEL * columns, LINE, PANEL * LINE, count,
             width // 32, target, line, add),
        )  # fmt: skip
    if aside:
        for r in range(count):
            for lane in range(lanes):
                value = floats[r * PANEL * panels + lane]
                out[first + r, column + lane] = value + out[first + r, column + lane] if accumulate else value
    if segment[BIAS] != 0:
        bias = carray(pointer(segment[BIAS] + 4 * PANEL * before), lanes, np.float32)
        for r in range(first, first + count):
            for lane in range(lanes):
                out[r, column + lane] += bias[lane]


@njit(nogil=True, error_model="numpy")
def many_rows_gated(tile_code, product_tile, threads, stage, segments, rows, x, out, halves, floats):
    """``silu(gate) * up`` as inputs of the next product, shared with the other threads; returns when all of it is done.

    ``segments`` are gate and up, of as many rows, a multiple of 32. ``x`` and ``out`` are inputs as `round_row` leaves
    them. The products themselves stay in a near cache, which is worth more than a stage of its own for the activation.
    """
    inner, columns = segments[0, ROWS], segments[0, COLUMNS]
    groups = (inner + GATED * PANEL - 1) // (GATED * PANEL)
    chunk = rows_of_an_item(threads, groups, rows)
    total = groups * ((rows + chunk - 1) // chunk)
    step = inputs_at_a_time(columns)
    item = claim(stage)
    while item < total:
        first_panel, first = item % groups * GATED, item // groups * chunk
        panels, count = min(GATED, inner // PANEL - first_panel), min(chunk, rows - first)
        line = 2 * PANEL * panels
        for begin in range(0, columns, step):
            width = min(step, columns - begin)
            for s in range(2):
                kind = segments[s, KIND]
                for panel in range(panels):
                    source = segments[s, ADDRESS] + (first_panel + panel) * panel_bytes(kind, columns)
                    place = halves.ctypes.data + (s * panels + panel) * step * 2 * PANEL
                    call_3(tile_code[WIDEN[kind]], (source + panel_bytes(kind, begin), width // 32, place))
            inputs = x.ctypes.data + 2 * first * columns + 2 * PANEL * begin
            call_12(
                tile_code[product_tile],
                (halves.ctypes.data, step * 2 * PANEL, 2 * panels, inputs, 2 * PANEL * columns, LINE, PANEL * LINE,
                 count, width // 32, floats.ctypes.data, 4 * line, 1 if begin > 0 else 0),
            )  # fmt: skip
        for s in range(2):
            if segments[s, BIAS] != 0:
                bias = carray(pointer(segments[s, BIAS] + 4 * PANEL * first_panel), panels * PANEL, np.float32)
                for r in range(count):
                    for i in range(panels * PANEL):
                        floats[r * line + s * panels * PANEL + i] += bias[i]
        for r in range(count):
            for panel in range(panels):
                gate = floats.ctypes.data + 4 * (r * line + panel * PANEL)
                gated_run(gate, gate + 4 * panels * PANEL, first + r, first_panel + panel, inner, out.ctypes.data)
        finish(stage)
        item = claim(stage)
    wait_for(stage, total)


@njit(nogil=True, fastmath=REORDER, error_model="numpy")
def gated_run(gate_at, up_at, row, panel, columns, out_at):
    """``silu(gate) * up`` of 16 neighbouring columns, written as `round_row` does; from and to addresses."""
    place = row // PANEL * PANEL * columns + row % PANEL * 32 + panel // 2 * 2 * PANEL * PANEL + panel % 2 * PANEL
    gate, up = carray(pointer(gate_at), PANEL, np.float32), carray(pointer(up_at), PANEL, np.float32)
    target = carray(pointer(out_at + 2 * place), PANEL, np.int16)
    for i in range(PANEL):
        target[i] = np.int16(to_bf16(gate[i] / (np.float32(1) + fast_exp(-gate[i])) * up[i]))


@njit(nogil=True, error_model="numpy")
def attend_spans(
    tile_code, product_tile, stage, spans, heads, kv_heads, block_size, scale, query, positions, block_tables,
    keys, values, out, halves, floats, limits,
):  # fmt: skip
    """Attention of all spans and KV heads, shared with the other threads (see `attend_span`)."""
    head_stride = block_size * query.shape[2] * 2
    total = spans.shape[0] * kv_heads
    item = claim(stage)
    while item < total:
        span, head = spans[item // kv_heads], item % kv_heads
        attend_span(
            tile_code, product_tile, span, head, heads // kv_heads, query, scale, positions,
            block_tables[span[SEQUENCE]], keys + head * head_stride, values + head * head_stride,
            kv_heads * head_stride, block_size, out, halves, floats, limits,
        )  # fmt: skip
        finish(stage)
        item = claim(stage)
    wait_for(stage, total)


@njit(nogil=True, error_model="numpy")
def attend_span(
    tile_code, product_tile, span, head, group, query, scale, positions, table, keys, values, block_stride,
    block_size, out, halves, floats, limits,
):  # fmt: skip
    """Attention of one span for one KV head, to ``out`` [num_tokens, heads, head_dim].

    ``query`` is [num_tokens, heads or more, head_dim], head_dim a multiple of 32; ``keys`` and ``values`` are
    addresses of one bfloat16 head in block 0, ``block_stride`` the bytes from one block to the next. A block is a part
    of a chunk, or a multiple of it. ``halves``, ``floats``, ``limits``: see `scratch_sizes`.
    """
    head_dim, first, end = query.shape[2], span[FIRST_ROW], span[END]
    rows = span[TOKENS] * group
    padded = (rows + ROW_BLOCK - 1) // ROW_BLOCK * ROW_BLOCK
    run, weights = padded * head_dim, (padded + 3 * CHUNK) * head_dim
    key_panels, value_panels = run + CHUNK * head_dim, run + 2 * CHUNK * head_dim
    peaks, norms = padded * head_dim, padded * (head_dim + 1)
    at, float_at, q_line, line = halves.ctypes.data, floats.ctypes.data, 2 * head_dim, 4 * head_dim
    scores = float_at + 4 * padded * (head_dim + 2)
    panel_size = head_dim // 2 * LINE
    factor = np.float32(scale * np.float32(LOG2_E))
    for row in range(rows):
        token = first + row // group
        limits[row] = positions[token] + 1
        floats[peaks + row], floats[norms + row] = np.float32(FIRST_PEAK), np.float32(0)
        for d in range(head_dim):
            halves[row * head_dim + d] = np.int16(to_bf16(query[token, head * group + row % group, d] * factor))
            floats[row * head_dim + d] = np.float32(0)
    for start in range(0, end, CHUNK):
        count = min(CHUNK, end - start)
        filled = (count + 31) // 32 * 32
        gather_slots(keys, table, block_stride, block_size, start, count, filled, head_dim, at + 2 * run)
        call_4(tile_code[KEYS], (at + 2 * run, filled // PANEL, head_dim, at + 2 * key_panels))
        gather_slots(values, table, block_stride, block_size, start, count, filled, head_dim, at + 2 * run)
        call_4(tile_code[VALUES], (at + 2 * run, filled // 2, head_dim, at + 2 * value_panels))
        for row in range(0, rows, ROW_BLOCK):
            n = min(ROW_BLOCK, rows - row)
            seen = min(count, limits[row + n - 1] - start)
            if seen <= 0:
                continue
            slots, sums = (seen + 31) // 32 * 32, float_at + row * line
            call_12(
                tile_code[product_tile],
                (at + 2 * key_panels, panel_size, slots // PANEL, at + row * q_line, PANEL * q_line, q_line, LINE, n,
                 head_dim // 32, scores, 4 * CHUNK, 0),
            )  # fmt: skip
            call_10(
                tile_code[SOFTEN],
                (scores, at + 2 * weights, limits.ctypes.data + 4 * row, start, slots, n,
                 float_at + 4 * (peaks + row), float_at + 4 * (norms + row), sums, head_dim),
            )  # fmt: skip
            call_12(
                tile_code[product_tile],
                (at + 2 * value_panels, CHUNK // 2 * LINE, head_dim // PANEL, at + 2 * weights, PANEL * 2 * CHUNK,
                 2 * CHUNK, LINE, n, slots // 32, sums, line, 1),
            )  # fmt: skip
    for row in range(rows):
        shrink = np.float32(1) / floats[norms + row]
        for d in range(head_dim):
            out[first + row // group, head * group + row % group, d] = floats[row * head_dim + d] * shrink


@njit(nogil=True, error_model="numpy")
def gather_slots(address, table, block_stride, block_size, start, count, filled, head_dim, out_at):
    """Copies bfloat16 slots ``start .. start + count`` of one head side by side, zeros up to ``filled``.

    Blocks and the copy are given as addresses: views of an array would count references with every block.
    """
    offset = start % block_size  # 0, but in blocks longer than a chunk
    for t in range(0, count, block_size):
        run = min(block_size, count - t) * head_dim
        at = address + table[(start + t) // block_size] * block_stride + offset * head_dim * 2
        source = carray(pointer(at), run, np.int16)
        target = carray(pointer(out_at + 2 * t * head_dim), run, np.int16)
        for i in range(run):
            target[i] = source[i]
    out = carray(pointer(out_at), filled * head_dim, np.int16)
    for i in range(count * head_dim, filled * head_dim):
        out[i] = 0
