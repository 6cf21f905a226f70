"""Packs weight matrices into panels (see `tiles`), once at load. Imports torch late: compiling does not need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from ..interface import QuantizedWeight, Weight
from .products import BF16, F16, F32, Q4, Q8
from .tiles import PANEL, Q4_BLOCK_BYTES, Q8_BLOCK_BYTES

if TYPE_CHECKING:
    import torch


@dataclass
class PackedMatrix:
    """One matrix in panels.

    Attributes:
        kind: `products.Q4`, `Q8`, `F32`, `BF16` or `F16`.
        data: uint8 [panels, panel bytes], aligned to 64 bytes.
    """

    kind: int
    rows: int
    columns: int
    data: np.ndarray

    @property
    def nbytes(self) -> int:
        """Memory the panels take."""
        return self.data.nbytes


def pack(weight: Weight, dtype: torch.dtype) -> PackedMatrix:
    """Panels of a matrix. In float32 every matrix is unpacked to float32; else it keeps the precision of its file.

    Block formats without panels of their own become float16, whose error is below 0.05 %.
    """
    import torch

    if dtype != torch.float32 and not isinstance(weight, torch.Tensor):
        if weight.kind in ("Q4_0", "Q4_1"):
            return pack_q4(weight, 20 if weight.kind == "Q4_1" else 18)
        if weight.kind == "Q8_0":
            return pack_q8_0(weight)
        return pack_plain(weight.dequantize().to(torch.float16))
    tensor = weight if isinstance(weight, torch.Tensor) else weight.dequantize()
    if dtype == torch.float32:
        return pack_plain(tensor.float())
    return pack_plain(tensor if tensor.dtype == torch.float16 else tensor.to(torch.bfloat16))


def pack_plain(tensor: torch.Tensor) -> PackedMatrix:
    """Panels of a float32, bfloat16 or float16 tensor [rows, columns]."""
    import torch

    rows, columns = tensor.shape
    kind = {torch.float32: F32, torch.bfloat16: BF16, torch.float16: F16}[tensor.dtype]
    values = tensor.contiguous().view(torch.int32 if kind == F32 else torch.int16).numpy()
    panels = -(-rows // PANEL)
    data = aligned_zeros(panels, columns * PANEL * values.itemsize)
    target = data.view(values.dtype).reshape(panels, columns, PANEL)
    whole = rows // PANEL
    target[:whole] = values[: whole * PANEL].reshape(whole, PANEL, columns).transpose(0, 2, 1)
    if whole < panels:
        target[whole, :, : rows - whole * PANEL] = values[whole * PANEL :].T
    return PackedMatrix(kind, rows, columns, data)


def pack_q4(weight: QuantizedWeight, block_bytes: int) -> PackedMatrix:
    """Q4_1 blocks (float16 scale, float16 minimum, 16 bytes of nibbles) or Q4_0 (no minimum), taken over exactly.

    Q4_0 means scale * (nibble - 8): a minimum of -8 scales.
    """
    rows, columns = weight.shape
    data = aligned_zeros(-(-rows // PANEL), columns // 32 * Q4_BLOCK_BYTES)
    blocks = np.ascontiguousarray(weight.data).reshape(rows, -1)
    if block_bytes == 18:
        scales = blocks.reshape(rows, -1, 18)[..., :2].copy().view(np.float16)
        minima = (scales * np.float16(-8)).view(np.uint8)
    else:
        minima = blocks.reshape(rows, -1, 20)[..., 2:4].copy()
    fill_q4(blocks, block_bytes, minima.reshape(rows, -1), data)
    return PackedMatrix(Q4, rows, columns, data)


def pack_q8_0(weight: QuantizedWeight) -> PackedMatrix:
    """Q8_0 blocks (float16 scale, 32 signed bytes), taken over exactly."""
    rows, columns = weight.shape
    data = aligned_zeros(-(-rows // PANEL), columns // 32 * Q8_BLOCK_BYTES)
    fill_q8(np.ascontiguousarray(weight.data).reshape(rows, -1), data)
    return PackedMatrix(Q8, rows, columns, data)


@njit(nogil=True, error_model="numpy")
def fill_q4(blocks, block_bytes, minima, panels):
    """Interleaves the rows of 4-bit blocks; their first bytes are the scale, the last 16 the nibbles."""
    for row in range(blocks.shape[0]):
        panel, lane = row // 16, row % 16
        for b in range(panels.shape[1] // Q4_BLOCK_BYTES):
            source, target = b * block_bytes, b * Q4_BLOCK_BYTES
            codes = source + block_bytes - 16
            for chunk in range(4):
                first, shift = codes + chunk % 2 * 8, np.uint8(chunk // 2 * 4)
                for e in range(2):
                    at = target + 64 * chunk + 4 * lane + 2 * e
                    for pair in range(2):
                        low = (blocks[row, first + 4 * pair + e] >> shift) & np.uint8(15)
                        high = (blocks[row, first + 4 * pair + 2 + e] >> shift) & np.uint8(15)
                        panels[panel, at + pair] = low | high << np.uint8(4)
            for i in range(2):
                panels[panel, target + 256 + 2 * lane + i] = blocks[row, source + i]
                panels[panel, target + 288 + 2 * lane + i] = minima[row, 2 * b + i]


@njit(nogil=True, error_model="numpy")
def fill_q8(blocks, panels):
    """Interleaves the rows of 8-bit blocks: float16 scale, 32 codes."""
    for row in range(blocks.shape[0]):
        panel, lane = row // 16, row % 16
        for b in range(panels.shape[1] // Q8_BLOCK_BYTES):
            source, target = b * 34, b * Q8_BLOCK_BYTES
            for pair in range(16):
                for e in range(2):
                    panels[panel, target + 32 * pair + 2 * lane + e] = blocks[row, source + 2 + 2 * pair + e]
            for i in range(2):
                panels[panel, target + 512 + 2 * lane + i] = blocks[row, source + i]


def aligned_zeros(panels: int, panel_bytes: int) -> np.ndarray:
    """uint8 zeros [panels, panel_bytes] that start on a cache line."""
    size = panels * panel_bytes
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].reshape(panels, panel_bytes)
