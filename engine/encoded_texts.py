"""Texts that were tokenized lately: a history that comes back as text, turn after turn, is not tokenized again."""

from __future__ import annotations

from array import array
from collections import OrderedDict

SHORTEST = 200
"""Characters; shorter texts are tokenized in no time."""
KEPT_CHARACTERS = 1 << 20

Encoded = tuple[list[int], list[int]]
"""Ids, and for each where in the text it ends."""


class EncodedTexts:
    """Keeps the newest texts with their ids, `KEPT_CHARACTERS` in all."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, bool], tuple[array[int], array[int]]] = OrderedDict()
        self._characters = 0

    def find(self, text: str, at_start: bool) -> Encoded | None:
        """What the text became, in lists of the caller's own; None if it is not kept.

        Args:
            at_start: whether it begins a prompt, which may give it other ids.
        """
        found = self._kept.get((text, at_start))
        if found is None:
            return None
        self._kept.move_to_end((text, at_start))
        ids, ends = found
        return ids.tolist(), ends.tolist()

    def keep(self, text: str, at_start: bool, encoded: Encoded) -> None:
        """Keep a text that was not found, unless it is short or longer than all that may be kept."""
        if not SHORTEST <= len(text) <= KEPT_CHARACTERS:
            return
        ids, ends = encoded
        self._kept[text, at_start] = array("i", ids), array("i", ends)
        self._characters += len(text)
        while self._characters > KEPT_CHARACTERS:
            (oldest, _), _ = self._kept.popitem(last=False)
            self._characters -= len(oldest)

    def forget(self) -> None:
        """Keep nothing any more."""
        self._kept.clear()
        self._characters = 0
