"""Text of a reply while it grows: safe for UTF-8, with stop strings that may span tokens.

    ids ──bytes──> UTF-8 decoder ──text──> held back while it may begin a stop string ──> delta
                   (keeps a half character)

Joined deltas are `Tokenizer.decode` of all ids. Knows nothing of requests; end ids are the engine's matter.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

_UTF8 = codecs.getincrementaldecoder("utf-8")


class IncrementalDetokenizer:
    """Turns the ids of one reply into deltas.

    Args:
        stop: texts that end the reply; none of them is shown, nor anything after.
        continues: the reply goes on where an earlier one was cut, so a leading space is part of the text.

    Attributes:
        stopped: a stop string has been met; further ids are ignored.
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = (), *, continues: bool = False) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._decoder = _UTF8("ignore")
        self._strip_space = tokenizer.strips_leading_space and not continues
        self._held = ""
        self._shown = 0
        self._parts: list[str] = []
        # Characters that the first i + 1 ids reach into, a half character counted whole.
        self._reach: list[int] = []
        self._rest = ""
        self._kept: int | None = None
        self.stopped = False

    def append(self, ids: Iterable[int], *, may_stop: bool = True) -> str:
        """Take new ids and return the text that is now certain; empty while a character or a stop is incomplete.

        Without ``may_stop`` a stop string that these ids complete is text like any other.
        """
        shown = []
        for number in ids:
            if self.stopped:
                break
            shown.append(self._append_one(number, may_stop))
        return "".join(shown)

    def finish(self) -> str:
        """Return what was held back, once no ids will follow; half a character is dropped."""
        if self.stopped:
            return ""
        text = self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        self._shown += len(text)
        return text

    @property
    def text_token_count(self) -> int:
        """Ids whose text lies wholly before the stop string; all of them while there was none."""
        return len(self._reach) if self._kept is None else self._kept

    def history_ids(self, ids: Sequence[int]) -> list[int]:
        """Ids that spell exactly the text shown, for the history of the chat.

        ``ids`` are those given to `append`. Where a stop string begins inside a token, that token's share of the text
        is encoded anew.
        """
        kept = list(ids[: self.text_token_count])
        return kept + (self._tokenizer.encode(self._rest) if self._rest else [])

    def _append_one(self, number: int, may_stop: bool) -> str:
        before = len(self._held)
        self._held += self._decode(number)
        half = 1 if self._decoder.getstate()[0] else 0
        self._reach.append(self._shown + len(self._held) + half)
        if not self._stop:
            return self._show(len(self._held))
        new = [(text, max(0, before - len(text) + 1)) for text in self._stop]  # what was held holds no whole one
        starts = [place for text, first in new if (place := self._held.find(text, first)) >= 0]
        if starts and may_stop:
            return self._end_at(min(starts))
        return self._show(len(self._held) - self._possible_stop())

    def _decode(self, number: int) -> str:
        if number in self._tokenizer.hidden_ids:
            return ""
        text = self._decoder.decode(self._tokenizer.token_bytes(number))
        if self._strip_space and text:
            self._strip_space = False
            text = text.removeprefix(" ")
        return text

    def _show(self, count: int) -> str:
        text, self._held = self._held[:count], self._held[count:]
        self._shown += count
        if self._stop:
            self._parts.append(text)
        return text

    def _end_at(self, place: int) -> str:
        text = self._show(place)
        self.stopped = True
        self._held = ""
        self._kept = sum(1 for reach in self._reach if reach <= self._shown)
        covered = self._reach[self._kept - 1] if self._kept else 0
        self._rest = "".join(self._parts)[covered:]
        return text

    def _possible_stop(self) -> int:
        """Length of the longest end of the held text that begins a stop string."""
        longest = max(len(text) for text in self._stop) - 1
        for length in range(min(longest, len(self._held)), 0, -1):
            end = self._held[-length:]
            if any(text.startswith(end) for text in self._stop):
                return length
        return 0
