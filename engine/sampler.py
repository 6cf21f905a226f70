"""Choosing each next token from the model's logits, for all requests of a step at once.

Order of operations, each off unless asked for:

     1. ``logprobs``              of the model's own distribution, before anything below
     2. ``logit_bias``            added to the logits of some ids
     3. ``min_tokens``            end ids and ``stop_token_ids`` become impossible until so many tokens came
     4. ``repetition_penalty``    logits of tokens in prompt or reply: divided by it above 0, multiplied below
     5. ``presence_penalty``      taken once from the logit of each token in the reply
     6. ``frequency_penalty``     taken for each time the token came in the reply
     7. ``dry_multiplier`` ...    DRY, on tokens that would go on repeating a sequence of prompt and reply
        a temperature below 1e-5 takes the largest logit here: the rest is for random draws
     8. ``temperature``           divides the logits
     9. ``top_k``                 the k largest, and what equals the k-th
    10. ``top_p``                 the fewest of those left whose probabilities reach it; of equal ones the lower ids
    11. ``min_p``                 those at least so many times as likely as the likeliest
    12. one draw, by a random number that follows from the request's seed and the token's place in its reply

A token that the reply was given to begin with (``begins_with``) comes whatever was chosen.

Steps 2 to 4 and 8 to 11 are those of transformers, in its order; 5 and 6 are vLLM's and OpenAI's; 7 comes behind the
other penalties as in llama.cpp. Two things differ on purpose. Control tokens (turn and text markers) and
``stop_token_ids`` are never penalized by 4 to 7: they come back every turn, and a model that may not use them does
not stop. And ids that the tokenizer does not have (a padded vocabulary) are never chosen nor counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from .errors import RequestError
from .sampling_draw import Drawer, Filters
from .sampling_logprobs import token_logprobs
from .sampling_params import SamplingParams
from .sampling_penalties import Breakers, add_bias, ban_ends, dry, penalize
from .sampling_state import SamplingState, end_ids
from .step_batch import wanted_logits
from .types import TokenLogprobs

if TYPE_CHECKING:
    from .request import Request
    from .scheduler import Scheduled
    from .tokenizer import Tokenizer

NOT_A_NUMBER = "The model's output was not a number for this request; it was ended."


@dataclass
class Sampled:
    """What a step chose for one request.

    Attributes:
        token: the id, or None when the request cannot go on; then ``error`` says why.
        logprobs: of the token, if asked for.
        prompt_logprobs: with the first token, if asked for.
    """

    request: Request
    token: int | None
    error: str | None = None
    logprobs: TokenLogprobs | None = None
    prompt_logprobs: list[TokenLogprobs | None] | None = None


class Sampler:
    """Chooses the next token of every request whose tokens are all computed.

    Holds nothing that cannot be derived from a request's ids again, so preempting or forking a request needs no call.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._states: WeakKeyDictionary[Request, SamplingState] = WeakKeyDictionary()
        self._breakers = Breakers(tokenizer)
        self._drawer = Drawer()

    def check(self, params: SamplingParams) -> None:
        """Refuse what this vocabulary cannot serve.

        Raises:
            RequestError: a token id that the model does not have, or no token that may come first.
        """
        vocab = self._tokenizer.num_tokens
        unknown = [token for token in params.logit_bias if token >= vocab]
        if unknown:
            sentence = f"logit_bias names the token {unknown[0]}, but the model's vocabulary ends at {vocab - 1}."
            raise RequestError(sentence, "logit_bias")
        if params.min_tokens and len(end_ids(params, self._tokenizer)) >= vocab:
            raise RequestError("stop_token_ids hold every token there is, so min_tokens leaves none.", "stop_token_ids")

    def sample(self, plan: Sequence[Scheduled], logits: np.ndarray) -> list[Sampled]:
        """Choose for a step that has run and is committed.

        Args:
            plan: the step as it was given to `build_batch`.
            logits: float32 [num_samples, vocab_size] as the runner gave them; may be overwritten.

        Returns:
            One for each request of the plan that has no token left to compute, in order, each followed by its forks.
        """
        requests: list[Request] = []
        rows: list[int] = []
        end = 0
        for one in plan:
            first = one.request.num_computed - one.num_tokens
            of_prompt, complete = wanted_logits(one.request, first, one.num_tokens)
            if of_prompt:
                self._note_prompt(one.request, first, logits[end : end + of_prompt])
            end += of_prompt + complete
            if complete:
                requests.append(one.request)
                rows.append(end - 1)
                if one.forks:  # samples that fork a prompt draw from the same logits
                    requests += one.forks
                    rows += [end - 1] * len(one.forks)
        return self.choose(requests, logits if rows == list(range(len(logits))) else logits[rows])

    def choose(self, requests: Sequence[Request], logits: np.ndarray) -> list[Sampled]:
        """Choose a token for each request from its row of ``logits``, which may be overwritten."""
        if not requests:
            return []
        if logits.shape[1] > self._tokenizer.num_tokens:
            logits = logits[:, : self._tokenizer.num_tokens]
        states = [self._state(request) for request in requests]
        if all(state.plain for state in states):
            return _likeliest(requests, logits)
        logits = np.require(logits, np.float32, "W")
        telling = [row for row, state in enumerate(states) if state.params.logprobs is not None]
        kept = len(telling) < len(states) or any(state.shapes for state in states)
        raw = logits[telling] if kept and telling else logits
        self._shape(logits, requests, states)
        best = logits.argmax(axis=1)  # of a row with something that is no number that is found
        peaks = logits[np.arange(len(best)), best]
        fine = np.isfinite(peaks)
        random = np.flatnonzero(fine & ~np.fromiter((state.greedy for state in states), bool, len(states)))
        if len(random):
            best[random] = self._draw(logits, peaks, random, requests, states)
        for row, request in enumerate(requests):
            if request.begins_with and request.given_token is not None:
                best[row] = request.given_token
        tokens = [token if good else None for token, good in zip(best.tolist(), fine.tolist(), strict=True)]
        sampled = [Sampled(request, token) for request, token in zip(requests, tokens, strict=True)]
        self._tell(sampled, states, telling, raw)
        return sampled

    def _state(self, request: Request) -> SamplingState:
        state = self._states.get(request)
        if state is None:
            state = self._states[request] = SamplingState(request, self._tokenizer)
        return state

    def _shape(self, logits: np.ndarray, requests: Sequence[Request], states: Sequence[SamplingState]) -> None:
        """Everything that changes logits, in place."""
        rows = [row for row, state in enumerate(states) if state.shapes]
        if not rows:
            return

        def apply(change: Callable, wanted: Callable[[int], bool]) -> None:
            some = [row for row in rows if wanted(row)]
            if some:
                change(logits, some, [states[row] for row in some])

        apply(add_bias, lambda row: len(states[row].bias[0]) > 0)
        apply(ban_ends, lambda row: requests[row].num_output_tokens < states[row].params.min_tokens)
        for row in rows:
            if states[row].penalizes:
                states[row].counts.follow(requests[row].token_ids)
        apply(penalize, lambda row: states[row].penalizes)
        for row in rows:
            if states[row].dry:
                params, history = states[row].params, states[row].history.follow(requests[row].token_ids)
                breaks = self._breakers.of(params.dry_sequence_breakers, params.stop_token_ids)
                dry(logits[row], history, breaks, params)

    def _draw(
        self,
        logits: np.ndarray,
        peaks: np.ndarray,
        rows: np.ndarray,
        requests: Sequence[Request],
        states: Sequence[SamplingState],
    ) -> np.ndarray:
        some = [states[row] for row in rows]
        controls = np.array([(one.params.temperature, one.params.top_p, one.params.min_p) for one in some])
        filters = Filters(
            temperature=controls[:, 0].astype(np.float32),
            top_k=np.fromiter((one.top_k for one in some), np.int64, len(some)),
            top_p=controls[:, 1],
            min_p=controls[:, 2].astype(np.float32),
        )
        places = [requests[row].num_output_tokens for row in rows]
        numbers = np.fromiter(map(SamplingState.number, some, places), np.float64, len(some))
        if len(rows) == len(logits):
            return self._drawer.draw(logits, peaks, filters, numbers)
        return self._drawer.draw(logits[rows], peaks[rows], filters, numbers)

    # -- telling ------------------------------------------------------------------------------------------------

    def _tell(
        self, sampled: list[Sampled], states: Sequence[SamplingState], telling: list[int], raw: np.ndarray
    ) -> None:
        """Add errors and what the model thought of the tokens."""
        if telling:
            tokens = [sampled[row].token or 0 for row in telling]
            tops = [states[row].params.logprobs or 0 for row in telling]
            for row, logprobs in zip(telling, token_logprobs(raw, tokens, tops, self._tokenizer), strict=True):
                sampled[row].logprobs = logprobs
        for one, state in zip(sampled, states, strict=True):
            if state.prompt_logprobs:
                one.prompt_logprobs, state.prompt_logprobs = state.prompt_logprobs, []
                if None in one.prompt_logprobs[1:]:
                    one.token = None
            if one.token is None:
                one.error = NOT_A_NUMBER

    def _note_prompt(self, request: Request, first: int, logits: np.ndarray) -> None:
        """What the model thought of the prompt tokens that follow those from ``first`` on.

        A request that was preempted while its prompt was computed begins anew; what is known already is not repeated.
        """
        known = self._state(request).prompt_logprobs
        skip = max(0, len(known) - (first + 1))
        tokens = request.prompt_token_ids[first + 1 + skip : first + 1 + len(logits)]
        assert len(known) == first + 1 + skip, "a prompt whose logprobs are wanted was found in the cache"
        if tokens:
            logits = logits[skip:, : self._tokenizer.num_tokens]
            tops = [request.params.prompt_logprobs or 0] * len(tokens)
            known += token_logprobs(logits, tokens, tops, self._tokenizer)


def _likeliest(requests: Sequence[Request], logits: np.ndarray) -> list[Sampled]:
    """The token with the largest logit, for requests that ask for nothing else."""
    best = logits.argmax(axis=1)  # of a row with something that is no number that is found
    fine = np.isfinite(logits[np.arange(len(best)), best]).tolist()
    return [
        Sampled(request, token) if good else Sampled(request, None, NOT_A_NUMBER)
        for request, token, good in zip(requests, best.tolist(), fine, strict=True)
    ]
