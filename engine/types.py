"""Plain values that cross the engine's borders: step batches, outputs and timings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np

    from ..kernels.interface import AttentionBatch

BACKGROUND_PRIORITY = 10
"""Priority of work that nobody waits for (titles, pins); chats have 0. Lower runs first."""

FinishReason = Literal["stop", "length", "abort", "error"]


@dataclass
class StepBatch:
    """What one engine step runs on the model.

    Attributes:
        token_ids: int64 [num_tokens], the rows of all sequences one after another.
        groups: of each KV group, the rows' block tables, positions and slots.
        sample_rows: int64 [num_samples], rows whose logits are wanted; may be empty.
        copies: (source, destination) physical blocks, copied before anything is written.
    """

    token_ids: np.ndarray
    groups: list[AttentionBatch]
    sample_rows: np.ndarray
    copies: list[tuple[int, int]] = field(default_factory=list)

    @property
    def attention(self) -> AttentionBatch:
        """The first KV group's."""
        return self.groups[0]


@dataclass
class TimelineEntry:
    """Something that happened to a request.

    Attributes:
        event: queued, pending (its prefix is being computed by another request), scheduled, preempted, restored,
            first_token, or finished.
        at_s: seconds since the request came.
        detail: of pending, the request it waits for; of finished, the reason.
    """

    event: str
    at_s: float
    detail: str = ""


@dataclass
class RequestMetrics:
    """How a request was served. Times in seconds, sizes in tokens or blocks.

    ``cached_tokens`` counts prompt tokens whose KV was found at first admission, at most prompt length - 1;
    ``computed_tokens`` is the rest of the prompt. Recomputing after a preemption changes neither. ``timeline`` says
    what happened when, oldest first.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    computed_tokens: int = 0
    completion_tokens: int = 0
    queue_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    ttft_s: float | None = None
    blocks_new: int = 0
    blocks_shared: int = 0
    blocks_copied: int = 0
    preemptions: int = 0
    timeline: list[TimelineEntry] = field(default_factory=list)


@dataclass
class TokenLogprob:
    """How likely the model held a token to be, before any sampling control.

    Attributes:
        logprob: natural logarithm of its probability; -inf for a token that cannot come.
        rank: 1 is the most likely one.
        piece: the token's bytes; perhaps a part of a character, and a control token's name.
    """

    token_id: int
    logprob: float
    rank: int
    piece: bytes


@dataclass
class TokenLogprobs(TokenLogprob):
    """Those of a token that came, and of the most likely ones in its place.

    Attributes:
        top: as many as were asked for, most likely first; the token itself may be among them.
    """

    top: list[TokenLogprob] = field(default_factory=list)


@dataclass
class RequestOutput:
    """What one engine step brought for one request.

    Attributes:
        token_ids: ids generated in this step, an end-of-turn id included.
        text: new text, safe for UTF-8; may be empty while a character or a stop string is incomplete.
        finish_reason: set on the last output; the request's blocks are released by then.
        metrics: set on the first output that carries a token and on the last one.
        index: which sample of the request this is about.
        more: other samples of the request have not ended, so a finish reason is this sample's only.
        history_ids: set on the last output of a reply that a stop string cut: the ids that spell its text, for the
            history of the chat. Otherwise the ids of all outputs do.
        logprobs: one for each of ``token_ids``, if asked for.
        prompt_logprobs: on the first output that carries a token, if asked for: one for each prompt token, None for
            the first, which nothing came before.
    """

    request_id: str
    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: FinishReason | None = None
    error: str | None = None
    metrics: RequestMetrics | None = None
    history_ids: list[int] | None = None
    index: int = 0
    more: bool = False
    logprobs: list[TokenLogprobs] | None = None
    prompt_logprobs: list[TokenLogprobs | None] | None = None
