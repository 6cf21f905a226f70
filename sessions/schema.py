"""Opens the database file: checks it, refuses what it must not touch, backs up and migrates.

Knows files, versions and connections; knows nothing of chats.

Order on every start: a replacement that a kill interrupted is carried out; the last committed header is read as bytes,
from file and log, so that a newer database or another program's is refused before SQLite could make or change a file;
check, versions, WAL; and then one ``BEGIN IMMEDIATE`` around the second look at the versions, the backup and the
migrations, so that two starts at once migrate one after the other.

The check reads every page: 0.8 s for 400 MB that lie in memory. Up to 64 MB it is made on every start. Beyond that
after an end that was not clean (its log is still there), before a migration, and when the last one is a day old; a
clean end leaves a file that only the disk could have changed since. A file that was cut short, or whose schema cannot
be read, is noticed on every start.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from .backups import back_up, copies, described, look_into, rotate
from .errors import StoreError, backup_folder, damaged, explained, restore_command
from .pages import Header, log_of, newest_header, real, size_of
from .replacing import finish_replacing
from .versions import MIGRATION_NAMES, MIGRATION_SET

ALWAYS_CHECKED_BYTES = 64 << 20
CHECK_EVERY = timedelta(days=1)
APPLICATION_ID = 0x70436861
_CHECKED_AT = "checked_at"


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
        finish_replacing(path)
        _create_file(path)
        place = real(path)
        _refuse_unusable(path)
        _narrow(path)
        checked = _check_after_a_kill(path, busy_timeout_s)
        connection = connect(path, busy_timeout_s=busy_timeout_s)
        try:
            if not checked and _needs_whole_check(connection, place):
                refuse_damaged(connection, path)
                checked = True
            check_versions(connection, path)
            connection.execute("PRAGMA journal_mode = WAL")
            _migrate(connection, path)
            if checked and size_of(place) > ALWAYS_CHECKED_BYTES:
                _note_check(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def memory_database() -> sqlite3.Connection:
    """An empty database in the memory of this process: no file, not even a temporary one, holds anything of it."""
    connection = connect(Path(":memory:"), busy_timeout_s=0)
    connection.execute("PRAGMA temp_store = MEMORY")
    _apply(connection)
    return connection


def missing_notice(path: Path, meanwhile: str = ", so the list of chats begins empty") -> str | None:
    """What to tell when there is no database where one was: backups or attachments lie beside it.

    Raises:
        StoreError: the folder cannot be looked into.
    """
    with explained(path):
        if size_of(real(path)):
            return None
    if (held := _copies_held(path)) is not None:
        return f"{path} is missing{meanwhile}, but {held}"
    with contextlib.suppress(OSError):
        if any((path.parent / "attachments").iterdir()):
            return (
                f"{path} is missing{meanwhile}, but files that were sent with chats are still "
                "there: if you moved the database, end pagedchat and put it back."
            )
    return None


def empty_notice(connection: sqlite3.Connection, path: Path) -> str | None:
    """What to tell when the database has no chat at all, but its copies have, as on the starts after a missing one."""
    if connection.execute("SELECT 1 FROM sessions").fetchone() is not None:
        return None
    held = _copies_held(path)
    return f"{path} holds no chats, but {held}" if held is not None else None


def _copies_held(path: Path) -> str | None:
    """Names the copies, if any of them has messages or cannot be looked into."""
    found = [one for one in map(described, copies(path)) if one.messages or one.problem]
    if not found:
        return None
    count = "1 copy" if len(found) == 1 else f"{len(found)} copies"
    return f"{backup_folder(path)} holds {count} of it with chats: {restore_command(path)} lists them."


def upgrade_notice(path: Path) -> str | None:
    """What to tell before a large database of an older version is opened, which takes a while; else None."""
    with contextlib.suppress(OSError):
        place = real(path)
        header = newest_header(place)
        if header is None or header.application_id != APPLICATION_ID:
            return None
        if 0 < header.user_version < len(MIGRATION_NAMES) and size_of(place) > ALWAYS_CHECKED_BYTES:
            return (
                "the chats are copied, then brought up to this version; that takes about a minute for each GiB "
                f"({size_of(place) / (1 << 30):.1f} GiB here)"
            )
    return None


def refuse_strange(file: Path, path: Path, header: Header | None) -> None:
    """Refuse what is no database of ours, or a newer one, without a lock and without changing anything.

    Args:
        file: what is looked at; ``path`` is what the sentence names.

    Raises:
        StoreError: damaged, foreign or newer.
    """
    if header is None:
        raise damaged(path, "it does not begin as a database does")
    if header.application_id != APPLICATION_ID:
        with closing(look_into(file)) as connection:
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
                raise _foreign(path)
    _refuse_newer(path, header.user_version)


def refuse_damaged(connection: sqlite3.Connection, path: Path) -> None:
    """Check every page.

    Raises:
        StoreError: it is damaged.
    """
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict is None or verdict[0] != "ok":
        detail = verdict[0].splitlines()[-1] if verdict else "no answer from its check"
        raise damaged(path, detail)


def _create_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _narrow(path: Path) -> None:
    if os.name == "posix" and path.stat().st_mode & 0o777 != 0o600:
        with contextlib.suppress(PermissionError):
            os.chmod(path, 0o600)


def _refuse_unusable(path: Path) -> None:
    place = real(path)
    if size_of(place):
        refuse_strange(place, path, newest_header(place))
    elif size_of(log_of(place)):
        raise damaged(path, "it is empty, though its log is not")


def _refuse_newer(path: Path, version: int) -> None:
    if version > len(MIGRATION_NAMES):
        raise StoreError(
            f"The chat database {path} was written by a newer pagedchat; it was left untouched: update pagedchat, "
            "or choose another folder with --data-dir.",
            "newer",
        )


def _foreign(path: Path) -> StoreError:
    return StoreError(
        f"The file {path} is a database of another program; it was left untouched: move it elsewhere, "
        "or choose another folder with --data-dir.",
        "foreign",
    )


def _check_after_a_kill(path: Path, busy_timeout_s: float) -> bool:
    """Check file and log as they lie there, if there is a log; a writer that closes would first fold it in."""
    place = real(path)
    if not size_of(log_of(place)):
        return False
    with closing(sqlite3.connect(f"{place.as_uri()}?mode=ro", uri=True, timeout=busy_timeout_s)) as connection:
        refuse_damaged(connection, path)
    return True


def _needs_whole_check(connection: sqlite3.Connection, place: Path) -> bool:
    if size_of(place) <= ALWAYS_CHECKED_BYTES or len(_applied(connection)) < len(MIGRATION_NAMES):
        return True
    row = connection.execute("SELECT value FROM state WHERE key = ?", [_CHECKED_AT]).fetchone()
    try:
        age = datetime.now(UTC) - datetime.fromisoformat(row[0])
    except (TypeError, ValueError):
        return True
    return not timedelta(0) <= age < CHECK_EVERY


def _note_check(connection: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.OperationalError):  # locked: the next start checks again
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", [_CHECKED_AT, moment])


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
        raise _foreign(path)
    return applied


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if len(_applied(connection)) == len(MIGRATION_NAMES):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        applied = check_versions(connection, path)
        if len(applied) < len(MIGRATION_NAMES):
            if applied:
                back_up(path, "version", version=len(applied))
            _apply(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    with contextlib.suppress(OSError):
        rotate(path)


def _apply(connection: sqlite3.Connection) -> None:
    with _left_out("pandas", "numpy"):
        from sqlite_utils import Database

        from .migrations import migrations

    migrations.apply(Database(connection))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {len(MIGRATION_NAMES)}")


@contextlib.contextmanager
def _left_out(*names: str) -> Iterator[None]:
    """Those of the modules that are not loaded cannot be imported within: sqlite-utils would take them along, and a
    first start with them half a second."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # pyright: ignore[reportArgumentType, reportCallIssue]
    try:
        yield
    finally:
        for name in hidden:
            if sys.modules.get(name) is None:
                sys.modules.pop(name, None)
