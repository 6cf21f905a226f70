"""The decoder of the Llama-shaped families: reads its weights from a checkpoint and runs one step over paged KV.

Knows the order of operations; the operations themselves are the kernels'.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...kernels.interface import (
    AttentionBatch,
    DecoderProgram,
    DecoderShape,
    DecoderWeights,
    Kernels,
    LayerWeights,
    Weight,
    row_of,
    rows_apart,
)
from ...kernels.reference import dense
from ..errors import ModelFileError
from ..kv_layout import kv_layout
from ..memory import give_back_freed
from .rope import rotary_tables

if TYPE_CHECKING:
    from .checkpoint import Checkpoint
    from .spec import ModelSpec

log = logging.getLogger(__name__)

MOST_PLAIN_WEIGHTS = 500_000_000
"""Models up to this size are unpacked for plain torch while kernels are compiled; larger ones wait for the kernels."""

EMBEDDING, HEAD, FINAL_NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"


class Decoder:
    """A decoder with its weights on a device, ready to run steps.

    Runs as one compiled program where the kernels have one, and operation by operation until it is ready.

    Args:
        deterministic: what a row gives depends on its own sequence only, to the bit: not on company, chunks or hits.
            Rows are then attended one by one, and where there is no program, computed one by one; nothing runs before
            the program is ready.
    """

    def __init__(
        self,
        shape: DecoderShape,
        weights: DecoderWeights,
        kernels: Kernels,
        kv_cache: torch.Tensor,
        deterministic: bool = False,
    ):
        self.shape = shape
        self.kernels = kernels
        self.deterministic = deterministic
        self._compiling = kernels.fuse(shape, weights, kv_cache)
        self._holder: DecoderProgram | None = None
        if self._compiling is not None and not serves_plain(shape, deterministic):
            wait([self._compiling])
        self.adopt_program()
        if self._holder is None:
            self._holder = OperationSteps(shape, weights, kernels, kv_cache)

    @property
    def weight_bytes(self) -> int:
        """Memory the prepared weights take."""
        assert self._holder is not None
        return self._holder.weight_bytes

    def forward(self, token_ids: np.ndarray, groups: Sequence[AttentionBatch], sample_rows: np.ndarray) -> np.ndarray:
        """Writes the rows' KV into the cache; float32 logits [num_samples, vocab_size] of ``sample_rows``.

        ``groups`` has the rows' block tables of each KV group.
        """
        self.adopt_program()
        assert self._holder is not None
        if not self.deterministic:
            return self._holder.forward(token_ids, groups, sample_rows)
        groups = [rows_apart(group) for group in groups]
        if isinstance(self._holder, OperationSteps):
            return self._holder.forward_by_row(token_ids, groups, sample_rows)
        return self._holder.forward(token_ids, groups, sample_rows)

    def adopt_program(self) -> None:
        """Switches to the compiled program once it is there, and gives back what plain torch took; between steps, since
        both use the same cache."""
        if self._compiling is None or not self._compiling.done():
            return
        compiling, self._compiling = self._compiling, None
        if compiling.exception() is not None:
            log.warning("The compiled kernels failed: %s", compiling.exception())
        else:
            self._holder = compiling.result()
            give_back_freed()


class OperationSteps:
    """The decoder as a sequence of kernel calls: any backend, any device. Computes in the kernels' dtype."""

    def __init__(self, shape: DecoderShape, weights: DecoderWeights, kernels: Kernels, kv_cache: torch.Tensor):
        self.shape = shape
        self.kernels = kernels
        self.kv_cache = kv_cache
        self.places = kv_layout(shape.layer_windows or [None] * shape.num_layers).places
        device, dtype = kv_cache.device, kernels.dtype
        self.embedding = dense(weights.embedding).to(device=device, dtype=dtype)
        self.cos, self.sin = weights.cos.to(device), weights.sin.to(device)
        self.final_norm = weights.final_norm.to(device=device, dtype=dtype)
        self.layers = [PreparedLayer(layer, kernels, device, dtype) for layer in weights.layers]
        shared = weights.head is weights.embedding
        self.head = kernels.linear([self.embedding if shared else weights.head], weights.head_bias)
        self.weight_bytes = self.head.weight_bytes + sum(layer.weight_bytes for layer in self.layers)
        if not shared:
            self.weight_bytes += self.embedding.numel() * self.embedding.element_size()

    def forward(self, token_ids: np.ndarray, groups: Sequence[AttentionBatch], sample_rows: np.ndarray) -> np.ndarray:
        """See `Decoder.forward`."""
        device = self.kv_cache.device
        with torch.inference_mode():
            residual = self.embedding[torch.from_numpy(token_ids).to(device)]
            delta: torch.Tensor | None = None
            for (group, slot), layer in zip(self.places, self.layers, strict=True):
                normed = self._norm(delta, residual, layer.input_norm)
                delta = layer.output(self._attend(layer, normed, groups[group], self.kv_cache[slot]))
                normed = self._norm(delta, residual, layer.post_norm)
                delta = layer.down(self.kernels.silu_mul(layer.gate_up(normed)))
            rows = torch.from_numpy(sample_rows).to(device)
            last = residual[rows] if delta is None else residual[rows] + delta[rows]
            logits = self.head(self.kernels.rms_norm(last, self.final_norm, self.shape.eps))
            return logits.float().cpu().numpy()

    def forward_by_row(
        self, token_ids: np.ndarray, groups: Sequence[AttentionBatch], sample_rows: np.ndarray
    ) -> np.ndarray:
        """As `forward`, in products of one row: those of several round differently."""
        logits = {
            row: self.forward(
                token_ids[row : row + 1],
                [row_of(group, row) for group in groups],
                np.flatnonzero(np.array([row in sample_rows])),
            )
            for row in range(len(token_ids))
        }
        empty = np.empty((0, self.shape.vocab_size), np.float32)
        return np.concatenate([empty, *(logits[int(row)] for row in sample_rows)])

    def _norm(self, delta: torch.Tensor | None, residual: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        if delta is None:
            return self.kernels.rms_norm(residual, weight, self.shape.eps)
        return self.kernels.add_rms_norm(delta, residual, weight, self.shape.eps)

    def _attend(
        self, layer: PreparedLayer, normed: torch.Tensor, batch: AttentionBatch, cache: torch.Tensor
    ) -> torch.Tensor:
        heads, kv_heads, head_dim = self.shape.num_heads, self.shape.num_kv_heads, self.shape.head_dim
        qkv = layer.qkv(normed).view(len(normed), heads + 2 * kv_heads, head_dim)
        query, key, value = qkv.split([heads, kv_heads, kv_heads], dim=1)
        self.kernels.rotary(query, self.cos, self.sin, batch.positions)
        self.kernels.rotary(key, self.cos, self.sin, batch.positions)
        self.kernels.write_cache(key, value, cache[0], cache[1], batch)
        attended = self.kernels.attention(query, cache[0], cache[1], batch, self.shape.scale)
        return attended.reshape(len(normed), heads * head_dim)


class PreparedLayer:
    """One layer's norms on the device and its products prepared by the kernels."""

    def __init__(self, layer: LayerWeights, kernels: Kernels, device: torch.device, dtype: torch.dtype):
        self.input_norm = layer.input_norm.to(device=device, dtype=dtype)
        self.post_norm = layer.post_norm.to(device=device, dtype=dtype)
        self.qkv = kernels.linear(layer.qkv, layer.qkv_bias)
        self.output = kernels.linear([layer.output], layer.output_bias)
        self.gate_up = kernels.linear(layer.gate_up, layer.gate_up_bias)
        self.down = kernels.linear([layer.down], layer.down_bias)
        products = (self.qkv, self.output, self.gate_up, self.down)
        self.weight_bytes = sum(product.weight_bytes for product in products)


def serves_plain(shape: DecoderShape, deterministic: bool) -> bool:
    """Whether plain torch serves while a program for the model is compiled."""
    return not deterministic and num_weights(shape) <= MOST_PLAIN_WEIGHTS


def num_weights(shape: DecoderShape) -> int:
    """Weights of all matrices, about."""
    attention = 2 * (shape.num_heads + shape.num_kv_heads) * shape.head_dim
    layer = shape.hidden_size * (attention + 3 * shape.intermediate_size)
    return shape.num_layers * layer + shape.vocab_size * shape.hidden_size


def decoder_shape(spec: ModelSpec) -> DecoderShape:
    """The sizes the kernels need."""
    return DecoderShape(
        vocab_size=spec.vocab_size,
        hidden_size=spec.hidden_size,
        intermediate_size=spec.intermediate_size,
        num_layers=spec.num_layers,
        num_heads=spec.num_heads,
        num_kv_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        scale=spec.head_dim**-0.5,
        eps=spec.rms_eps,
        layer_windows=spec.layer_windows,
    )


def read_weights(checkpoint: Checkpoint, max_positions: int) -> DecoderWeights:
    """All weights of the checkpoint, unchanged, and rotary tables for ``max_positions``.

    Raises:
        ModelFileError: a parameter that the file does not fill, one of the wrong shape, or a tensor nothing uses.
    """
    reader = WeightReader(checkpoint)
    spec = checkpoint.spec
    hidden, inner = spec.hidden_size, spec.intermediate_size
    query, key = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
    embedding = reader.take(EMBEDDING, (spec.vocab_size, hidden))
    layers = []
    for index in range(spec.num_layers):
        prefix = f"model.layers.{index}."
        attention, mlp = prefix + "self_attn.", prefix + "mlp."
        rows = {"q_proj": query, "k_proj": key, "v_proj": key}
        layers.append(
            LayerWeights(
                input_norm=reader.take(prefix + "input_layernorm.weight", (hidden,)),
                qkv=[reader.take(f"{attention}{name}.weight", (size, hidden)) for name, size in rows.items()],
                output=reader.take(attention + "o_proj.weight", (hidden, query)),
                post_norm=reader.take(prefix + "post_attention_layernorm.weight", (hidden,)),
                gate_up=[reader.take(f"{mlp}{name}.weight", (inner, hidden)) for name in ("gate_proj", "up_proj")],
                down=reader.take(mlp + "down_proj.weight", (hidden, inner)),
                qkv_bias=reader.joined_bias(attention, rows),
                output_bias=reader.joined_bias(attention, {"o_proj": hidden}),
                gate_up_bias=reader.joined_bias(mlp, {"gate_proj": inner, "up_proj": inner}),
                down_bias=reader.joined_bias(mlp, {"down_proj": hidden}),
            )
        )
    final_norm = reader.take(FINAL_NORM, (hidden,))
    head = reader.head(embedding, (spec.vocab_size, hidden))
    cos, sin = rotary_tables(spec, max_positions)
    checkpoint.check_all_used(reader.used)
    return DecoderWeights(embedding, layers, final_norm, head, cos, sin)


class WeightReader:
    """Takes tensors from a checkpoint by name, checks their shapes and keeps the names taken."""

    def __init__(self, checkpoint: Checkpoint):
        self.checkpoint = checkpoint
        self.names = set(checkpoint.names())
        self.used: set[str] = set()

    def take(self, name: str, shape: tuple[int, ...]) -> Any:
        """The tensor called ``name``; norms and biases (one axis) as float32."""
        if name not in self.names:
            raise ModelFileError(
                f"{self.checkpoint.name} has no tensor {name}, which the model needs: the file is incomplete or of "
                "another model family. Fetch it again or choose another model."
            )
        self.used.add(name)
        tensor = self.checkpoint.tensor(name)
        if tuple(tensor.shape) != shape:
            raise ModelFileError(
                f"{self.checkpoint.name}: tensor {name} has shape {tuple(tensor.shape)}, its configuration says "
                f"{shape}. The file is damaged or its configuration belongs to another model."
            )
        return dense(tensor).float() if len(shape) == 1 else tensor

    def joined_bias(self, prefix: str, rows: dict[str, int]) -> torch.Tensor | None:
        """Biases of products that run together, zeros where one has none; None when none has."""
        present = {name for name in rows if f"{prefix}{name}.bias" in self.names}
        if not present:
            return None
        parts = [
            self.take(f"{prefix}{name}.bias", (size,)) if name in present else torch.zeros(size)
            for name, size in rows.items()
        ]
        return torch.cat(parts)

    def head(self, embedding: Weight, shape: tuple[int, int]) -> Weight:
        """The output head: the file's own when it has one that differs from the embedding, else the embedding.

        Raises:
            ModelFileError: the head is not tied and the file has none.
        """
        if HEAD not in self.names and self.checkpoint.spec.tie_word_embeddings:
            return embedding
        own = self.take(HEAD, shape)
        if not self.checkpoint.spec.tie_word_embeddings:
            return own
        if same_weight(own, embedding):
            return embedding
        log.warning(
            "%s says that its output head is tied, but holds a different %s: the file's head is used.",
            self.checkpoint.name,
            HEAD,
        )
        return own


def same_weight(first: Weight, second: Weight) -> bool:
    """Whether two matrices hold the same numbers."""
    if isinstance(first, torch.Tensor) or isinstance(second, torch.Tensor) or first.kind != second.kind:
        return torch.equal(dense(first).float(), dense(second).float())
    return np.array_equal(first.data, second.data)
