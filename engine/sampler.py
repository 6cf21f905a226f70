"""Choosing tokens from logits: greedy or random, each request with a random stream of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .sampling_params import SamplingParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .request import Request
    from .scheduler import Scheduled
    from .tokenizer import Tokenizer

CANDIDATE_FLOORS = (1e-4, 1e-7, 0.0)


@dataclass
class Sampled:
    """What a step chose for one request.

    Attributes:
        token: the id, or None when the request cannot go on; then ``error`` says why.
    """

    request: Request
    token: int | None
    error: str | None = None


class Sampler:
    """Chooses the next token of every request whose tokens are all computed.

    Holds nothing that cannot be derived from a request's ids again, so preempting or forking a request needs no call.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def check(self, params: SamplingParams) -> None:
        """Refuse what this vocabulary cannot serve.

        Raises:
            RequestError: a token id that the model does not have.
        """

    def sample(self, plan: Sequence[Scheduled], logits: np.ndarray) -> list[Sampled]:
        """Choose for a step that has run and is committed.

        Args:
            plan: the step as it was given to `build_batch`.
            logits: float32 [num_samples, vocab_size] as the runner gave them; may be overwritten.

        Returns:
            One for each request of the plan that has no token left to compute, in order.
        """
        return self.choose([one.request for one in plan if one.request.num_to_compute == 0], logits)

    def choose(self, requests: Sequence[Request], logits: np.ndarray) -> list[Sampled]:
        """Choose a token for each request from its row of ``logits``."""
        tokens = sample(
            logits[:, : self._tokenizer.num_tokens],
            [request.params for request in requests],
            [request.seed for request in requests],
            [request.num_output_tokens for request in requests],
        )
        wrong = "The model's output was not a number for this request; it was ended."
        return [
            Sampled(one, token, wrong if token is None else None) for one, token in zip(requests, tokens, strict=True)
        ]


def sample(logits: np.ndarray, params: Sequence[SamplingParams], seeds: Sequence[int], places: Sequence[int]) -> list:
    """Choose one token for each row.

    Args:
        logits: float32 [num_rows, vocab_size].
        params: the controls of each row.
        seeds: the seed of each row's request.
        places: index of the token to choose in its reply. Row, company and history do not matter: the same seed and
            place always draw the same number, so a preempted or regrouped request goes on as before.

    Returns:
        A token id for each row, or None where the row's best logit is not a number or infinite.
    """
    best = logits.argmax(axis=1)
    peaks = logits[np.arange(len(best)), best]
    chosen: list[int | None] = []
    for row, (one, peak) in enumerate(zip(best, peaks, strict=True)):
        if not np.isfinite(peak):
            chosen.append(None)
        elif params[row].greedy:
            chosen.append(int(one))
        else:
            chosen.append(_draw(logits[row], float(peak), params[row], uniform(seeds[row], places[row])))
    return chosen


def uniform(seed: int, place: int) -> float:
    """A number in [0, 1) that depends on seed and place only (Philox, counter-based)."""
    bits = np.random.Philox(key=seed % 2**64, counter=[place, 0, 0, 0])
    return float(np.random.Generator(bits).random())


def _draw(logits: np.ndarray, peak: float, params: SamplingParams, u: float) -> int:
    """Temperature, then top-k, top-p and min-p (transformers' order), then inverse transform sampling."""
    weights = np.exp((logits - np.float32(peak)) / np.float32(params.temperature))
    weights[np.isnan(weights)] = 0
    ids, probabilities = _candidates(weights / weights.sum(dtype=np.float64), params)
    if params.min_p > 0:
        keep = probabilities >= params.min_p * probabilities.max()
        ids, probabilities = ids[keep], probabilities[keep]
    cumulative = np.cumsum(probabilities, dtype=np.float64)
    place = int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))
    return int(ids[min(place, len(ids) - 1)])


def _candidates(probabilities: np.ndarray, params: SamplingParams) -> tuple[np.ndarray, np.ndarray]:
    """Ids and probabilities that survive top-k and top-p; at least one. Most likely first, where that mattered."""
    vocab = len(probabilities)
    if params.top_p == 1 and not 0 < params.top_k < vocab:
        return np.arange(vocab), probabilities
    top_k = params.top_k if 0 < params.top_k < vocab else vocab
    ids, kept = np.arange(vocab), probabilities
    for floor in CANDIDATE_FLOORS:  # sorting a few likely ids is far cheaper than sorting the vocabulary
        likely = np.flatnonzero(probabilities >= floor)
        ids = likely[np.argsort(-probabilities[likely], kind="stable")][:top_k]
        kept = probabilities[ids]
        if len(ids) == top_k or (top_k == vocab and kept.sum() >= params.top_p):
            break
    mass = kept.sum() if top_k < vocab else 1.0
    if params.top_p < 1:
        before = np.cumsum(kept) - kept
        count = max(1, int(np.searchsorted(before, params.top_p * mass, side="left")))
        ids, kept = ids[:count], kept[:count]
    return ids, kept
