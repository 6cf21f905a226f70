"""Tells any number of followers what changed; a follower that fails does not hurt the others."""

from __future__ import annotations

import logging
from collections.abc import Callable

from .views import View

Follower = Callable[[View], None]
_log = logging.getLogger(__name__)


class Followers:
    """Callbacks that get every event, in the order they happened."""

    def __init__(self) -> None:
        self._callbacks: list[Follower] = []

    def subscribe(self, callback: Follower) -> Callable[[], None]:
        """Add a callback; the returned function removes it, and may be called twice."""
        self._callbacks.append(callback)

        def unsubscribe() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return unsubscribe

    def tell(self, event: View) -> None:
        """Pass an event on."""
        for callback in tuple(self._callbacks):
            try:
                callback(event)
            except Exception:
                _log.exception("A follower of the chat events failed.")
