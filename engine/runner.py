"""Runs engine steps on a model: owns the KV tensors and the decoder, knows nothing of requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..kernels.choose import DeviceUnavailable, choose_device, choose_dtype, choose_kernels
from ..kernels.interface import AttentionBatch
from .errors import EngineError
from .headroom import ANY_STEP, Headroom, StepLimits, headroom_of
from .kv_layout import kv_layout
from .models.decoder import Decoder, decoder_shape, read_weights
from .types import StepBatch

TRIED_ROWS = 128

if TYPE_CHECKING:
    from .models.checkpoint import Checkpoint


class ModelRunner:
    """One model with its KV cache.

    The cache is one allocation ``[num_slots, 2, num_blocks, num_kv_heads, block_size, head_dim]`` (keys at 0, values
    at 1); a slot is a layer, or one of each KV group (see `kv_layout`). It is not touched before it is written, so
    resident memory grows only with the blocks in use.

    Attributes:
        windows: of each KV group, how many positions back its layers see; None for all.
    """

    def __init__(self, decoder: Decoder, kv_cache: torch.Tensor, max_model_len: int, facts: dict[str, Any]):
        self.decoder = decoder
        self.kv_cache = kv_cache
        self.max_model_len = max_model_len
        shape = decoder.shape
        self.windows = kv_layout(shape.layer_windows or [None] * shape.num_layers).windows
        self.num_blocks = kv_cache.shape[2]
        self.vocab_size = decoder.shape.vocab_size
        self.bytes_per_block = kv_cache[:, :, 0].numel() * kv_cache.element_size()
        self._facts = facts

    @classmethod
    def load(
        cls,
        checkpoint: Checkpoint,
        *,
        device: str,
        dtype: str,
        block_size: int,
        num_blocks_for: Callable[[int, Sequence[int | None], int, str, Headroom], int],
        max_model_len: int | None = None,
        deterministic: bool = False,
        threads: int | None = None,
        step_limits: StepLimits = ANY_STEP,
    ) -> ModelRunner:
        """Reads the weights, chooses kernels and allocates the KV cache.

        A model whose layers see a window runs as one without while sequences are no longer than the window, which is
        also its limit unless ``max_model_len`` asks for more: then windowed KV groups are made.

        ``num_blocks_for(bytes_per_block, windows, max_model_len, device, headroom)`` says how many blocks to allocate:
        the windows are those of the KV groups, the headroom is what the model takes beside the pool.

        Raises:
            ModelFileError: the checkpoint does not fill the model, or holds what nothing uses.
            EngineError: the device is not there, or the cache does not fit in memory.
        """
        try:
            chosen, device_reason = choose_device(device)
        except DeviceUnavailable as error:
            raise EngineError(f"--device {device} cannot be used: {error}. Leave it out to run on the CPU.") from error
        chosen_dtype, dtype_remark = choose_dtype(dtype, chosen)
        spec = checkpoint.spec
        if (max_model_len or 0) <= spec.max_full_position:
            spec = replace(spec, layer_windows=(), max_position=spec.max_full_position)
        shape = decoder_shape(spec)
        layout = kv_layout(shape.layer_windows or [None] * shape.num_layers)
        weights = read_weights(checkpoint, spec.max_position)
        values = layout.num_slots * 2 * shape.num_kv_heads * block_size * shape.head_dim
        kernels = choose_kernels(chosen, chosen_dtype, threads)  # its libraries are loaded before memory is measured
        longest = min(max_model_len or spec.max_position, spec.max_position)
        headroom = headroom_of(
            shape, weights, kernels, chosen_dtype, step_limits._replace(context=longest), deterministic
        )
        block_bytes = values * chosen_dtype.itemsize
        num_blocks = num_blocks_for(block_bytes, layout.windows, spec.max_position, str(chosen), headroom)
        size = (layout.num_slots, 2, num_blocks, shape.num_kv_heads, block_size, shape.head_dim)
        try:
            kv_cache = torch.empty(size, dtype=chosen_dtype, device=chosen)
        except (RuntimeError, MemoryError) as error:
            raise EngineError(
                f"The KV cache of {num_blocks} blocks ({num_blocks * block_bytes / 2**20:,.0f} MiB) "
                "does not fit in memory: choose fewer with --num-blocks or --kv-cache-memory."
            ) from error
        decoder = Decoder(shape, weights, kernels, kv_cache, deterministic)
        cost = cost_of_determinism(decoder, block_size, num_blocks, len(layout.windows)) if deterministic else ""
        reasons = [text for text in (device_reason, dtype_remark, cost) if text]
        named = str(chosen_dtype).removeprefix("torch.")
        facts = {"device": str(chosen), "dtype": named, "reasons": reasons, "step_bytes": headroom.step}
        return cls(decoder, kv_cache, spec.max_position, facts)

    def execute(self, batch: StepBatch) -> np.ndarray:
        """Copies blocks, writes the KV of all rows and returns float32 logits [num_samples, vocab_size]."""
        if batch.copies:
            self.decoder.kernels.copy_blocks(self.kv_cache, batch.copies)
        return self.decoder.forward(batch.token_ids, batch.groups, batch.sample_rows)

    def describe(self) -> dict[str, Any]:
        """What runs here and why: device, dtype, kernels, threads (of the CPU), reason, compiling, weight_bytes,
        kv_bytes, step_bytes (the most that a step takes)."""
        self.decoder.adopt_program()
        kernels = self.decoder.kernels
        return {
            "device": self._facts["device"],
            "dtype": self._facts["dtype"],
            "kernels": kernels.name,
            "threads": kernels.threads,
            "reason": "; ".join([*self._facts["reasons"], kernels.reason]),
            "compiling": kernels.compiling,
            "weight_bytes": self.decoder.weight_bytes,
            "kv_bytes": self.kv_cache.numel() * self.kv_cache.element_size(),
            "step_bytes": self._facts["step_bytes"],
        }


def cost_of_determinism(decoder: Decoder, block_size: int, num_blocks: int, num_groups: int) -> str:
    """A sentence that says how much longer a prompt takes, tried on some rows; writes to the first blocks."""
    rows = min(TRIED_ROWS, num_blocks // num_groups * block_size)
    if not rows:
        return "deterministic"
    positions = np.arange(rows, dtype=np.int32)
    groups = []
    for group in range(num_groups):
        table = np.arange(-(-rows // block_size), dtype=np.int32) + group * -(-rows // block_size)
        slots = table[positions // block_size].astype(np.int64) * block_size + positions % block_size
        starts = np.array([0, rows], np.int32)
        groups.append(AttentionBatch(starts, starts[1:], table[None], positions, slots, block_size, group))
    took = []
    for deterministic in (False, True):
        decoder.deterministic = deterministic
        times = []
        for _ in range(2):
            began = time.perf_counter()
            decoder.forward(np.zeros(rows, np.int64), groups, np.array([rows - 1]))
            times.append(time.perf_counter() - began)
        took.append(min(times))
    return f"deterministic, for which a prompt of {rows} tokens takes {took[1] / took[0]:.1f} times as long"
