"""Plain values that cross the engine's borders: step batches, outputs and timings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np

    from ..kernels.interface import AttentionBatch

FinishReason = Literal["stop", "length", "abort", "error"]


@dataclass
class StepBatch:
    """What one engine step runs on the model.

    Attributes:
        token_ids: int64 [num_tokens], the rows of all sequences one after another.
        attention: their block tables, positions and slots.
        sample_rows: int64 [num_samples], rows whose logits are wanted; may be empty.
        copies: (source, destination) physical blocks, copied before anything is written.
    """

    token_ids: np.ndarray
    attention: AttentionBatch
    sample_rows: np.ndarray
    copies: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class RequestMetrics:
    """How a request was served. Times in seconds, sizes in tokens or blocks.

    ``cached_tokens`` counts prompt tokens whose KV was found at first admission, at most prompt length - 1;
    ``computed_tokens`` is the rest of the prompt. Recomputing after a preemption changes neither.
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


@dataclass
class RequestOutput:
    """What one engine step brought for one request.

    Attributes:
        token_ids: ids generated in this step, an end-of-turn id included.
        text: new text, safe for UTF-8; may be empty while a character or a stop string is incomplete.
        finish_reason: set on the last output; the request's blocks are released by then.
        metrics: set on the first output that carries a token and on the last one.
        history_ids: set on the last output of a reply that a stop string cut: the ids that spell its text, for the
            history of the chat. Otherwise the ids of all outputs do.
    """

    request_id: str
    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: FinishReason | None = None
    error: str | None = None
    metrics: RequestMetrics | None = None
    history_ids: list[int] | None = None
