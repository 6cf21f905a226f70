"""The file that takes what the engine process prints: appended to, and rotated also while that process runs."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

LOG_BYTES = 5 << 20
LOOK_EVERY_S = 10.0


class ChildLog:
    """One log and the one before it (``engine.log.1``), about ``LOG_BYTES`` each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._next_look = 0.0

    def open(self) -> IO[bytes]:
        """The file for a child to append to.

        Raises:
            OSError: it cannot be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._rotate()
        return self._path.open("ab")

    def look(self) -> None:
        """Called often; every few seconds looks whether the file has grown too large."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_EVERY_S
            self._rotate()

    def _rotate(self) -> None:
        """The child holds the file open, so it is emptied, not renamed; appending goes on at its new end."""
        with suppress(OSError):
            if self._path.is_file() and self._path.stat().st_size > LOG_BYTES:
                shutil.copyfile(self._path, self._path.with_name(self._path.name + ".1"))
                os.truncate(self._path, 0)
