"""Which sampling settings a chat may have of its own, and what acts where it has none."""

from __future__ import annotations

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
