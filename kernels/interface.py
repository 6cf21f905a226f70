"""What every kernel backend is given and promises. Backends: `reference`, `cpu`, `triton`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    import torch


@dataclass
class AttentionBatch:
    """The ragged batch of one engine step.

    Sequence i owns the token rows ``query_start[i]:query_start[i + 1]``; they are its newest tokens.

    Attributes:
        query_start: int32 [num_seqs + 1], first row of each sequence, then the number of rows.
        seq_lens: int32 [num_seqs], tokens of each sequence in the cache once this step's are written.
        block_tables: int32 [num_seqs, max_blocks], logical to physical block; entries past the end, and of blocks
            behind the window, are 0 and never read.
        positions: int32 [num_tokens], position of each row in its sequence.
        slot_mapping: int64 [num_tokens], ``physical block * block_size + offset`` where each row's KV goes.
        block_size: tokens per block.
        kv_group: index of the KV group these tables belong to.
        window: how many positions back a row sees, its own included; None for all.
        rows_apart: what a row gives must depend on nothing but its own sequence, to the bit.
    """

    query_start: np.ndarray
    seq_lens: np.ndarray
    block_tables: np.ndarray
    positions: np.ndarray
    slot_mapping: np.ndarray
    block_size: int
    kv_group: int = 0
    window: int | None = None
    rows_apart: bool = False

    @property
    def num_seqs(self) -> int:
        """Sequences in the batch."""
        return len(self.seq_lens)

    @property
    def num_tokens(self) -> int:
        """Token rows in the batch."""
        return len(self.positions)


def rows_apart(batch: AttentionBatch) -> AttentionBatch:
    """The same rows, each as a sequence of its own: what a row then gives depends on nothing but its own sequence."""
    owner = np.repeat(np.arange(batch.num_seqs), np.diff(batch.query_start))
    return replace(
        batch,
        query_start=np.arange(batch.num_tokens + 1, dtype=np.int32),
        seq_lens=(batch.positions + 1).astype(np.int32),
        block_tables=batch.block_tables[owner],
        rows_apart=True,
    )


def row_of(batch: AttentionBatch, row: int) -> AttentionBatch:
    """One row of a batch whose rows are sequences of their own."""
    one = slice(row, row + 1)
    return replace(
        batch,
        query_start=np.array([0, 1], np.int32),
        seq_lens=batch.seq_lens[one],
        block_tables=batch.block_tables[one],
        positions=batch.positions[one],
        slot_mapping=batch.slot_mapping[one],
    )


class QuantizedWeight(Protocol):
    """A weight matrix that is still in the blocks of its file, as `engine.models` reads it.

    Attributes:
        kind: name of the block format (``Q4_0``, ``Q4_1``, ``Q8_0`` …).
        data: uint8 [rows, row_bytes], the raw blocks.
        shape: (rows, columns) of the matrix.
    """

    kind: str
    data: np.ndarray
    shape: tuple[int, ...]

    def dequantize(self) -> torch.Tensor:
        """The matrix as float32 [rows, columns]."""
        ...


Weight = Any
"""A weight matrix [rows, columns]: a ``torch.Tensor`` or a `QuantizedWeight`."""


@dataclass(frozen=True)
class DecoderShape:
    """The sizes of one decoder.

    Attributes:
        scale: factor on attention scores, usually head_dim ** -0.5.
        eps: added to the mean square in RMSNorm.
        layer_windows: how many positions back each layer sees, None for all; empty when all see all.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    eps: float
    layer_windows: tuple[int | None, ...] = ()


@dataclass
class LayerWeights:
    """Weights of one layer. Matrices that read the same input are listed together, in output order."""

    input_norm: torch.Tensor
    qkv: list[Weight]
    output: Weight
    post_norm: torch.Tensor
    gate_up: list[Weight]
    down: Weight
    qkv_bias: torch.Tensor | None = None
    output_bias: torch.Tensor | None = None
    gate_up_bias: torch.Tensor | None = None
    down_bias: torch.Tensor | None = None


@dataclass
class DecoderWeights:
    """Weights of a whole decoder, as read from the file, and its rotary tables.

    Attributes:
        cos, sin: float32 [max_positions, head_dim / 2].
    """

    embedding: Weight
    layers: list[LayerWeights]
    final_norm: torch.Tensor
    head: Weight
    cos: torch.Tensor
    sin: torch.Tensor
    head_bias: torch.Tensor | None = None


class DecoderProgram(Protocol):
    """A whole decoder step compiled into one call (see `Kernels.fuse`)."""

    @property
    def weight_bytes(self) -> int:
        """Memory the prepared weights take."""
        ...

    def forward(self, token_ids: np.ndarray, groups: Sequence[AttentionBatch], sample_rows: np.ndarray) -> np.ndarray:
        """Writes the rows' KV into the cache and returns float32 logits [num_samples, vocab_size].

        ``groups`` has the rows' block tables of each KV group.
        """
        ...


class Linear(Protocol):
    """A product with prepared weights: [num_tokens, columns] to [num_tokens, rows]."""

    weight_bytes: int

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...


class Kernels(Protocol):
    """The operations of a decoder on one device.

    Activations are [num_tokens, ...] tensors of the chosen dtype. ``key_cache`` and ``value_cache`` are those of one
    layer, [num_blocks, num_kv_heads, block_size, head_dim]. Slots that no sequence of the batch holds may contain
    anything, NaN too, and never change a result.

    """

    @property
    def dtype(self) -> torch.dtype:
        """What the single operations compute in; the cache may have another dtype."""
        ...

    @property
    def name(self) -> str:
        """The backend that serves now, as shown to the user."""
        ...

    @property
    def reason(self) -> str:
        """Why this backend and not a faster one, one sentence."""
        ...

    @property
    def threads(self) -> int:
        """Threads of the CPU that it uses."""
        ...

    @property
    def compiling(self) -> bool:
        """Whether a faster program is on its way, which will then serve."""
        ...

    def linear(self, weights: list[Weight], bias: torch.Tensor | None = None) -> Linear:
        """One product for matrices that read the same input; outputs are concatenated in order."""
        ...

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """``x / sqrt(mean(x ** 2) + eps) * weight``, mean taken in float32 over the last axis."""
        ...

    def add_rms_norm(
        self, delta: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        """Adds ``delta`` to ``residual`` in place and returns the norm of the sum."""
        ...

    def rotary(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: np.ndarray) -> None:
        """Rotates ``x`` [num_tokens, heads, head_dim] in place; the second half of a head pairs with the first."""
        ...

    def write_cache(
        self,
        key: torch.Tensor,
        value: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        batch: AttentionBatch,
    ) -> None:
        """Puts ``key`` and ``value`` [num_tokens, num_kv_heads, head_dim] into the batch's slots."""
        ...

    def attention(
        self,
        query: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        batch: AttentionBatch,
        scale: float,
    ) -> torch.Tensor:
        """Causal attention of ``query`` [num_tokens, num_heads, head_dim] over the block tables, the same shape."""
        ...

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        """``silu(gate) * up`` for [num_tokens, 2 n], gate first; returns [num_tokens, n]."""
        ...

    def copy_blocks(self, kv_cache: torch.Tensor, copies: list[tuple[int, int]]) -> None:
        """Copies blocks (source, destination) in order in ``kv_cache`` [layers, 2, num_blocks, ...]."""
        ...

    def can_fuse(self, shape: DecoderShape) -> bool:
        """Whether `fuse` gives a program for such a model; if not, the reason says why."""
        ...

    def fuse(
        self, shape: DecoderShape, weights: DecoderWeights, kv_cache: torch.Tensor
    ) -> Future[DecoderProgram] | None:
        """The whole decoder as one program, or None where this backend has none for it.

        The future may take a while (compilation); the single operations serve until then. ``name`` and ``reason``
        say at any time which of the two it is.
        """
        ...
