"""Counters of one engine's life."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from .request import Request
from .scheduler import Scheduled


@dataclass
class EngineStats:
    """Totals since start; tokens unless said otherwise."""

    steps: int = 0
    scheduled_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generation_tokens: int = 0
    finished_requests: int = 0

    def note_step(self, plan: list[Scheduled]) -> None:
        """A step ran."""
        self.steps += 1
        self.scheduled_tokens += sum(one.num_tokens for one in plan)

    def note_admission(self, request: Request) -> None:
        """A request was admitted for the first time."""
        self.prompt_tokens += request.num_prompt_tokens
        self.cached_tokens += request.metrics.cached_tokens

    def note_finish(self, request: Request) -> None:
        """A request ended."""
        self.finished_requests += 1

    def to_dict(self) -> dict[str, int]:
        """All totals."""
        return asdict(self)
