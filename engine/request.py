"""One request inside the engine: its tokens, how many of them are computed, and its block table."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from .sampling_params import SamplingParams
from .types import RequestMetrics


class RequestState(enum.Enum):
    """Where a request stands. A preempted one is waiting again."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(eq=False)
class Request:
    """A sequence being served. It has only *computed* and *total* tokens; prefill and decode are the same thing.

    Attributes:
        token_ids: prompt and output ids.
        num_computed: tokens whose KV is in the cache.
        blocks: the block table, logical to physical.
        num_stored: leading blocks of the table that are full and known to the prefix index.
        order: admission order over the engine's life; lower is older.
        labels: opaque to the engine; copied into events and tables.
        salt: requests share KV only within one salt.
    """

    request_id: str
    prompt_token_ids: list[int]
    params: SamplingParams
    order: int
    arrival: float
    seed: int
    max_tokens: int
    labels: dict[str, str] = field(default_factory=dict)
    salt: str = ""
    priority: int = 0

    def __post_init__(self) -> None:
        self.token_ids = list(self.prompt_token_ids)
        self.num_computed = 0
        self.blocks: list[int] = []
        self.num_stored = 0
        self.state = RequestState.WAITING
        self.metrics = RequestMetrics(prompt_tokens=len(self.prompt_token_ids))
        self.admitted_at: float | None = None
        self.first_token_at: float | None = None

    @property
    def num_prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return len(self.prompt_token_ids)

    @property
    def num_tokens(self) -> int:
        """Prompt and output tokens so far."""
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        """Tokens generated so far."""
        return len(self.token_ids) - len(self.prompt_token_ids)

    @property
    def num_to_compute(self) -> int:
        """Tokens that must run before the next one can be sampled."""
        return self.num_tokens - self.num_computed

    @property
    def queue_key(self) -> tuple[int, int]:
        """Place in the waiting queue: priority first, then age."""
        return (self.priority, self.order)
