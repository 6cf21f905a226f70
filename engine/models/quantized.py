"""Weights that stay in a GGUF file's own blocks, and the table of ggml's types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import torch


class GGMLType(NamedTuple):
    """One way of storing numbers: ``block_size`` elements take ``block_bytes`` bytes."""

    name: str
    block_size: int
    block_bytes: int


_ROWS: tuple[tuple[int, str, int, int], ...] = (
    (0, "F32", 1, 4), (1, "F16", 1, 2), (2, "Q4_0", 32, 18), (3, "Q4_1", 32, 20), (4, "Q4_2", 16, 10),
    (5, "Q4_3", 16, 12), (6, "Q5_0", 32, 22), (7, "Q5_1", 32, 24), (8, "Q8_0", 32, 34), (9, "Q8_1", 32, 40),
    (10, "Q2_K", 256, 84), (11, "Q3_K", 256, 110), (12, "Q4_K", 256, 144), (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210), (15, "Q8_K", 256, 292), (16, "IQ2_XXS", 256, 66), (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98), (19, "IQ1_S", 256, 50), (20, "IQ4_NL", 32, 18), (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82), (23, "IQ4_XS", 256, 136), (24, "I8", 1, 1), (25, "I16", 1, 2), (26, "I32", 1, 4),
    (27, "I64", 1, 8), (28, "F64", 1, 8), (29, "IQ1_M", 256, 56), (30, "BF16", 1, 2), (31, "Q4_0_4_4", 32, 18),
    (32, "Q4_0_4_8", 32, 18), (33, "Q4_0_8_8", 32, 18), (34, "TQ1_0", 256, 54), (35, "TQ2_0", 256, 66),
    (36, "IQ4_NL_4_4", 32, 18), (37, "IQ4_NL_4_8", 32, 18), (38, "IQ4_NL_8_8", 32, 18), (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36), (41, "Q1_0", 128, 18),
)  # fmt: skip

GGML_TYPES = {number: GGMLType(name, size, width) for number, name, size, width in _ROWS}
TYPES_BY_NAME = {kind.name: kind for kind in GGML_TYPES.values()}
PLAIN_KINDS = frozenset({"F32", "F16", "BF16"})
SUPPORTED_KINDS = PLAIN_KINDS | {
    "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS",
}  # fmt: skip


@dataclass(frozen=True)
class QuantizedTensor:
    """A weight matrix in a GGUF file's own blocks.

    Attributes:
        kind: ggml's name of the format, such as ``Q4_1`` (32 elements: float16 scale, float16 minimum, 16 bytes of
            nibbles, the low ones first) or ``Q8_0`` (32 elements: float16 scale, 32 signed bytes).
        data: uint8 [rows, row_bytes], the blocks of each row one after another; mapped from the file where the row
            order is the file's own.
        shape: (rows, columns) in elements.
    """

    kind: str
    data: np.ndarray
    shape: tuple[int, ...]

    def dequantize(self) -> torch.Tensor:
        """The weights as float32 [rows, columns], exactly what the format means."""
        import torch

        return torch.from_numpy(dequantize_blocks(self.kind, self.data).reshape(self.shape))


def dequantize_blocks(kind: str, data: np.ndarray) -> np.ndarray:
    """Numbers of raw blocks: uint8 [..., row_bytes] to float32 [..., columns].

    The common formats are read here; the others through the ``gguf`` package.
    """
    layout = TYPES_BY_NAME[kind]
    blocks = np.ascontiguousarray(data).reshape(-1, layout.block_bytes)
    if kind in _READERS:
        values = _READERS[kind](blocks)
    else:
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize

        values = dequantize(blocks, GGMLQuantizationType[kind])
    return np.ascontiguousarray(values, np.float32).reshape(*data.shape[:-1], -1)


def _half(blocks: np.ndarray, start: int) -> np.ndarray:
    return np.ascontiguousarray(blocks[:, start : start + 2]).view(np.float16).astype(np.float32)


def _nibbles(blocks: np.ndarray, start: int) -> np.ndarray:
    packed = blocks[:, start : start + 16]
    return np.concatenate([packed & 15, packed >> 4], axis=1)


def _q4_0(blocks: np.ndarray) -> np.ndarray:
    return _half(blocks, 0) * (_nibbles(blocks, 2).astype(np.float32) - 8)


def _q4_1(blocks: np.ndarray) -> np.ndarray:
    return _half(blocks, 0) * _nibbles(blocks, 4).astype(np.float32) + _half(blocks, 2)


def _q8_0(blocks: np.ndarray) -> np.ndarray:
    return _half(blocks, 0) * np.ascontiguousarray(blocks[:, 2:]).view(np.int8).astype(np.float32)


_READERS = {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q8_0": _q8_0}
