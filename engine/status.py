"""What the engine process is doing, as its client tells it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

EngineState = Literal["starting", "fetching", "loading", "ready", "failed", "restarting"]


@dataclass(frozen=True)
class EngineStatus:
    """State of the engine at one moment.

    Attributes:
        state: "ready" is the only one in which requests run; "failed" stays until someone starts the engine again.
        progress: 0 to 1 while fetching or loading, None when it is not known.
        message: one sentence for the user; empty when there is nothing to say.
        info: what ``Engine.info()`` says, filled once it is ready.
    """

    state: EngineState = "starting"
    progress: float | None = None
    message: str = ""
    info: dict[str, Any] = field(default_factory=dict)
