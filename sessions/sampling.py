"""Which sampling settings a chat may have of its own, and what acts where it has none."""

from __future__ import annotations

import hashlib
from typing import Any

PARAM_NAMES = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "max_tokens",
    "min_tokens",
    "seed",
    "stop",
)
FALLBACK_SAMPLING: dict[str, Any] = {"temperature": 0.2, "top_p": 0.9}
REPLY_LIMIT = 1024
"""Tokens of a reply before it waits for Continue."""


def effective_params(overrides: dict[str, Any], model_defaults: dict[str, Any]) -> dict[str, Any]:
    """Sampling of a session: its own choices over the model's defaults (or ours where the model names none)."""
    known = {name: value for name, value in model_defaults.items() if name in PARAM_NAMES and value is not None}
    return {"max_tokens": REPLY_LIMIT, **(known or FALLBACK_SAMPLING), **overrides}


def merged_params(chosen: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """``chosen`` with ``more`` over it; None takes a choice away, so that the model's own acts."""
    return {name: value for name, value in {**chosen, **more}.items() if value is not None}


def sibling_seeds(seed: int, count: int) -> list[int]:
    """Seeds of replies that are written at once where ``seed`` is fixed, and would make them all the same.

    The first one is ``seed`` itself; the others follow from it (SHA-256 of "seed:place", 48 bits), so that the same
    ones come again.
    """
    later = (hashlib.sha256(f"{seed}:{place}".encode()).digest()[:6] for place in range(1, count))
    return [seed, *(int.from_bytes(one, "big") for one in later)]
