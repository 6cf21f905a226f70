"""From how many rows the products in bfloat16 beat those with packed panels: measured once on each processor, and kept
beside the compiled kernels."""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from .pack import aligned_zeros
from .prefill import AMX, WIDEN
from .products import F32, Q8, panel_bytes
from .tiles import MAX_TILE_ROWS, PANEL, TILE_KINDS

CANDIDATES = (12, 16, 24, 32, 48, 64)
"""Numbers of rows that are tried; below the first packed panels serve, which are nearly exact."""
ROUNDS = 9
COLUMNS = 2304
"""So many that calling the tiles from Python takes little beside them."""
FILE = "crossover.json"
Call = tuple[Callable[..., None], tuple[int, ...]]


def crossover(folder: Path | None, addresses: np.ndarray, kind: int, product_tile: int) -> int:
    """Rows from which ``product_tile`` serves panels of this kind.

    Args:
        folder: of the compiled kernels, where the answer is kept.
        addresses: of all tiles.
    """
    name = f"{TILE_KINDS[kind]} {'amx' if product_tile == AMX else 'dot'}"
    file = None if folder is None else folder / FILE
    known: dict[str, int] = {}
    if file is not None:
        with suppress(OSError, ValueError):
            known = json.loads(file.read_text())
    if known.get(name) not in CANDIDATES:
        known[name] = measured(addresses, kind, product_tile)
        if file is not None:
            with suppress(OSError):
                file.write_text(json.dumps(known))
    return known[name]


def measured(addresses: np.ndarray, kind: int, product_tile: int) -> int:
    """The first candidate from which on two panels go faster in bfloat16."""
    trial = Trial(addresses, kind, product_tile)
    best = CANDIDATES[-1]
    for rows in reversed(CANDIDATES):
        calls = trial.packed(rows), trial.widened(rows)
        packed, widened = (min(seconds_of(one) for _ in range(ROUNDS)) for one in calls)
        if widened > packed:
            break
        best = rows
    return best


def seconds_of(calls: Sequence[Call]) -> float:
    """How long some calls take."""
    began = time.perf_counter()
    for function, arguments in calls:
        function(*arguments)
    return time.perf_counter() - began


class Trial:
    """Two panels and some rows, all zeros: the time does not depend on the numbers."""

    def __init__(self, addresses: np.ndarray, kind: int, product_tile: int):
        assert kind != F32
        self.kind = kind
        self.size = int(panel_bytes(kind, COLUMNS))
        self.weights = aligned_zeros(2, self.size)
        rows = CANDIDATES[-1]
        self.inputs = aligned_zeros(rows, 4 * COLUMNS)
        self.factors = aligned_zeros(rows, COLUMNS // 32 * 8)
        self.panels = aligned_zeros(2, COLUMNS * PANEL * 2)
        self.out = aligned_zeros(rows, 2 * PANEL * 4)
        self._tiles = [
            function_at(addresses[kind * MAX_TILE_ROWS + index], 9 if kind <= Q8 else 8)
            for index in range(MAX_TILE_ROWS)
        ]
        self._widen = function_at(addresses[WIDEN[kind]], 3)
        self._product = function_at(addresses[product_tile], 12)

    def packed(self, rows: int) -> list[Call]:
        """The products as `products.panel_times_rows` makes them."""
        step = -(-rows // -(-rows // MAX_TILE_ROWS))
        line, factor_line, out_line = (array.strides[0] for array in (self.inputs, self.factors, self.out))
        calls = []
        for panel in range(2):
            weights = self.weights[panel].ctypes.data
            for row in range(0, rows, step):
                tile = self._tiles[min(step, rows - row) - 1]
                inputs, target = self.inputs[row].ctypes.data, self.out[row].ctypes.data + 4 * PANEL * panel
                if self.kind <= Q8:
                    scales = self.factors[row].ctypes.data
                    arguments = (weights, inputs, line, scales, factor_line, COLUMNS // 32, target, out_line, 0)
                else:
                    arguments = (weights, 2 * PANEL, inputs, line, COLUMNS, target, out_line, 0)
                calls.append((tile, arguments))
        return calls

    def widened(self, rows: int) -> list[Call]:
        """The products as `prefill.group_times_rows` makes them."""
        calls: list[Call] = [
            (self._widen, (self.weights[panel].ctypes.data, COLUMNS // 32, self.panels[panel].ctypes.data))
            for panel in range(2)
        ]
        arrays = (self.panels, self.inputs, self.out)
        (panels, inputs, out), lines = (array.ctypes.data for array in arrays), [array.strides[0] for array in arrays]
        product = (panels, lines[0], 2, inputs, 2 * PANEL * COLUMNS, 64, 1024, rows, COLUMNS // 32, out, lines[2], 0)
        return [*calls, (self._product, product)]


def function_at(address: int, count: int) -> Callable[..., None]:
    """The tile at an address, callable from Python with ``count`` numbers."""
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * count)(int(address))
