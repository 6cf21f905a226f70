"""Matrix products with packed weights, spread over the threads of a team panel by panel.

A *segment* is one packed matrix: int64 [kind, address, rows, columns, first output column, bias address or 0].
A *product* is a run of segments that read the same input and write one output, side by side.
"""

# pyright: reportCallIssue=false
# (pyright sees an intrinsic's typing context as one more argument)

from __future__ import annotations

import numpy as np
from numba import carray, njit  # pyright: ignore[reportPrivateImportUsage]

from .primitives import call_8, call_9, claim, finish, from_bf16, half_at, pointer, wait_for
from .tiles import MAX_TILE_ROWS, PANEL, Q4_BLOCK_BYTES, Q8_BLOCK_BYTES, TILE_KINDS

Q4, Q8, F32, BF16, F16 = range(len(TILE_KINDS))
KIND, ADDRESS, ROWS, COLUMNS, OFFSET, BIAS = range(6)
ROW_CHUNK = 96
PARTS_A_THREAD = 8


@njit(nogil=True, inline="always")
def panel_bytes(kind, columns):
    """Bytes of one panel of 16 rows."""
    if kind == Q4:
        return columns // 32 * Q4_BLOCK_BYTES
    if kind == Q8:
        return columns // 32 * Q8_BLOCK_BYTES
    return columns * PANEL * (4 if kind == F32 else 2)


@njit(nogil=True, error_model="numpy")
def panel_times_rows(tile_code, segment, panel, first, count, x, codes, factors, out, accumulate, buffer):
    """One panel of a segment times input rows ``first .. first + count``; sets or adds to their 16 output columns."""
    kind, columns = segment[KIND], segment[COLUMNS]
    weights = segment[ADDRESS] + panel * panel_bytes(kind, columns)
    lanes = min(PANEL, segment[ROWS] - panel * PANEL)
    column = segment[OFFSET] + panel * PANEL
    tiles = (count + MAX_TILE_ROWS - 1) // MAX_TILE_ROWS
    size = (count + tiles - 1) // tiles
    row = first
    while row < first + count:
        rows = min(size, first + count - row)
        target, line, add = out[row:].ctypes.data + 4 * column, out.strides[0], 1 if accumulate else 0
        if lanes < PANEL:
            target, line, add = buffer.ctypes.data, buffer.strides[0], 0
        tile = tile_code[kind * MAX_TILE_ROWS + rows - 1]
        if kind <= Q8:
            inputs, scales = codes[row:].ctypes.data, factors[row:].ctypes.data
            blocks, stride = columns // 32, factors.strides[0]
            call_9(tile, (weights, inputs, codes.strides[0], scales, stride, blocks, target, line, add))
        else:
            step = PANEL * 4 if kind == F32 else PANEL * 2
            call_8(tile, (weights, step, x[row:].ctypes.data, x.strides[0], columns, target, line, add))
        if lanes < PANEL:
            for r in range(rows):
                for lane in range(lanes):
                    before = out[row + r, column + lane] if accumulate else np.float32(0)
                    out[row + r, column + lane] = before + buffer[r, lane]
        row += rows
    if segment[BIAS] != 0:
        bias = carray(pointer(segment[BIAS] + 4 * panel * PANEL), lanes, np.float32)
        for r in range(first, first + count):
            for lane in range(lanes):
                out[r, column + lane] += bias[lane]


@njit(nogil=True, error_model="numpy")
def product(tile_code, threads, stage, segments, rows, x, codes, factors, out, accumulate, buffer):
    """One product, shared with the other threads; returns when all of it is done.

    ``rows`` input rows are read as float32 ``x`` or as 16-bit ``codes`` with ``factors``, whatever a segment needs.
    """
    panels = 0
    for s in range(segments.shape[0]):
        panels += (segments[s, ROWS] + PANEL - 1) // PANEL
    part = max(1, panels // (threads * PARTS_A_THREAD))
    parts = (panels + part - 1) // part
    total = parts * ((rows + ROW_CHUNK - 1) // ROW_CHUNK)
    item = claim(stage)
    while item < total:
        first = item // parts * ROW_CHUNK
        count = min(ROW_CHUNK, rows - first)
        begin = item % parts * part
        for index in range(begin, min(begin + part, panels)):
            panel, s = index, 0
            while panel >= (segments[s, ROWS] + PANEL - 1) // PANEL:
                panel -= (segments[s, ROWS] + PANEL - 1) // PANEL
                s += 1
            panel_times_rows(tile_code, segments[s], panel, first, count, x, codes, factors, out, accumulate, buffer)
        finish(stage)
        item = claim(stage)
    wait_for(stage, total)


@njit(nogil=True, error_model="numpy")
def read_row(segment, index, out):
    """Row ``index`` of a packed matrix as float32."""
    kind, columns = segment[KIND], segment[COLUMNS]
    lane = index % PANEL
    panel = segment[ADDRESS] + index // PANEL * panel_bytes(kind, columns)
    if kind == F32:
        values = carray(pointer(panel), columns * PANEL, np.float32)
        for i in range(columns):
            out[i] = values[i * PANEL + lane]
    elif kind == BF16:
        bits = carray(pointer(panel), columns * PANEL, np.uint16)
        for i in range(columns):
            out[i] = from_bf16(bits[i * PANEL + lane])
    elif kind == F16:
        for i in range(columns):
            out[i] = half_at(panel + 2 * (i * PANEL + lane))
    elif kind == Q8:
        for i in range(columns):
            block = panel + i // 32 * Q8_BLOCK_BYTES
            code = carray(pointer(block), 512, np.int8)[i % 32 // 2 * 32 + lane * 2 + i % 2]
            out[i] = np.float32(code) * half_at(block + 512 + 2 * lane)
    else:
        for i in range(columns):
            block = panel + i // 32 * Q4_BLOCK_BYTES
            chunk, j, e = i % 32 // 8, i % 8 // 2, i % 2
            word = carray(pointer(block), 128, np.uint16)[chunk * 32 + lane * 2 + e]
            code = np.float32((word >> np.uint16(4 * j)) & np.uint16(15))
            out[i] = code * half_at(block + 256 + 2 * lane) + half_at(block + 288 + 2 * lane)
