"""How much of a prompt a step computes beside replies that are being written, so that these go on at a steady pace.

    a step of replies alone      ■■■■■                     at its pace
    with a chunk of a prompt     ■■■■■□□□□□□□□□□           about `LONGER` times as long at most, or `UNNOTICED_S`

Knows seconds that steps took, no model: the same rule holds on any machine, for any context, whatever kernels run.
"""

from __future__ import annotations

from collections import deque
from statistics import median

LONGER = 5
"""Less would make chunks so small that what a step costs at all, however few its rows, holds the prompt up."""
UNNOTICED_S = 0.02
"""Fifty tokens a second are faster than anybody reads."""
LEAST_TOKENS = 16
"""A prompt gets on, whatever a token of it takes."""
ROWS = 8
"""Kernels take several rows in the time of one: a step's rows are a multiple of it, the nearest one."""
KEPT_OF_REPLIES = 9
KEPT_OF_PROMPTS = 3
"""Few, for a token takes longer the more context is before it."""


class StepPace:
    """Measures the steps of one engine and says how long a chunk may be.

    Times are medians of the newest ones, so that a step in which the machine was busy with something else changes
    little.
    """

    def __init__(self) -> None:
        self._replies: dict[int, deque[float]] = {}
        self._token_s: deque[float] = deque(maxlen=KEPT_OF_PROMPTS)
        self._planned = (0, 0)

    def most_tokens(self, num_replies: int) -> int | None:
        """Tokens of prompts that may be in a step with the next tokens of so many replies; None for any number, where
        nobody waits or nothing has been measured."""
        alone = self._alone_s(num_replies)
        if alone is None or not self._token_s:
            return None
        token_s = median(self._token_s)
        if token_s <= 0:
            return None
        room_s = max(LONGER * alone, UNNOTICED_S) - alone
        rows = round((room_s / token_s + num_replies) / ROWS) * ROWS
        return max(LEAST_TOKENS, rows - num_replies)

    def planned(self, num_replies: int, num_tokens: int) -> None:
        """The next step computes a token each of so many replies, and ``num_tokens`` tokens of prompts."""
        self._planned = (num_replies, num_tokens)

    def took(self, seconds: float) -> None:
        """The step that was planned is done."""
        num_replies, num_tokens = self._planned
        if not num_tokens:
            self._replies.setdefault(num_replies, deque(maxlen=KEPT_OF_REPLIES)).append(seconds)
            return
        alone = self._alone_s(num_replies) or 0.0
        self._token_s.append(max(0.0, seconds - alone) / num_tokens)

    def _alone_s(self, num_replies: int) -> float | None:
        """Seconds of a step of so many replies alone, or of the most that are no more; of the fewest if there are
        none."""
        if not num_replies or not self._replies:
            return None
        known = self._replies.get(num_replies)
        if known is None:
            fewer = [count for count in self._replies if count < num_replies]
            known = self._replies[max(fewer) if fewer else min(self._replies)]
        return median(known)
