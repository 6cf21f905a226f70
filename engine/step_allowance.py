"""How long a step may take before it counts as hanging, told to the parent's watchdog when the step begins."""

from __future__ import annotations

import time

FIRST_STEPS = 3
FIRST_FACTOR = 9
"""The first steps compile kernels: they may take ten times the timeout."""
FEW_TOKENS = 64
SECONDS_PER_TOKEN = 0.5
"""Where no step has been measured yet; slower than any machine that one would chat on."""
FACTOR = 8
"""A step of many tokens may take so many times what the slowest one took for each token."""
FACTOR_OF_FEW = 2
"""The same by steps of few tokens, where none of many has been measured: a token among many takes less time."""


class StepAllowance:
    """Measures the steps of one engine.

    Args:
        timeout_s: what the watchdog grants every step.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._steps = 0
        self._slowest: float | None = None
        self._slowest_of_few: float | None = None
        self._tokens = 0
        self._begun = 0.0

    def begin(self, num_tokens: int) -> float | None:
        """A step of so many tokens begins: seconds it may take beyond the timeout; None for an ordinary one."""
        self._tokens, self._begun = num_tokens, time.monotonic()
        self._steps += 1
        if self._steps <= FIRST_STEPS:
            return FIRST_FACTOR * self._timeout_s
        if num_tokens <= FEW_TOKENS:
            return None
        if self._slowest is not None:
            return FACTOR * self._slowest * num_tokens
        rate = SECONDS_PER_TOKEN if self._slowest_of_few is None else FACTOR_OF_FEW * self._slowest_of_few
        return rate * num_tokens

    def end(self) -> None:
        """The step is done."""
        if not self._tokens:
            return
        rate = (time.monotonic() - self._begun) / self._tokens
        if self._tokens <= FEW_TOKENS:
            self._slowest_of_few = max(rate, self._slowest_of_few or 0.0)
        elif self._steps > FIRST_STEPS:
            self._slowest = max(rate, self._slowest or 0.0)
        self._tokens = 0
