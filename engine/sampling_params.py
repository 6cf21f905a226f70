"""How to choose each next token: the controls of a request, checked on construction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import RequestError

MOST_DRY_BREAKERS = 64
GREEDY_BELOW = 1e-5
MAX_LOGPROBS = 20
MAX_SAMPLES = 16
DRY_BREAKERS = ("\n", ":", '"', "*")


@dataclass
class SamplingParams:
    """Sampling controls under the names people know from vLLM, and those of DRY under llama.cpp's.

    `engine.sampler` says in which order they work. All are off by default except the plain draw at temperature 1.

    Attributes:
        temperature: divides the logits; below 1e-5 the most likely token is always taken.
        top_p, top_k, min_p: keep the likeliest tokens only; 1, 0 (or -1) and 0 are off.
        repetition_penalty: makes tokens of prompt and reply less likely (above 1) or more likely; 1 is off.
        presence_penalty, frequency_penalty: taken from the logit of each token of the reply, once and once for each
            time it came; 0 is off.
        dry_multiplier: DRY penalizes a token that would go on repeating a sequence of at least
            ``dry_allowed_length`` tokens, by ``dry_multiplier * dry_base ** (length - dry_allowed_length)``; 0 is off.
        dry_sequence_breakers: texts; a token that holds one ends the sequences before it.
        logit_bias: added to the logits of these ids, each from -100 to 100.
        seed: makes a request reproducible, whatever else runs beside it.
        n: how many replies to draw.
        max_tokens: of the reply; None is as many as fit.
        min_tokens: before these have come nothing ends the reply.
        stop: texts that end the reply; they are not part of it.
        stop_token_ids: ids that end the reply, beside the model's own end ids; the id is among the reply's ids, not
            in its text.
        ignore_eos: the model's end ids do not end the reply.
        logprobs: tell each token's log probability, and those of so many most likely ones beside it; None is off.
        prompt_logprobs: the same for the tokens of the prompt. Such a request computes its whole prompt: what is
            cached has no logits.

    Raises:
        RequestError: on a value that has no meaning; the sentence names the field and its range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_sequence_breakers: list[str] = field(default_factory=lambda: list(DRY_BREAKERS))
    logit_bias: dict[int, float] = field(default_factory=dict)
    seed: int | None = None
    n: int = 1
    max_tokens: int | None = 16
    min_tokens: int = 0
    stop: list[str] = field(default_factory=list)
    stop_token_ids: list[int] = field(default_factory=list)
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None

    def __post_init__(self) -> None:
        self.temperature = _number("temperature", self.temperature, 0.0, 100.0)
        self.top_p = _number("top_p", self.top_p, 0.0, 1.0)
        self.min_p = _number("min_p", self.min_p, 0.0, 1.0)
        self.top_k = _integer("top_k", self.top_k, -1)
        self._check_penalties()
        self.logit_bias = _bias(self.logit_bias)
        self.n = _integer("n", self.n, 1, MAX_SAMPLES)
        self._check_ends()
        if self.seed is not None:
            self.seed = _integer("seed", self.seed, -(2**63))
        if self.logprobs is not None:
            self.logprobs = _integer("logprobs", self.logprobs, 0, MAX_LOGPROBS)
        if self.prompt_logprobs is not None:
            self.prompt_logprobs = _integer("prompt_logprobs", self.prompt_logprobs, 0, MAX_LOGPROBS)

    @property
    def needs_all_logits(self) -> bool:
        """Whether the logits of every prompt token are wanted: cached tokens have none, so nothing is looked up."""
        return self.prompt_logprobs is not None

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature < GREEDY_BELOW

    @property
    def penalizes(self) -> bool:
        """Whether any of the three penalties on single tokens is on."""
        return self.repetition_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0

    def _check_penalties(self) -> None:
        self.repetition_penalty = _number("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
        self.presence_penalty = _number("presence_penalty", self.presence_penalty, -2.0, 2.0)
        self.frequency_penalty = _number("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        self.dry_multiplier = _number("dry_multiplier", self.dry_multiplier, 0.0, 100.0)
        self.dry_base = _number("dry_base", self.dry_base, 1.0, 100.0)
        self.dry_allowed_length = _integer("dry_allowed_length", self.dry_allowed_length, 1)
        self.dry_sequence_breakers = _texts("dry_sequence_breakers", self.dry_sequence_breakers)
        if len(self.dry_sequence_breakers) > MOST_DRY_BREAKERS:
            raise _refusal("dry_sequence_breakers", f"may be {MOST_DRY_BREAKERS} texts at most.")

    def _check_ends(self) -> None:
        if self.max_tokens is not None:
            self.max_tokens = _integer("max_tokens", self.max_tokens, 1)
        self.min_tokens = _integer("min_tokens", self.min_tokens, 0)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise _refusal("min_tokens", f"must be at most max_tokens, {self.max_tokens}, not {self.min_tokens}.")
        self.stop = _texts("stop", self.stop)
        ids = [] if self.stop_token_ids is None else self.stop_token_ids
        if not isinstance(ids, (list, tuple, set, frozenset)) or not all(_is_id(one) for one in ids):
            raise _refusal("stop_token_ids", f"must be a list of token ids, not {ids!r}.")
        self.stop_token_ids = list(ids)
        if not isinstance(self.ignore_eos, bool):
            raise _refusal("ignore_eos", f"must be true or false, not {self.ignore_eos!r}.")


def _refusal(name: str, rest: str) -> RequestError:
    return RequestError(f"{name} {rest}", name)


def _number(name: str, value: object, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value) or not low <= value <= high:
        raise _refusal(name, f"must be a number from {low:g} to {high:g}, not {short(value)}.")
    return float(value)


def _integer(name: str, value: object, low: int, high: int = 2**63 - 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        wanted = f"of at least {low}" if high == 2**63 - 1 else f"from {low} to {high}"
        raise _refusal(name, f"must be a whole number {wanted}, not {short(value)}.")
    return value


def short(value: object) -> str:
    """A value as it was written, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _texts(name: str, value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(texts, (list, tuple)) or any(not isinstance(text, str) or not text for text in texts):
        raise _refusal(name, "must be a text or a list of texts, none of them empty.")
    return list(texts)


def _bias(value: Any) -> dict[int, float]:
    """Ids may be written as texts, as JSON needs them."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _refusal("logit_bias", f"must give a number for each token id, not {short(value)}.")
    bias: dict[int, float] = {}
    for key, number in value.items():
        token: Any = int(key) if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 19 else key
        if not _is_id(token):
            raise _refusal("logit_bias", f"names tokens by their ids, not by {key!r}.")
        bias[token] = _number("logit_bias", number, -100.0, 100.0)
    return bias


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
