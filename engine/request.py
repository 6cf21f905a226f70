"""One request inside the engine: its tokens, how many of them are computed, and its block table."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .block_table import BlockTable
from .cache_users import ANYBODY, pin_user
from .generate_request import PIN_WORK
from .sampling_params import SamplingParams
from .types import RequestMetrics, TimelineEntry

if TYPE_CHECKING:
    from .prefix_index import Node


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
        tables: the block table of each KV group, logical to physical; all of one length.
        num_stored: leading blocks of the tables that are full and known to the prefix index.
        node: where in the prefix index the sequence goes on, while the request runs.
        order: admission order over the engine's life; lower is older.
        labels: copied into events and tables; ``session`` is in whose name it works.
        salt: requests share KV only within one salt, and salts take turns.
        lane: within a salt, lanes (chats, say) take turns; a request without one is a lane of its own.
        priority: lower runs first.
        keep: what it computes stays in the cache for others.
        begins_with: ids that its output begins with, whatever is sampled.
        index: which of the samples of a request with ``n`` above 1 this is.
        parent_id: the id under which outputs are told; that of all samples of one request.
        user: in whose name it computes and uses cached blocks (see `cache_users`): a session, a pin, or anybody.
        pending_on: the request whose ``pending_tokens`` first tokens this waiting one shares and waits for.
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
    lane: str = ""
    priority: int = 0
    keep: bool = True
    begins_with: list[int] = field(default_factory=list)
    index: int = 0
    parent_id: str = ""

    def __post_init__(self) -> None:
        self.parent_id = self.parent_id or self.request_id
        self.user = self.labels.get("session") or _pin_of(self.parent_id) or ANYBODY
        self.token_ids = [*self.prompt_token_ids, *self.begins_with[:-1]]
        self.num_computed = 0
        self.tables: list[BlockTable[int]] = [BlockTable("i")]
        self.num_stored = 0
        self.node: Node | None = None
        self.state = RequestState.WAITING
        self.metrics = RequestMetrics()
        self.admitted_at: float | None = None
        self.first_token_at: float | None = None
        self.last_token_at = 0.0
        self.last_step = -1
        self.pending_on: Request | None = None
        self.pending_tokens = 0

    @property
    def blocks(self) -> BlockTable[int]:
        """The block table of the first KV group."""
        return self.tables[0]

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
    def given_token(self) -> int | None:
        """The next token of its output, if that is not to be sampled."""
        place = self.num_output_tokens
        return self.begins_with[place] if place < len(self.begins_with) else None

    @property
    def num_to_compute(self) -> int:
        """Tokens that must run before the next one can be sampled."""
        return self.num_tokens - self.num_computed

    @property
    def needs_prompt_logits(self) -> bool:
        """Whether it must compute its whole prompt, because what is cached has no logits: until its first token, and
        of several samples only the first."""
        return self.params.needs_all_logits and self.index == 0 and self.num_output_tokens == 0

    @property
    def rank(self) -> tuple[int, int]:
        """Place among running requests: priority first, then age."""
        return (self.priority, self.order)

    def note(self, event: str, now: float, detail: str = "") -> None:
        """Add a line to the request's timeline."""
        self.metrics.timeline.append(TimelineEntry(event, now - self.arrival, detail))


def _pin_of(request_id: str) -> str | None:
    return pin_user(request_id.removeprefix(PIN_WORK)) if request_id.startswith(PIN_WORK) else None
