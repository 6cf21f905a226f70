"""Daily copies of the chats while the server runs."""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import partial
from pathlib import Path

from ..sessions.backups import daily_backup
from ..sessions.errors import StoreError
from .background import in_thread
from .terminal import say

FIRST_LOOK_S = 10.0
"""After the page is there: a copy of 400 MB takes a core and the disk for 2 s."""
LOOK_EVERY_S = 3600.0
_log = logging.getLogger(__name__)


class BackupWatch:
    """Looks every hour whether a copy is due (see ``sessions.backups``); says once what keeps it from being made."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._told = ""

    async def run(self) -> None:
        """Until it is cancelled; a copy that is being made then is given up, and its half removed later."""
        await asyncio.sleep(FIRST_LOOK_S)
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> Path | None:
        """Make a copy if one is due; returns where it is."""
        try:
            made = await in_thread(partial(daily_backup, self._database))
        except (StoreError, OSError) as error:
            problem = error.problem if isinstance(error, StoreError) else "other"
            if problem != self._told:
                self._told = problem
                say(f"pagedchat: {error}", sys.stderr)
                _log.warning("%s", error)
            return None
        self._told = ""
        if made is not None:
            _log.info("the chats were copied to %s", made)
        return made
