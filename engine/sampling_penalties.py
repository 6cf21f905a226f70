"""Changes to logits before anything is drawn: bias, bans, penalties on tokens, and DRY. All in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .sampling_params import SamplingParams
    from .sampling_state import SamplingState
    from .tokenizer import Tokenizer

LONGEST_REPEAT = 50
_LARGEST = np.float32(1e30)


def add_bias(logits: np.ndarray, rows: Sequence[int], states: Sequence[SamplingState]) -> None:
    """Add each request's numbers to its row."""
    row, ids = _flat(rows, [state.bias[0] for state in states])
    logits[row, ids] += np.concatenate([state.bias[1] for state in states])


def ban_ends(logits: np.ndarray, rows: Sequence[int], states: Sequence[SamplingState]) -> None:
    """Make ids that would end the reply impossible. What is not a number stays none, so that it is still found."""
    row, ids = _flat(rows, [state.end_ids for state in states])
    with np.errstate(invalid="ignore"):
        logits[row, ids] += np.float32(-np.inf)


def penalize(logits: np.ndarray, rows: Sequence[int], states: Sequence[SamplingState]) -> None:
    """Repetition (prompt and reply), then presence and frequency (reply only), of all rows at once."""
    counts = [state.counts for state in states]
    sizes = [len(one.ids) for one in counts]
    row, ids = _flat(rows, [one.ids for one in counts])
    in_reply = np.concatenate([one.in_reply for one in counts])
    factors = [
        (one.repetition_penalty, one.presence_penalty, one.frequency_penalty)
        for one in (state.params for state in states)
    ]
    repetition, presence, frequency = np.repeat(np.array(factors, np.float32), sizes, axis=0).T
    values = logits[row, ids]
    values = np.where(values > 0, values / repetition, values * repetition)
    logits[row, ids] = values - presence * (in_reply > 0) - frequency * in_reply


def dry(logits: np.ndarray, history: np.ndarray, breaks: np.ndarray, params: SamplingParams) -> None:
    """DRY on one row ("Don't repeat yourself", as in text-generation-webui and llama.cpp).

    A token that followed earlier where the last tokens stood is the more penalized the more of them stood there.

    Args:
        logits: float32 [vocab].
        history: int64 [tokens], prompt and reply.
        breaks: bool [vocab], tokens that no repeated sequence reaches over.
        params: the request's controls.
    """
    if len(history) < 2 or breaks[history[-1]]:
        return
    ends = np.flatnonzero(history[:-1] == history[-1])
    ends = ends[~breaks[history[ends + 1]]]
    lengths, longest = np.ones(len(ends), np.int64), np.arange(len(ends))
    for back in range(1, min(LONGEST_REPEAT, len(history) - 1)):
        wanted = history[-1 - back]
        longest = longest[ends[longest] >= back]
        longest = longest[history[ends[longest] - back] == wanted]
        if not len(longest) or breaks[wanted]:
            break
        lengths[longest] += 1
    found = lengths >= params.dry_allowed_length
    if not found.any():
        return
    ids, which = np.unique(history[ends[found] + 1], return_inverse=True)
    most = np.zeros(len(ids), np.int64)
    np.maximum.at(most, which, lengths[found])
    penalty = params.dry_multiplier * params.dry_base ** (most - params.dry_allowed_length).astype(np.float64)
    logits[ids] -= np.minimum(penalty, _LARGEST).astype(np.float32)


class Breakers:
    """Which tokens break DRY's sequences: control tokens, and those whose text holds one of some texts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[tuple, np.ndarray] = {}

    def of(self, texts: Sequence[str], ids: Sequence[int] = ()) -> np.ndarray:
        """bool [num_tokens]. A text that no token holds whole is told by the last token it is written with.

        Args:
            ids: more tokens that break.
        """
        key = (tuple(texts), tuple(ids))
        if key not in self._known:
            if len(self._known) == 16:
                self._known.clear()
            self._known[key] = self._look(texts, ids)
        return self._known[key]

    def _look(self, texts: Sequence[str], ids: Sequence[int]) -> np.ndarray:
        tokenizer = self._tokenizer
        breaks = np.zeros(tokenizer.num_tokens, bool)
        breaks[[one for one in (*tokenizer.special_ids, *ids) if one < len(breaks)]] = True
        spelled = [tokenizer.token_bytes(number) for number in range(len(breaks))]
        for text in texts:
            wanted = text.encode()
            holding = [number for number, piece in enumerate(spelled) if wanted in piece]
            breaks[holding or tokenizer.encode(text)[-1:]] = True
        return breaks


def _flat(rows: Sequence[int], ids: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Row and id of every entry, those of all requests one after another."""
    return np.repeat(np.asarray(rows, np.int64), [len(one) for one in ids]), np.concatenate(ids)
