"""The growing reply of one request: its text, and when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .detokenizer import IncrementalDetokenizer
from .request import Request
from .sampling_state import end_ids
from .types import FinishReason, RequestOutput

if TYPE_CHECKING:
    from .tokenizer import Tokenizer


class Reply:
    """Turns a request's sampled ids into text and decides when to stop."""

    def __init__(self, request: Request, tokenizer: Tokenizer, *, continues: bool = False) -> None:
        self.request = request
        self._end_ids = end_ids(request.params, tokenizer)
        self._tokenizer = tokenizer
        self._detokenizer = IncrementalDetokenizer(tokenizer, request.params.stop, continues=continues)
        self._begun = self._detokenizer.append(request.begins_with[:-1], may_stop=False)

    def take(self, token: int, output: RequestOutput) -> FinishReason | None:
        """Account for a sampled token, already the request's last one; put its text into ``output``."""
        output.text, self._begun = self._begun, ""
        if token in self._end_ids:
            return "stop"
        may_stop = self.request.num_output_tokens > self.request.params.min_tokens
        output.text += self._detokenizer.append([token], may_stop=may_stop)
        if self._detokenizer.stopped:
            return "stop"
        if self.request.num_output_tokens >= self.request.max_tokens:
            return "length"
        return None

    def history_ids(self) -> list[int] | None:
        """Ids that spell the text shown, if a stop string or one of ``stop_token_ids`` ended it; else None."""
        ids = self.request.token_ids[self.request.num_prompt_tokens :]
        if self._detokenizer.stopped:
            return self._detokenizer.history_ids(ids)
        cut = bool(ids) and ids[-1] in self._end_ids and ids[-1] not in self._tokenizer.end_ids
        return ids[:-1] if cut else None

    def rest(self, reason: FinishReason) -> str:
        """Text held back for a character or a stop string that will not come any more."""
        return "" if self._detokenizer.stopped or reason == "error" else self._detokenizer.finish()
