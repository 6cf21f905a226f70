"""Notices an engine process that owes an answer and gets nowhere: a deadlock, an endless loop, a stopped process.

Every line from the child is progress. A step that may take long is announced with the seconds it may take beyond the
timeout (see ``WorkerLoop``): many tokens on a slow machine, kernels that are compiled. Loading a model is not watched,
for nobody can say how long a disk takes.

Time is counted in ticks, each of which counts for two at most, so a machine that sleeps, or a parent that was held up
itself, lets no time pass here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

TICK_S = 1.0


class Watchdog:
    """Watches one child.

    Args:
        timeout_s: seconds without progress that are too many; 0 for never.
        owes: whether the child owes an answer now.
        on_hang: called once with the seconds that have passed.
    """

    def __init__(self, timeout_s: float, owes: Callable[[], bool], on_hang: Callable[[float], None]) -> None:
        self._timeout_s = timeout_s
        self._owes = owes
        self._on_hang = on_hang
        self._tick_s = min(TICK_S, timeout_s / 10)
        self._allowance_s = 0.0
        self._quiet_s = 0.0
        self._task: asyncio.Task[None] | None = None

    def asked(self) -> None:
        """The child was asked something."""
        if self._timeout_s and self._task is None:
            self._quiet_s = 0.0
            self._task = asyncio.get_running_loop().create_task(self._watch())

    def heard(self, allowance_s: float = 0.0) -> None:
        """The child said something; what follows may take ``allowance_s`` longer than the timeout."""
        self._quiet_s = 0.0
        self._allowance_s = allowance_s

    def close(self) -> None:
        """Watch no longer."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._timeout_s = 0.0

    async def _watch(self) -> None:
        before = time.monotonic()
        while self._owes():
            await asyncio.sleep(self._tick_s)
            now = time.monotonic()
            self._quiet_s += min(now - before, 2 * self._tick_s)
            before = now
            if self._quiet_s > self._timeout_s + self._allowance_s:
                if self._owes():
                    self._on_hang(self._quiet_s)
                break
        self._task = None
