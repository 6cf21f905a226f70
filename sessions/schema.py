"""Opens the database file: checks it, refuses what it must not touch, backs up and migrates.

Knows files, versions and connections; knows nothing of chats.

Order on every start: header (a newer file is refused before SQLite sees it), quick_check, versions, WAL, and then one
``BEGIN IMMEDIATE`` around the second look at the versions, the backup and the migrations, so that two starts at once
migrate one after the other.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from .errors import StoreError, backup_folder, damaged, explained
from .versions import MIGRATION_NAMES, MIGRATION_SET

APPLICATION_ID = 0x70436861
_HEADER_BYTES = 100


def connect(path: Path, *, busy_timeout_s: float, read_only: bool = False) -> sqlite3.Connection:
    """A connection in SQLite's own autocommit mode, usable from any thread (the caller serialises).

    Raises:
        sqlite3.Error: as SQLite says it.
    """
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=busy_timeout_s)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def open_database(path: Path, *, busy_timeout_s: float) -> sqlite3.Connection:
    """The checked and migrated database at ``path``, created with mode 0600 (and its folder) if it is not there.

    Raises:
        StoreError: damaged, newer than this program, another program's, read-only, full or locked. The file is
            left as it was.
    """
    with explained(path):
        _create_file(path)
        _refuse_newer(path, _header_version(path))
        connection = connect(path, busy_timeout_s=busy_timeout_s)
        try:
            _check_sound(connection, path)
            check_versions(connection, path)
            connection.execute("PRAGMA journal_mode = WAL")
            _migrate(connection, path, busy_timeout_s)
        except BaseException:
            connection.close()
            raise
        return connection


def _create_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    if os.name == "posix" and path.stat().st_mode & 0o777 != 0o600:
        with contextlib.suppress(PermissionError):
            os.chmod(path, 0o600)


def _header_version(path: Path) -> int:
    """``user_version`` as the file's first page has it; 0 for an empty file."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    return int.from_bytes(header[60:64], "big") if header.startswith(b"SQLite format 3\x00") else 0


def _refuse_newer(path: Path, version: int) -> None:
    if version > len(MIGRATION_NAMES):
        raise StoreError(
            f"The chat database {path} was written by a newer pagedchat; it was left untouched: update pagedchat, "
            "or choose another folder with --data-dir.",
            "newer",
        )


def _check_sound(connection: sqlite3.Connection, path: Path) -> None:
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict is None or verdict[0] != "ok":
        detail = verdict[0].splitlines()[-1] if verdict else "no answer from its check"
        raise damaged(path, detail)


def _applied(connection: sqlite3.Connection) -> list[str]:
    """Names of the steps the database has been through."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = '_sqlite_migrations'").fetchone()
    if found is None:
        return []
    rows = connection.execute("SELECT name FROM _sqlite_migrations WHERE migration_set = ?", [MIGRATION_SET])
    return [row[0] for row in rows]


def check_versions(connection: sqlite3.Connection, path: Path) -> list[str]:
    """The applied steps, after refusing a newer database or another program's."""
    _refuse_newer(path, connection.execute("PRAGMA user_version").fetchone()[0])
    applied = _applied(connection)
    if not set(applied) <= set(MIGRATION_NAMES):
        _refuse_newer(path, len(MIGRATION_NAMES) + 1)
    if not applied and connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
        raise StoreError(
            f"The file {path} is a database of another program; it was left untouched: move it elsewhere, "
            "or choose another folder with --data-dir.",
            "foreign",
        )
    return applied


def _migrate(connection: sqlite3.Connection, path: Path, busy_timeout_s: float) -> None:
    if len(_applied(connection)) == len(MIGRATION_NAMES):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        applied = check_versions(connection, path)
        if len(applied) < len(MIGRATION_NAMES):
            if applied:
                _back_up(path, len(applied), busy_timeout_s)
            _apply(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _apply(connection: sqlite3.Connection) -> None:
    from sqlite_utils import Database

    from .migrations import migrations

    migrations.apply(Database(connection))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {len(MIGRATION_NAMES)}")


def _back_up(path: Path, version: int, busy_timeout_s: float) -> Path:
    """A whole copy beside the database, taken by a second connection while the first holds the write lock."""
    folder = backup_folder(path)
    folder.mkdir(exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    target = folder / f"{path.stem}-{stamp}-version-{version}.db"
    part = target.with_suffix(".part")
    part.unlink(missing_ok=True)
    reader = connect(path, busy_timeout_s=busy_timeout_s)
    try:
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        reader.execute("VACUUM INTO ?", [str(part)])
        part.replace(target)
    finally:
        reader.close()
        part.unlink(missing_ok=True)
    return target
