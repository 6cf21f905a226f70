"""Random matrices in the blocks of a GGUF file, with their numbers worked out apart from the product's code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class FileBlocks:
    """A matrix in a file's blocks, with its numbers worked out apart from the product's code."""

    kind: str
    data: np.ndarray
    numbers: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.numbers.shape

    def dequantize(self) -> torch.Tensor:
        return torch.from_numpy(self.numbers)


def file_blocks(kind: str, rows: int, columns: int, seed: int) -> FileBlocks:
    random = np.random.default_rng(seed)
    width = columns // 32
    scale = (random.random((rows, width, 1)) * 0.02 + 0.001).astype(np.float16)
    scale *= random.choice([-1, 1], scale.shape).astype(np.float16)
    if kind == "Q8_0":
        codes = random.integers(-127, 128, (rows, width, 32), dtype=np.int8)
        raw = np.concatenate([scale.view(np.uint8), codes.view(np.uint8)], axis=2)
        numbers = scale.astype(np.float32) * codes
    else:
        nibbles = random.integers(0, 16, (rows, width, 32), dtype=np.uint8)
        packed = nibbles[..., :16] | nibbles[..., 16:] << 4
        if kind == "Q4_1":
            minimum = (random.standard_normal((rows, width, 1)) * 0.05).astype(np.float16)
            raw = np.concatenate([scale.view(np.uint8), minimum.view(np.uint8), packed], axis=2)
            numbers = scale.astype(np.float32) * nibbles + minimum.astype(np.float32)
        else:
            raw = np.concatenate([scale.view(np.uint8), packed], axis=2)
            numbers = scale.astype(np.float32) * (nibbles.astype(np.float32) - 8)
    return FileBlocks(kind, raw.reshape(rows, -1), numbers.reshape(rows, columns))
