"""What sampling keeps of a request between two steps. All of it follows from the request's ids, so a request that was
preempted, or forked from another, goes on exactly as it would have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .sampling_draw import TOP_K_OFF

if TYPE_CHECKING:
    from .request import Request
    from .sampling_params import SamplingParams
    from .tokenizer import Tokenizer
    from .types import TokenLogprobs

_NUMBERS_AHEAD = 64


class SamplingState:
    """One request's controls as arrays, its penalty counts and its random numbers.

    Attributes:
        bias: (ids, numbers) added to the logits.
        end_ids: int64, what must not come before ``min_tokens`` have.
        counts: of the tokens that penalties look at.
        history: prompt and reply as an array; kept up for DRY only.
        prompt_logprobs: those so far, one for each prompt token from the first; empty unless they are to be told.
        top_k: `TOP_K_OFF` is off.
        plain: the largest logit as the model gave it, always, and nothing to tell about it.
    """

    def __init__(self, request: Request, tokenizer: Tokenizer) -> None:
        params = request.params
        self.params = params
        self.greedy = params.greedy
        self.penalizes, self.dry = params.penalizes, params.dry_multiplier > 0
        self.top_k = params.top_k if 0 < params.top_k < tokenizer.num_tokens else TOP_K_OFF
        self.bias = (
            np.fromiter(params.logit_bias, np.int64, len(params.logit_bias)),
            np.fromiter(params.logit_bias.values(), np.float32, len(params.logit_bias)),
        )
        self.end_ids = np.array(sorted(end_ids(params, tokenizer)), np.int64)
        self.shapes = self.penalizes or self.dry or len(params.logit_bias) > 0 or params.min_tokens > 0
        first = 0 if params.repetition_penalty != 1 else request.num_prompt_tokens
        exempt = tokenizer.special_ids | frozenset(params.stop_token_ids)
        self.counts = TokenCounts(first, request.num_prompt_tokens, exempt)
        self.history = History()
        self.prompt_logprobs: list[TokenLogprobs | None] = [None] if request.needs_prompt_logits else []
        tells = params.logprobs is not None or request.needs_prompt_logits
        self.plain = self.greedy and not (self.shapes or tells or request.begins_with)
        self._seed = request.seed
        self._block, self._numbers = -1, np.empty(0)

    def number(self, place: int) -> float:
        """A number in [0, 1) that depends on the request's seed and the token's place in its reply only (Philox)."""
        block, offset = divmod(place, _NUMBERS_AHEAD)
        if block != self._block:
            bits = np.random.Philox(key=self._seed % 2**64, counter=[0, block, 0, 0])
            self._numbers = (bits.random_raw(_NUMBERS_AHEAD) >> np.uint64(11)) * 2.0**-53
            self._block = block
        return float(self._numbers[offset])


class TokenCounts:
    """Which tokens came, and how often in the reply: sparse, grown by each new token.

    Args:
        first: index of the first token that counts at all.
        reply: index of the first token of the reply.
        exempt: ids that never count: the model must stay free to end its turn, however often it has.
    """

    def __init__(self, first: int, reply: int, exempt: frozenset[int]) -> None:
        self._seen, self._reply, self._exempt = first, reply, exempt
        self._places: dict[int, int] = {}
        self._ids, self._counts = np.empty(64, np.int64), np.empty(64, np.float32)

    def follow(self, token_ids: Sequence[int]) -> None:
        """Count the tokens that are new since the last call."""
        for index in range(self._seen, len(token_ids)):
            token = token_ids[index]
            place = self._places.get(token)
            if place is None:
                if token in self._exempt:
                    continue
                place = self._places[token] = len(self._places)
                if place == len(self._ids):
                    self._ids, self._counts = _doubled(self._ids), _doubled(self._counts)
                self._ids[place], self._counts[place] = token, 0
            if index >= self._reply:
                self._counts[place] += 1
        self._seen = max(self._seen, len(token_ids))

    @property
    def ids(self) -> np.ndarray:
        """int64 [tokens], each once."""
        return self._ids[: len(self._places)]

    @property
    def in_reply(self) -> np.ndarray:
        """float32 [tokens], how often each came in the reply; 0 for one of the prompt only."""
        return self._counts[: len(self._places)]


class History:
    """All ids of a request as one growing array."""

    def __init__(self) -> None:
        self._ids, self._size = np.empty(256, np.int64), 0

    def follow(self, token_ids: Sequence[int]) -> np.ndarray:
        """int64 [tokens], a view."""
        size = len(token_ids)
        while size > len(self._ids):
            self._ids = _doubled(self._ids)
        self._ids[self._size : size] = token_ids[self._size : size]
        self._size = size
        return self._ids[:size]


def end_ids(params: SamplingParams, tokenizer: Tokenizer) -> set[int]:
    """Ids of this vocabulary that end a reply."""
    own = () if params.ignore_eos else tokenizer.end_ids
    return {one for one in (*own, *params.stop_token_ids) if one < tokenizer.num_tokens}


def _doubled(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.empty_like(array)])
