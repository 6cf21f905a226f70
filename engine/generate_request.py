"""What a caller sends to the engine process, and the first thing that comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from .errors import RequestError
from .reasoning import ReasoningState
from .sampling_params import SamplingParams

PIN_WORK = "pin:"
OWN_WORK = "own:"
"""Ids that begin so belong to requests that nobody sent: a pin's, and a look at how the program does. Metrics of users'
requests do not count them, and nobody who watches users' replies is told of their ends."""


def is_own_work(request_id: str) -> bool:
    """Whether a request is the program's own."""
    return request_id.startswith((PIN_WORK, OWN_WORK))


@dataclass
class GenerateRequest:
    """One prompt to answer. Exactly one of ``prompt_token_ids``, ``prompt`` and ``messages`` is given.

    Attributes:
        prompt: text, tokenized as it is, without a chat template; names of control tokens count.
        messages: {"role", "content", "token_ids", "kept_from"} each; ids that are given are sent unchanged, and
            ``kept_from`` of a reply is what its own ``RequestStarted`` said. "num_tokens" in place of content and ids
            is the length of a message at the beginning that far more tokens follow than the context holds. "carried"
            of a question is what of its content goes on with the chat when the question is left out.
        add_generation_prompt: whether ``messages`` is followed by the header of a new reply. False continues the
            last message, which is then a reply with its ids.
        begins_with: ids that the reply begins with, as if they had been sampled: its text begins with theirs, and
            penalties, limits and stops count them. All but the last count as the prompt's in the metrics; the last one
            is the first of the outputs' ids.
        template_args: more variables for the chat template, such as ``enable_thinking``.
        begun_at: when the chat began (ISO 8601), which is the date that its template writes; today without.
        trim: leave out the oldest turns of ``messages`` if they do not fit into the context and the engine's
            ``context_policy`` allows it; see `context_policy`. Otherwise such a request is refused.
        remember: keep the ids of the reply by its text, for later histories that come without ids.
        labels: copied into events and tables. What a request with a ``session`` computes and uses is noted in its
            name, until the engine is told to forget it; of the rest the engine knows nothing.
        salt: only requests with the same salt share blocks.
        lane: requests of one salt take turns by lane when they wait; a chat, say.
        priority: lower runs first.
        keep: whether what it computes stays in the cache. Without, it uses what is cached and leaves nothing behind.

    Raises:
        RequestError: if none or several of the three are given, or several samples begin with the same ids.
    """

    params: SamplingParams
    request_id: str = field(default_factory=lambda: uuid4().hex)
    prompt_token_ids: list[int] | None = None
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    add_generation_prompt: bool = True
    begins_with: list[int] = field(default_factory=list)
    template_args: dict[str, Any] = field(default_factory=dict)
    begun_at: str | None = None
    trim: bool = False
    remember: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    salt: str = ""
    lane: str = ""
    priority: int = 0
    keep: bool = True

    def __post_init__(self) -> None:
        given = [one for one in (self.prompt_token_ids, self.prompt, self.messages) if one is not None]
        if len(given) != 1:
            raise RequestError("A request needs exactly one of prompt_token_ids, prompt and messages.")
        if self.begins_with and (self.params.n > 1 or self.params.prompt_logprobs is not None):
            raise RequestError("A reply that begins with given ids has one sample, and its prompt no logprobs.")


@dataclass
class RequestStarted:
    """First item of every reply: the prompt as the engine runs it.

    Attributes:
        segments: ids of each message in order; their concatenation and ``generation_ids`` make the prompt. Empty
            for a request that came without messages.
        generation_ids: header of the reply; a reply's stored ids are these and the generated ones.
        first_difference: index of the first id that the chat template changed against what was sent before.
        note: a sentence about that, for the user.
        kept_from: index of the first message after the system prompt that is in the prompt; None for a request that
            came without messages.
        left_out_messages: messages between the system prompt and that one, which did not fit into the context.
        left_out_tokens: tokens that they have.
        rewritten: indices of replies in ``messages`` that came without ids and that the template does not show as
            they were sent back: without their thinking, say. What was cached of them is not found.
        reasoning_state: where the text to come begins, for a `ReasoningSplitter`; None if the model marks no thinking
            or the request came without messages: such text is never split.
        reasoning_held: with it, the beginning of a tag that the reply to continue ended with.
    """

    request_id: str
    prompt_token_ids: list[int]
    segments: list[list[int]] = field(default_factory=list)
    generation_ids: list[int] = field(default_factory=list)
    first_difference: int | None = None
    note: str | None = None
    kept_from: int | None = None
    left_out_messages: int = 0
    left_out_tokens: int = 0
    rewritten: list[int] = field(default_factory=list)
    reasoning_state: ReasoningState | None = None
    reasoning_held: str = ""
