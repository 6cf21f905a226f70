"""Whether, from how many rows and with which instructions a program computes in bfloat16 (see `prefill`)."""

from __future__ import annotations

import numpy as np

from ..interface import AttentionBatch, DecoderShape
from .matrix_tiles import is_permitted
from .pack import aligned_zeros
from .prefill import AMX, DOT, NO_TILE, plan_spans, scratch_sizes
from .prefill_tiles import HAS_AMX, HAS_BF16

NO_SPANS = np.empty((0, 4), np.int32)


def best_tile() -> int:
    """Index of the product's tile on this processor; `NO_TILE` where it has no instructions for bfloat16."""
    if not HAS_BF16:
        return NO_TILE
    return AMX if HAS_AMX and is_permitted() else DOT


class ManyRows:
    """The choice of one program, and what its threads work in.

    Attributes:
        product_tile: index of the product's tile, or `NO_TILE`.
        least_rows: rows of a product from which it serves.
        halves, floats, limits: a line for each thread (see `scratch_sizes`).
    """

    def __init__(self, shape: DecoderShape, threads: int, product_tile: int, least_rows: int = 1):
        self.product_tile = product_tile
        self.least_rows = least_rows
        self._group = shape.num_heads // shape.num_kv_heads
        serves = product_tile != NO_TILE
        self._attends = serves and shape.head_dim % 32 == 0
        halves, floats, limits = scratch_sizes(self._group, shape.head_dim) if serves else (0, 0, 0)
        self.halves = aligned_zeros(threads, -(-2 * halves // 64) * 64).view(np.int16)
        self.floats = aligned_zeros(threads, -(-4 * floats // 64) * 64).view(np.float32)
        self.limits = np.zeros((threads, limits), np.int32)

    @property
    def remark(self) -> str:
        """What serves, for the user."""
        if self.product_tile == NO_TILE:
            return ""
        name = "AMX" if self.product_tile == AMX else "AVX-512"
        return f"{self.least_rows} tokens or more at once in bfloat16 ({name})"

    def tile_for(self, batch: AttentionBatch) -> int:
        """The product's tile in a step of this batch."""
        return NO_TILE if batch.rows_apart else self.product_tile

    def spans_of(self, batch: AttentionBatch, positions: np.ndarray) -> np.ndarray:
        """The parts of the batch that are attended in spans (see `plan_spans`)."""
        if not self._attends or batch.rows_apart or batch.num_tokens == batch.num_seqs:
            return NO_SPANS
        return plan_spans(batch.query_start, positions, self._group)
