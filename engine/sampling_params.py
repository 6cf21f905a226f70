"""How to choose each next token: the knobs of a request, checked on construction."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .errors import RequestError

GREEDY_BELOW = 1e-5


@dataclass
class SamplingParams:
    """Sampling controls under the names people know from vLLM.

    Order of the filters: temperature, then top-k, top-p, min-p (the order of transformers).
    ``top_k`` of 0 or -1 means off, as do ``top_p`` 1 and ``min_p`` 0. Temperatures below 1e-5 are greedy.
    ``seed`` makes a request reproducible, whatever else runs beside it.

    Raises:
        RequestError: on a value that has no meaning; the sentence names the field and its range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_tokens: int | None = 16
    seed: int | None = None
    stop: list[str] = field(default_factory=list)
    ignore_eos: bool = False
    n: int = 1
    prompt_logprobs: int | None = None

    def __post_init__(self) -> None:
        self.temperature = _number("temperature", self.temperature, 0.0, 100.0)
        self.top_p = _number("top_p", self.top_p, 0.0, 1.0)
        self.min_p = _number("min_p", self.min_p, 0.0, 1.0)
        self.top_k = _integer("top_k", self.top_k, -1)
        if self.max_tokens is not None:
            self.max_tokens = _integer("max_tokens", self.max_tokens, 1)
        if self.seed is not None:
            self.seed = _integer("seed", self.seed, -(2**63))
        if isinstance(self.stop, str):
            self.stop = [self.stop]
        self.stop = list(self.stop or [])
        if any(not isinstance(text, str) or not text for text in self.stop):
            raise RequestError("stop must be a text or a list of texts, none of them empty.")

    @property
    def needs_all_logits(self) -> bool:
        """Whether the logits of every prompt token are wanted: cached tokens have none, so nothing is looked up."""
        return self.prompt_logprobs is not None

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature < GREEDY_BELOW


def _number(name: str, value: object, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value) or not low <= value <= high:
        raise RequestError(f"{name} must be a number from {low:g} to {high:g}, not {value!r}.")
    return float(value)


def _integer(name: str, value: object, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**63:
        raise RequestError(f"{name} must be a whole number of at least {low}, not {value!r}.")
    return value
