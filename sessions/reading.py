"""Reading the chats without being their writer: beside a server, or where nothing may be written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from .backups import look_into
from .connection import Connection
from .errors import StoreError, explained
from .pages import log_of, size_of
from .schema import check_versions, connect, missing_notice
from .versions import MIGRATION_NAMES

BUSY_S = 5.0
_NO_FILES = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that sees one state of the database ``path`` and changes nothing; a server may be writing.

    Raises:
        StoreError: there is no such file, it is of another version or another program, or it cannot be read.
    """
    with open_reader(path) as reader, reader.reading() as connection:
        yield connection


@contextmanager
def open_reader(path: Path) -> Iterator[Connection]:
    """The same as `reading` for what takes a store's reading connection: every question sees a state of its own.

    Raises:
        StoreError: there is no such file, it is of another version or another program, or it cannot be read.
    """
    if not path.is_file():
        raise StoreError(missing_notice(path, "") or f"There are no chats yet: {path} does not exist.", "unreachable")
    with explained(path), closing(_connection(path)) as connection:
        applied = check_versions(connection, path)
        if not applied:
            raise StoreError(f"There are no chats yet: {path} is empty.", "unreachable")
        if len(applied) < len(MIGRATION_NAMES):
            raise StoreError(f"{path} was written by an older pagedchat; start pagedchat once, which brings it up.")
        yield Connection(connection, path)


def _connection(path: Path) -> sqlite3.Connection:
    """Where SQLite cannot make the files that it keeps beside a database, the file alone is all if there is no log."""
    connection = None
    try:
        connection = connect(path, busy_timeout_s=BUSY_S, read_only=True)
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        return connection
    except sqlite3.OperationalError as error:
        if connection is not None:
            connection.close()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _NO_FILES or size_of(log_of(path)):
            raise
    alone = look_into(path)
    alone.row_factory = sqlite3.Row
    return alone
