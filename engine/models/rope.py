"""Rotary position tables: the frequencies of each variant, and their cosines and sines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from ..errors import ModelFileError

if TYPE_CHECKING:
    from .spec import ModelSpec


def rotary_tables(spec: ModelSpec, max_positions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines, float32 [max_positions, head_dim / 2] each.

    Raises:
        ModelFileError: a rope variant this version does not know.
    """
    angles = torch.outer(torch.arange(max_positions, dtype=torch.float32), inverse_frequencies(spec))
    return angles.cos(), angles.sin()


def inverse_frequencies(spec: ModelSpec) -> torch.Tensor:
    """Radians a position for each pair of a head, float32 [head_dim / 2]."""
    exponents = torch.arange(0, spec.head_dim, 2, dtype=torch.int64).float() / spec.head_dim
    frequencies = 1.0 / (spec.rope_theta**exponents)
    scaling = spec.rope_scaling
    kind = "default" if not scaling else scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default" or not scaling:
        return frequencies
    if kind == "linear":
        return frequencies / scaling["factor"]
    if kind == "factors":
        return frequencies / torch.tensor(scaling["factors"], dtype=torch.float32)
    if kind == "llama3":
        return llama3_frequencies(frequencies, scaling)
    raise ModelFileError(
        f"The model stretches its positions with the variant {kind!r}, which this version does not know; "
        "choose another model or a file without it."
    )


def llama3_frequencies(frequencies: torch.Tensor, scaling: dict[str, Any]) -> torch.Tensor:
    """Llama 3.1: slow rotations divided by ``factor``, fast ones kept, those between blended."""
    factor, low, high = scaling["factor"], scaling["low_freq_factor"], scaling["high_freq_factor"]
    original = scaling["original_max_position_embeddings"]
    wavelengths = 2 * math.pi / frequencies
    blend = ((original / wavelengths - low) / (high - low)).clamp(0, 1)
    blended = (1 - blend) * frequencies / factor + blend * frequencies
    stretched = torch.where(wavelengths > original / low, frequencies / factor, blended)
    return torch.where(wavelengths < original / high, frequencies, stretched)
