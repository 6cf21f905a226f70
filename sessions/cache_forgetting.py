"""Tells the engine to forget chats that are gone. Nothing here ever fails or waits long: a deletion is the store's.

An engine that is not there has nothing to forget: a new one begins with an empty cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from ..engine.errors import PagedChatError

WAIT_S = 0.5
RETRY_S = 0.5
ATTEMPTS = 20
_log = logging.getLogger(__name__)


class CacheForgetting:
    """Chats that the engine is to forget.

    Args:
        engine: an ``EngineClient`` or what behaves like one.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._tasks: set[asyncio.Task[None]] = set()

    async def forget(self, session_ids: Iterable[str]) -> None:
        """Have the cached blocks of chats dropped that nobody else has; their replies have been stopped.

        Returns when that is done, or after half a second: a busy engine does it between two of its steps.
        """
        tasks = {asyncio.get_running_loop().create_task(self._forget(one)) for one in session_ids}
        self._tasks |= tasks
        for task in tasks:
            task.add_done_callback(self._tasks.discard)
        if tasks:
            await asyncio.wait(tasks, timeout=WAIT_S)

    def close(self) -> None:
        """The engine is about to end, and its cache with it."""
        for task in self._tasks:
            task.cancel()

    async def _forget(self, session_id: str) -> None:
        for _ in range(ATTEMPTS):
            if self._engine.status.state != "ready":
                return
            try:
                await self._engine.forget(session_id)
                return
            except PagedChatError:
                await asyncio.sleep(RETRY_S)
            except Exception:
                _log.exception("A chat could not be taken out of the cache.")
                return
        _log.warning("The engine did not take a deleted chat out of its cache.")
