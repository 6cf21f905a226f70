"""What a model takes beside its KV pool, in bytes: upper bounds, known before anything is allocated.

    free memory   ├── weights to come ──┼── largest step ──┼── slack ──┼──────────── room for the pool ───────────┤

Weights are read from a mapped file and prepared only after the pool's size is known, so they are still to come. The
largest step is `max_num_batched_tokens` tokens of one prompt at the end of the longest context. The slack is for what
nobody can count: allocators, threads' stacks, the interpreter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch

from .models.decoder import serves_plain
from .scheduler import ROWS_OF_LOGITS

if TYPE_CHECKING:
    from ..kernels.interface import DecoderShape, DecoderWeights, Kernels, Weight

FLOAT = 4
SCORE_COPIES = 3
"""Scores of plain torch's attention that are alive at a time: scaled, masked, weights."""
PACKED_BYTES = {"Q4_0": 0.625, "Q4_1": 0.625, "Q8_0": 1.0625}
"""Bytes a weight in the panels of the compiled kernels; other block formats become float16."""
SPLIT = 256
"""Slots that the compiled attention takes at a time where a row is alone (the kernel's own needs its compiler)."""


@dataclass(frozen=True)
class Headroom:
    """Bytes that must stay free beside the pool."""

    weights: int = 0
    step: int = 0

    @property
    def total(self) -> int:
        """Both."""
        return self.weights + self.step


class StepLimits(NamedTuple):
    """The largest step: tokens and requests in it, and tokens of the longest context."""

    tokens: int = 512
    seqs: int = 32
    context: int = 1


ANY_STEP = StepLimits()


def headroom_of(
    shape: DecoderShape,
    weights: DecoderWeights,
    kernels: Kernels,
    cache_dtype: torch.dtype,
    limits: StepLimits,
    deterministic: bool,
) -> Headroom:
    """What a model takes beside its pool on these kernels, the compiled program's share and plain torch's where both
    serve."""
    fuses = kernels.can_fuse(shape)
    plain = not fuses or serves_plain(shape, deterministic)
    return Headroom(
        weights_to_come(weights, cache_dtype if fuses else None, kernels.dtype if plain else None),
        step_bytes(shape, limits, plain, deterministic),
    )


def weights_to_come(weights: DecoderWeights, packed: torch.dtype | None, plain: torch.dtype | None) -> int:
    """Bytes of the prepared weights.

    Args:
        packed: dtype of the compiled program, None when there will be none.
        plain: dtype of plain torch, None when it does not serve, not even in between.
    """
    matrices = list(_matrices(weights))
    total = 0
    if packed is not None:
        total += sum(int(_size(one) * _packed_bytes(one, packed)) for one in matrices)
    if plain is not None:
        total += sum(_size(one) for one in matrices) * plain.itemsize
    return total + FLOAT * max(map(_size, matrices))  # one matrix at a time is unpacked on the way


def _matrices(weights: DecoderWeights) -> Iterable[Weight]:
    yield weights.embedding
    if weights.head is not weights.embedding:
        yield weights.head
    for layer in weights.layers:
        yield from (*layer.qkv, layer.output, *layer.gate_up, layer.down)


def _size(weight: Weight) -> int:
    rows, columns = weight.shape
    return rows * columns


def _packed_bytes(weight: Weight, dtype: torch.dtype) -> float:
    if dtype == torch.float32:
        return FLOAT
    return 2 if isinstance(weight, torch.Tensor) else PACKED_BYTES.get(weight.kind, 2)


def step_bytes(shape: DecoderShape, limits: StepLimits, plain: bool, rows_apart: bool = False) -> int:
    """Bytes of activations and logits of the largest step.

    Args:
        rows_apart: every row is attended as a sequence of its own, cut into splits.
        plain: plain torch may run it, which gathers a sequence's KV and holds scores of all heads.
    """
    attended, shared = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    qkv = attended + 2 * shared
    # a row for each request, and a prompt's rows where its logits are asked for
    logits = (limits.seqs + ROWS_OF_LOGITS) * shape.vocab_size * 3 * FLOAT
    if not plain:
        widths = 3 * shape.hidden_size + qkv + 2 * attended + 4 * shape.intermediate_size
        splits = -(-limits.context // SPLIT)
        # stretches that sequences share are split for themselves, and there are fewer of them than sequences
        parts = limits.tokens * splits if rows_apart else limits.seqs * (splits + limits.seqs)
        partials = parts * (attended + 2 * shape.num_heads)
        return logits + FLOAT * (2 * limits.tokens * widths + partials)
    widths = 8 * shape.hidden_size + 6 * qkv + 4 * shape.intermediate_size
    gathered = 2 * limits.context * (attended + 4 * shared)
    scores = SCORE_COPIES * shape.num_heads * limits.tokens * limits.context
    return logits + FLOAT * (limits.tokens * widths + gathered + scores) + 3 * limits.tokens * limits.context
