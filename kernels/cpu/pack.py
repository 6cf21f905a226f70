"""Packs weight matrices into panels (see `tiles`), once at load, with numpy alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..interface import Weight
from .products import BF16, F16, F32, Q4, Q8
from .tiles import PANEL, Q4_BLOCK_BYTES, Q8_BLOCK_BYTES

PANELS_AT_ONCE = 64
"""Panels packed in one go: bounds the memory that packing takes on top."""


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
    if dtype != torch.float32 and not isinstance(weight, torch.Tensor):
        packer = {"Q4_0": pack_q4_0, "Q4_1": pack_q4_1, "Q8_0": pack_q8_0}.get(weight.kind)
        if packer is not None:
            return packer(weight.data, tuple(weight.shape))
        return pack_plain(weight.dequantize().to(torch.float16))
    tensor = weight if isinstance(weight, torch.Tensor) else weight.dequantize()
    if dtype == torch.float32:
        return pack_plain(tensor.float())
    return pack_plain(tensor if tensor.dtype == torch.float16 else tensor.to(torch.bfloat16))


def pack_plain(tensor: torch.Tensor) -> PackedMatrix:
    """Panels of a float32, bfloat16 or float16 tensor [rows, columns]."""
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


def pack_q4_1(blocks: np.ndarray, shape: tuple[int, int]) -> PackedMatrix:
    """Q4_1 blocks (float16 scale, float16 minimum, 16 bytes of nibbles), taken over exactly."""
    return pack_q4(blocks, shape, 20, lambda part: (part[..., 0:2], part[..., 2:4]))


def pack_q4_0(blocks: np.ndarray, shape: tuple[int, int]) -> PackedMatrix:
    """Q4_0 blocks (float16 scale, 16 bytes of nibbles): scale * (nibble - 8) is a minimum of -8 scales, exactly."""

    def scale_and_minimum(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scale = np.ascontiguousarray(part[..., 0:2]).view(np.float16)
        return part[..., 0:2], (scale * np.float16(-8)).view(np.uint8)

    return pack_q4(blocks, shape, 18, scale_and_minimum)


def pack_q4(blocks: np.ndarray, shape: tuple[int, int], block_bytes: int, scale_and_minimum) -> PackedMatrix:
    """Panels of a format with 32 nibbles at the end of each block; columns 0-15 in the low halves of the bytes."""
    rows, columns = shape
    width = columns // 32
    panels = -(-rows // PANEL)
    data = aligned_zeros(panels, width * Q4_BLOCK_BYTES)
    target = data.reshape(panels, width, Q4_BLOCK_BYTES)
    for first in range(0, panels, PANELS_AT_ONCE):
        part = padded_panels(blocks, first, rows, width * block_bytes).reshape(-1, PANEL, width, block_bytes)
        count = part.shape[0]
        codes = part[..., block_bytes - 16 :]
        nibbles = np.concatenate([codes & 15, codes >> 4], axis=-1).reshape(count, PANEL, width, 4, 4, 2)
        nibbles = nibbles.transpose(0, 2, 3, 1, 5, 4)
        words = np.empty((count, width, 4, PANEL, 2, 2), np.uint8)
        np.bitwise_or(nibbles[..., 0::2], nibbles[..., 1::2] << 4, out=words)
        out = target[first : first + count]
        out[..., :256] = words.reshape(count, width, 256)
        scale, minimum = scale_and_minimum(part)
        out[..., 256:288] = scale.transpose(0, 2, 1, 3).reshape(count, width, 32)
        out[..., 288:320] = minimum.transpose(0, 2, 1, 3).reshape(count, width, 32)
    return PackedMatrix(Q4, rows, columns, data)


def pack_q8_0(blocks: np.ndarray, shape: tuple[int, int]) -> PackedMatrix:
    """Q8_0 blocks (float16 scale, 32 signed bytes), taken over exactly."""
    rows, columns = shape
    width = columns // 32
    panels = -(-rows // PANEL)
    data = aligned_zeros(panels, width * Q8_BLOCK_BYTES)
    target = data.reshape(panels, width, Q8_BLOCK_BYTES)
    for first in range(0, panels, PANELS_AT_ONCE):
        part = padded_panels(blocks, first, rows, width * 34).reshape(-1, PANEL, width, 34)
        count = part.shape[0]
        out = target[first : first + count]
        pairs = np.ascontiguousarray(part[..., 2:]).reshape(count, PANEL, width, 16, 2)
        out[..., :512] = pairs.transpose(0, 2, 3, 1, 4).reshape(count, width, 512)
        out[..., 512:544] = part[..., :2].transpose(0, 2, 1, 3).reshape(count, width, 32)
    return PackedMatrix(Q8, rows, columns, data)


def padded_panels(blocks: np.ndarray, first: int, rows: int, row_bytes: int) -> np.ndarray:
    """Rows of some panels from panel ``first`` on, uint8, filled up with zero rows at the end of the matrix."""
    begin = first * PANEL
    part = np.asarray(blocks[begin : min(rows, begin + PANELS_AT_ONCE * PANEL)]).view(np.uint8).reshape(-1, row_bytes)
    missing = -len(part) % PANEL
    return part if not missing else np.concatenate([part, np.zeros((missing, row_bytes), np.uint8)])


def aligned_zeros(panels: int, panel_bytes: int) -> np.ndarray:
    """uint8 zeros [panels, panel_bytes] that start on a cache line."""
    size = panels * panel_bytes
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].reshape(panels, panel_bytes)
