"""The paged inference engine: usable alone as a library, in process or behind a child process.

``from pagedchat.engine import LLM, SamplingParams`` is the short way in. Names load on first use, so that importing
this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config import EngineConfig
    from .engine import Engine
    from .llm import LLM
    from .sampling_params import SamplingParams

_HOMES = {"LLM": ".llm", "Engine": ".engine", "EngineConfig": ".config", "SamplingParams": ".sampling_params"}

__all__ = ["LLM", "Engine", "EngineConfig", "SamplingParams"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
