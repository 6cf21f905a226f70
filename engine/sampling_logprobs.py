"""Log probabilities of chosen and of prompt tokens.

They are of the model's own distribution over the tokenizer's ids: before bias, penalties, temperature and filters, as
vLLM's are by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .sampling_draw import likeliest
from .types import TokenLogprob, TokenLogprobs

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

ROWS_AT_ONCE = 8


def token_logprobs(
    logits: np.ndarray, tokens: Sequence[int], tops: Sequence[int], tokenizer: Tokenizer
) -> list[TokenLogprobs | None]:
    """What the model thought of some tokens.

    Works on few rows at a time, so that a long prompt needs no second copy of its logits and the caches hold them.

    Args:
        logits: float32 [rows, vocab] as the model gave them.
        tokens: the token that came at each row.
        tops: how many of the most likely ones to tell beside it.

    Returns:
        One for each row; None where the row's logits are no numbers.
    """
    found: list[TokenLogprobs | None] = []
    for start in range(0, len(tokens), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        found += _of_some(logits[rows], tokens[rows], tops[rows], tokenizer)
    return found


def _of_some(
    logits: np.ndarray, tokens: Sequence[int], tops: Sequence[int], tokenizer: Tokenizer
) -> list[TokenLogprobs | None]:
    peaks = logits.max(axis=1)
    fine = np.isfinite(peaks)
    logits = np.where(fine[:, None], logits, 0) if not fine.all() else logits
    peaks = np.where(fine, peaks, 0)
    weights = logits - peaks[:, None]
    norms = peaks + np.log(np.exp(weights, out=weights).sum(axis=1))
    own = logits[np.arange(len(tokens)), tokens]
    ranks = 1 + np.count_nonzero(logits > own[:, None], axis=1)
    most = min(max(tops), logits.shape[1])
    ids, values = (
        likeliest(logits, most) if most else (np.empty((len(tokens), 0), np.int64), np.empty((len(tokens), 0)))
    )
    own_logprobs, top_logprobs = (own - norms).tolist(), (values - norms[:, None]).tolist()

    def entry(row: int, top: int) -> TokenLogprobs:
        token = tokens[row]
        beside = [
            TokenLogprob(one, value, place, tokenizer.token_bytes(one))
            for place, (one, value) in enumerate(zip(ids[row, :top].tolist(), top_logprobs[row][:top], strict=True), 1)
        ]
        return TokenLogprobs(token, own_logprobs[row], int(ranks[row]), tokenizer.token_bytes(token), beside)

    return [entry(row, top) if good else None for row, (top, good) in enumerate(zip(tops, fine, strict=True))]
