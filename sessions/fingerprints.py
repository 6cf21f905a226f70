"""What a reply depends on beside its parameters, in short: the prompt it was given and what computed it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from .. import __version__
from .rows import pack

_ENGINE_FACTS = ("device", "dtype", "kernels", "threads", "deterministic")


def engine_facts(info: dict[str, Any]) -> dict[str, Any]:
    """What computes replies beside the model, from what an engine says of itself."""
    facts = {name: info[name] for name in _ENGINE_FACTS if info.get(name) is not None}
    return {"pagedchat": __version__, **facts}


def prompt_hash(token_ids: Sequence[int]) -> str:
    """Names a prompt: SHA-256 of its ids as int32, little-endian."""
    return hashlib.sha256(pack(list(token_ids))).hexdigest()
