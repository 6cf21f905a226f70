"""The writing connection: one transaction at a time, each as durable as its content deserves."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import explained


class Connection:
    """A SQLite connection behind a lock, shared by threads.

    Attributes:
        commits: transactions committed so far.
    """

    def __init__(self, raw: sqlite3.Connection, path: Path) -> None:
        self._raw = raw
        self._path = path
        self._lock = threading.RLock()
        self._durable: bool | None = None
        self.commits = 0

    @contextmanager
    def transaction(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        """Everything inside or nothing of it, begun with ``BEGIN IMMEDIATE``.

        Args:
            durable: wait until the disk has it (``synchronous=FULL``). Otherwise it survives a killed process, but
                perhaps not a power cut.

        Raises:
            StoreError: when SQLite or the disk refuses.
        """
        with self._lock, explained(self._path):
            if self._durable != durable:
                self._raw.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            self._raw.execute("BEGIN IMMEDIATE")
            try:
                yield self._raw
                self._raw.execute("COMMIT")
            except BaseException:
                if self._raw.in_transaction:
                    self._raw.execute("ROLLBACK")
                raise
            self.commits += 1

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The queries inside see one state of the database.

        Raises:
            StoreError: when SQLite or the disk refuses.
        """
        with self._lock, explained(self._path):
            self._raw.execute("BEGIN")
            try:
                yield self._raw
            finally:
                if self._raw.in_transaction:
                    self._raw.execute("ROLLBACK")

    def shorten_log(self) -> None:
        """Fold the log into the file and cut it to nothing, so that no old page is left in it.

        Where another program is reading, the log stays until the next write.
        """
        with self._lock, explained(self._path):
            self._raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close it; a second call does nothing."""
        with self._lock:
            self._raw.close()
