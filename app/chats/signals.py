"""Ctrl+C and the end of a chat in a terminal: what a signal means depends on what is going on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..chat_calls import Events

INTERRUPT = "interrupt"
"""Type of the event that Ctrl+C puts among those of a reply."""


class Ended(BaseException):
    """Somebody asked the program to end (SIGTERM, a closed terminal)."""


class Signals:
    """Takes Ctrl+C and the signals that end, from now on.

    While a reply is followed Ctrl+C is one more event, so that nothing is torn; elsewhere it is a KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self._events: Events | None = None
        for name, handler in (("SIGINT", self._interrupt), ("SIGTERM", self._end), ("SIGHUP", self._end)):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, handler)

    @contextmanager
    def into(self, events: Events) -> Iterator[None]:
        """Ctrl+C is an event of ``events`` while the context lasts."""
        self._events = events
        try:
            yield
        finally:
            self._events = None

    def _interrupt(self, number: int, frame: Any) -> None:
        if self._events is None:
            raise KeyboardInterrupt
        self._events.put({"type": INTERRUPT})

    def _end(self, number: int, frame: Any) -> None:
        for one in ("SIGTERM", "SIGHUP", "SIGINT"):  # once is enough: what is saved now must not be cut off
            if hasattr(signal, one):
                signal.signal(getattr(signal, one), signal.SIG_IGN)
        raise Ended
