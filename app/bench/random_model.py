"""Models with random weights, of any size: for measuring what does not depend on what is said."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from ...engine.models.checkpoint import Checkpoint
from ...engine.models.spec import ModelSpec
from .models import BenchModel
from .no_model import NoTokenizer


class RandomCheckpoint(Checkpoint):
    """Random bfloat16 weights for every parameter of a spec, the same for the same seed."""

    def __init__(self, spec: ModelSpec, seed: int = 0) -> None:
        self.spec = spec
        self.name = f"random-{spec.num_layers}x{spec.hidden_size}"
        self.path = Path(self.name)
        self.generation_defaults: dict[str, Any] = {}
        self.warnings: list[str] = []
        source = torch.Generator().manual_seed(seed)
        self._tensors = {
            name: (torch.randn(shape, generator=source) * shape[-1] ** -0.5).to(torch.bfloat16)
            for name, shape in spec.parameter_shapes().items()
        }

    def names(self) -> Collection[str]:
        """See `Checkpoint.names`."""
        return self._tensors.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        """See `Checkpoint.shape`."""
        return tuple(self._tensors[name].shape)

    def tensor(self, name: str) -> torch.Tensor:
        """See `Checkpoint.tensor`."""
        return self._tensors[name]

    @property
    def fingerprint(self) -> str:
        """Its name: the weights mean nothing."""
        return self.name


class NumberTokenizer(NoTokenizer):
    """Token ids that stand for nothing, as many as a model has."""

    def __init__(self, num_tokens: int) -> None:
        self.num_tokens = num_tokens


def random_model(
    *,
    num_layers: int,
    hidden_size: int,
    intermediate_size: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    vocab_size: int = 512,
    max_position: int = 8192,
) -> BenchModel:
    """A llama with random weights."""
    spec = ModelSpec(
        architecture="llama",
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        intermediate_size=intermediate_size,
        rms_eps=1e-5,
        rope_theta=10000.0,
        rope_scaling=None,
        tie_word_embeddings=True,
        attention_bias=False,
        max_position=max_position,
    )
    return BenchModel(RandomCheckpoint(spec), NumberTokenizer(vocab_size))  # type: ignore[arg-type]
