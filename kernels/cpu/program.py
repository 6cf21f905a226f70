"""A whole decoder on the CPU: packed weights, scratch memory and one call a step."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import torch

from ..interface import AttentionBatch, DecoderShape, DecoderWeights, Weight
from .attention_tiles import CHUNK
from .compiled import CompiledFunctions
from .crossover import crossover
from .many_rows import ManyRows, best_tile
from .pack import PackedMatrix, pack
from .plan import SEQUENCE, TILE_TOKENS
from .prefill import NO_TILE
from .prefill_tiles import ROW_BLOCK
from .products import F32, KIND, Q4, Q8
from .step import GATE_UP, STAGES_A_PRODUCT
from .threads import Team
from .tiles import MAX_TILE_ROWS, PANEL


class WeightTable:
    """Packed matrices and where they lie: the segments and products of `products` and `step`."""

    def __init__(self, dtype: torch.dtype):
        self.dtype = dtype
        self.matrices: list[PackedMatrix] = []
        self.biases: list[np.ndarray] = []
        self.segments: list[tuple[int, int, int, int, int, int]] = []
        self.products: list[tuple[int, int, int]] = []

    def add(self, weights: list[Weight], bias: torch.Tensor | None = None) -> int:
        """Packs matrices that read the same input as one product; the number of its first segment."""
        first, column, codes = len(self.segments), 0, False
        padded = None
        if bias is not None:
            padded = np.zeros(len(bias) + PANEL, np.float32)
            padded[: len(bias)] = bias.float().numpy()
            self.biases.append(padded)
        for weight in weights:
            matrix = pack(weight, self.dtype)
            self.matrices.append(matrix)
            codes |= matrix.kind in (Q4, Q8)
            at = 0 if padded is None else padded.ctypes.data + 4 * column
            place = matrix.data.ctypes.data
            self.segments.append((matrix.kind, place, matrix.rows, matrix.columns, column, at))
            column += matrix.rows
        self.products.append((first, len(weights), int(codes)))
        return first

    @property
    def known_as_bf16(self) -> bool:
        """Whether products of many rows can read all matrices."""
        paired = all(count == 2 for _, count, _ in self.products[GATE_UP:-1:4])
        return paired and all(matrix.kind != F32 and matrix.columns % 32 == 0 for matrix in self.matrices)

    @property
    def nbytes(self) -> int:
        """Memory of all panels and biases."""
        return sum(matrix.nbytes for matrix in self.matrices) + sum(bias.nbytes for bias in self.biases)


class CpuProgram:
    """A decoder whose step is one compiled function that all threads of a team run together."""

    def __init__(
        self,
        shape: DecoderShape,
        weights: DecoderWeights,
        kv_cache: torch.Tensor,
        team: Team,
        functions: CompiledFunctions,
    ):
        self.shape = shape
        self.team = team
        self.functions = functions
        self._kv_cache = kv_cache
        self._lock = threading.Lock()
        table = WeightTable(kv_cache.dtype)
        norms = []
        for layer in weights.layers:
            table.add(layer.qkv, layer.qkv_bias)
            table.add([layer.output], layer.output_bias)
            table.add(layer.gate_up, layer.gate_up_bias)
            table.add([layer.down], layer.down_bias)
            norms += [layer.input_norm, layer.post_norm]
        embedding = head = table.add([weights.head], weights.head_bias)
        if weights.embedding is not weights.head:
            embedding = table.add([weights.embedding])
        self._table = table
        self._norms = torch.stack([*norms, weights.final_norm]).float().numpy()
        self._segments = np.array(table.segments, np.int64)
        self._products = np.array(table.products, np.int64)
        self._cos, self._sin = weights.cos.numpy(), weights.sin.numpy()
        bf16 = kv_cache.dtype == torch.bfloat16
        sizes = (shape.hidden_size, shape.intermediate_size, shape.num_layers, shape.num_heads, shape.num_kv_heads)
        cache = (shape.head_dim, kv_cache.shape[4], kv_cache.shape[2], int(bf16), kv_cache.data_ptr())
        self._dims = np.array([*sizes, *cache, embedding], np.int64)
        self._scratch = StepScratch(shape, team.threads)
        self._many = self._many_rows(bf16 and table.known_as_bf16)
        self._stages = 2 * (1 + STAGES_A_PRODUCT * (4 * shape.num_layers + 1))
        assert head == embedding or weights.embedding is not weights.head

    @property
    def weight_bytes(self) -> int:
        """Memory of the packed weights."""
        return self._table.nbytes + self._norms.nbytes

    @property
    def remark(self) -> str:
        """How it computes, where that is not the same on all processors; may be empty."""
        return self._many.remark

    def _many_rows(self, allowed: bool) -> ManyRows:
        """The path for many rows, from as many as it is faster for the largest matrices of a layer."""
        tile = best_tile() if allowed else NO_TILE
        if tile == NO_TILE:
            return ManyRows(self.shape, self.team.threads, tile)
        kind = self._table.segments[self._table.products[GATE_UP][0]][KIND]
        least = crossover(self.functions.folder, self.functions.tile_code.addresses, kind, tile)
        return ManyRows(self.shape, self.team.threads, tile, least)

    def forward(self, token_ids: np.ndarray, groups: Sequence[AttentionBatch], sample_rows: np.ndarray) -> np.ndarray:
        """See `DecoderProgram.forward`; knows models with one KV group."""
        (batch,) = groups
        if batch.num_tokens == 0:
            return np.empty((0, self.shape.vocab_size), np.float32)
        positions, tables = own(batch.positions, np.int32), own(batch.block_tables, np.int32)
        scratch, many = self._scratch, self._many
        logits = np.empty((whole_blocks(len(sample_rows)), self.shape.vocab_size), np.float32)[: len(sample_rows)]
        with self._lock:
            scratch.reserve(batch.num_tokens)
            tiles, merges, partials = self._plan(batch, positions, tables)
            order, first_part = (part[: batch.num_tokens] for part in scratch.plan[:2])
            spans = many.spans_of(batch, positions)
            if len(spans):
                tiles = tiles[~np.isin(tiles[:, SEQUENCE], spans[:, SEQUENCE])]
            scratch.reserve_partials(partials)
            stages = np.zeros(self._stages, np.int64)
            rows = batch.num_tokens
            self.team.run(
                self.functions.decoder_step, self.functions.tile_code.addresses, self._dims,
                np.float32(self.shape.eps), np.float32(self.shape.scale),
                self._segments, self._products, self._norms, self._cos, self._sin,
                own(token_ids, np.int64), positions, own(batch.slot_mapping, np.int64), tables, order, first_part,
                tiles, merges, spans,
                scratch.all_rows[:rows], own(sample_rows, np.int64), *(part[:rows] for part in scratch.rows),
                *scratch.partials, logits, stages, *scratch.threads,
                many.tile_for(batch), many.least_rows, many.halves, many.floats, many.limits, scratch.gated,
            )  # fmt: skip
        return logits

    def _plan(
        self, batch: AttentionBatch, positions: np.ndarray, tables: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Tiles and merges of this step, and the number of partial results (see `plan.plan_tiles`)."""
        scratch, starts = self._scratch, own(batch.query_start, np.int32)
        while True:
            tiles, merges, partials = self.functions.plan_tiles(
                starts, positions, tables, batch.block_size, not batch.rows_apart, *scratch.plan,
                scratch.tiles, scratch.merges,
            )  # fmt: skip
            if tiles <= len(scratch.tiles) and merges <= len(scratch.merges):
                return scratch.tiles[:tiles], scratch.merges[:merges], partials
            scratch.tiles = np.empty((2 * tiles, 6), np.int32)
            scratch.merges = np.empty((2 * merges + 16, 3), np.int32)


class StepScratch:
    """Arrays that a step works in, kept from step to step and grown when a step needs more."""

    def __init__(self, shape: DecoderShape, threads: int):
        self.shape = shape
        self.capacity = 0
        self.tiles = np.empty((256, 6), np.int32)
        self.merges = np.empty((64, 3), np.int32)
        queries = TILE_TOKENS * shape.num_heads // shape.num_kv_heads
        self.threads = (
            np.zeros((threads, queries, shape.head_dim), np.float32),
            np.zeros((threads, queries, shape.head_dim), np.float32),
            np.zeros((threads, 2, queries), np.float32),
            np.zeros((threads, queries), np.int32),
            np.zeros((threads, MAX_TILE_ROWS, CHUNK + PANEL), np.float32),
            np.zeros((threads, 4, CHUNK * shape.head_dim), np.float32),
            np.zeros((threads, MAX_TILE_ROWS, PANEL), np.float32),
        )
        self.partials: list[np.ndarray] = []
        self.reserve(16)
        self.reserve_partials(64)

    def reserve(self, rows: int) -> None:
        """Makes room for ``rows`` tokens."""
        if rows <= self.capacity:
            return
        self.capacity = whole_blocks(max(rows, min(2 * self.capacity, rows + 512)))
        shape, count = self.shape, self.capacity
        attended = shape.num_heads * shape.head_dim
        qkv = attended + 2 * shape.num_kv_heads * shape.head_dim
        widest = -(-max(shape.hidden_size, attended, shape.intermediate_size) // 32) * 32
        widths = (shape.hidden_size, shape.hidden_size, qkv, attended, 2 * shape.intermediate_size)
        floats = [np.empty((count, width), np.float32) for width in (*widths, shape.intermediate_size)]
        self.rows = [*floats, np.empty((count, widest), np.int16), np.empty((count, widest // 32, 2), np.float32)]
        self.gated = np.empty((count, shape.intermediate_size), np.int16)
        self.all_rows = np.arange(count, dtype=np.int64)
        self.plan = [np.empty(count, np.int32) for _ in range(2)]
        self.plan += [np.empty((count, width), np.int32) for width in (3, 5, 3)]

    def reserve_partials(self, partials: int) -> None:
        """Makes room for ``partials`` partial results of attention."""
        if self.partials and partials <= len(self.partials[0]):
            return
        heads, head_dim = self.shape.num_heads, self.shape.head_dim
        self.partials = [
            np.empty((partials, heads, head_dim), np.float32),
            np.empty((partials, heads, 2), np.float32),
        ]


def whole_blocks(rows: int) -> int:
    """Rows up to the end of the last block that products of many rows take."""
    return -(-rows // ROW_BLOCK) * ROW_BLOCK


def own(values: np.ndarray, dtype: type) -> np.ndarray:
    """The array as the compiled code takes it: contiguous, writable, of ``dtype``."""
    if values.dtype == dtype and values.flags.c_contiguous and values.flags.writeable:
        return values
    return np.array(values, dtype, order="C")
