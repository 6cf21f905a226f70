"""Models for the benches: weights read once, then engines and runners of many settings on the same weights."""

from __future__ import annotations

from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from platformdirs import user_cache_path

from ... import __version__
from ...engine.config import EngineConfig
from ...engine.engine import Engine
from ...engine.errors import EngineError
from ...engine.models.checkpoint import open_checkpoint
from ...engine.models.decoder import Decoder, decoder_shape, read_weights
from ...engine.runner import ModelRunner
from ...engine.tokenizer import load_tokenizer
from ...kernels.choose import plain_cpu_dtype
from ...kernels.cpu.kernels import CpuKernels
from ...kernels.interface import DecoderProgram, DecoderShape, DecoderWeights, Kernels
from ...kernels.reference import ReferenceKernels

if TYPE_CHECKING:
    from ...engine.tokenizer import Tokenizer


@dataclass(frozen=True)
class Mode:
    """What computes, and in which numbers.

    Attributes:
        kernels: ``reference`` (plain torch) or ``cpu`` (compiled).
        dtype, kv_dtype: of the activations and of the KV cache; ``float32`` or ``bfloat16``.
    """

    kernels: str
    dtype: str
    kv_dtype: str

    @property
    def exact(self) -> bool:
        """Whether it must say what float32 says, token for token."""
        return self.dtype == self.kv_dtype == "float32"

    def __str__(self) -> str:
        cache = "" if self.kv_dtype == self.dtype else f", {self.kv_dtype} KV"
        return f"{self.kernels} {self.dtype}{cache}"


EXACT_MODES = (Mode("cpu", "float32", "float32"), Mode("reference", "float32", "float32"))
DEFAULT_MODE = Mode("cpu", "bfloat16", "bfloat16")
"""What ``--dtype auto`` is on a CPU."""


def inexact_modes() -> tuple[Mode, ...]:
    """Modes with a stated error instead of float32's ids. Plain torch takes part where this CPU has the products."""
    modes = (DEFAULT_MODE, Mode("reference", "float32", "bfloat16"))
    if plain_cpu_dtype(torch.bfloat16) == torch.bfloat16:
        modes += (Mode("reference", "bfloat16", "bfloat16"),)
    return modes


class BenchModel:
    """One model's weights and tokenizer, from which engines are made that differ in everything else.

    Layers that see a window only are given whole contexts, so the longest sequence is the window.
    """

    def __init__(self, checkpoint: Any, tokenizer: Tokenizer) -> None:
        self.checkpoint = checkpoint
        self.tokenizer = tokenizer
        spec = replace(checkpoint.spec, layer_windows=(), max_position=checkpoint.spec.max_full_position)
        self.max_model_len: int = spec.max_position
        self._shape = decoder_shape(spec)
        self._weights = read_weights(checkpoint, self.max_model_len)

    @classmethod
    def open(cls, path: Path) -> BenchModel:
        """Read a model file or folder.

        Raises:
            ModelFileError: when it cannot be used.
        """
        checkpoint = open_checkpoint(str(path))
        return cls(checkpoint, load_tokenizer(checkpoint))

    def runner(self, mode: Mode, block_size: int, num_blocks: int) -> ModelRunner:
        """A runner with a KV cache of its own, its kernels compiled and ready.

        Raises:
            EngineError: when the kernels asked for cannot run this model here.
        """
        shape = self._shape
        size = (shape.num_layers, 2, num_blocks, shape.num_kv_heads, block_size, shape.head_dim)
        cache = torch.empty(size, dtype=getattr(torch, mode.kv_dtype))
        kernels = make_kernels(mode)
        decoder = Decoder(shape, self._weights, kernels, cache)
        if mode.kernels == "cpu" and kernels.name == "reference":
            raise EngineError(f"The compiled kernels cannot be used here: {kernels.reason}.")
        facts = {"device": "cpu", "dtype": mode.dtype, "reasons": [f"{mode} was asked for"]}
        return ModelRunner(decoder, cache, self.max_model_len, facts)

    def engine(self, mode: Mode, *, block_size: int, num_blocks: int, **settings: Any) -> Engine:
        """An engine on such a runner; ``settings`` are fields of `EngineConfig`."""
        config = EngineConfig(
            model=self.checkpoint.name, device="cpu", block_size=block_size, num_blocks=num_blocks, **settings
        )
        runner = self.runner(mode, block_size, num_blocks)
        return Engine(config, runner=runner, tokenizer=self.tokenizer, num_blocks=num_blocks)


def make_kernels(mode: Mode) -> Kernels:
    """The kernels of a mode.

    Raises:
        EngineError: for kernels of another name.
    """
    dtype = getattr(torch, mode.dtype)
    if mode.kernels == "reference":
        return ReferenceKernels("cpu", dtype, "plain torch was asked for")
    if mode.kernels == "cpu":
        return CompiledAtOnce(plain_cpu_dtype(dtype), user_cache_path("pagedchat", appauthor=False), __version__)
    raise EngineError(f"There are no kernels {mode.kernels!r}; there are reference and cpu.")


class CompiledAtOnce(CpuKernels):
    """Compiled kernels that are waited for, so that no step runs on anything else."""

    def fuse(
        self, shape: DecoderShape, weights: DecoderWeights, kv_cache: torch.Tensor
    ) -> Future[DecoderProgram] | None:
        """See `Kernels.fuse`; what it returns is settled."""
        program = super().fuse(shape, weights, kv_cache)
        if program is not None:
            wait([program])
        return program
