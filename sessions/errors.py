"""What can go wrong in the session floor, in sentences for the user."""

from __future__ import annotations

import errno
import shlex
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from ..engine.errors import PagedChatError

_NAMED = 12  # names in a sentence

StoreProblem = Literal["damaged", "newer", "foreign", "readonly", "full", "busy", "unreachable", "other"]


class SessionError(PagedChatError):
    """Something was asked of a chat or a message that it cannot do."""


class StoreError(PagedChatError):
    """The database could not be opened, read or written.

    Attributes:
        problem: the kind of trouble; "full" and "busy" pass, so that the same write is worth another try.
    """

    def __init__(self, sentence: str, problem: StoreProblem = "other") -> None:
        super().__init__(sentence)
        self.problem: StoreProblem = problem


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the file system into a StoreError that names ``path``."""
    try:
        yield
    except sqlite3.Error as error:
        raise _from_sqlite(path, error) from error
    except OSError as error:
        raise _from_system(path, error) from error


def there_are(names: Iterable[str]) -> str:
    """A clause that names what there is."""
    shown = [f'"{one}"' for one in names]
    if not shown:
        return "there is none yet"
    more = ", …" if len(shown) > _NAMED else ""
    return f"there {'are' if len(shown) > 1 else 'is'} {', '.join(shown[:_NAMED])}{more}"


def damaged(path: Path, detail: str) -> StoreError:
    """The error for a file whose content is not a sound database. Backups are named if there are any."""
    salvage = f"{restore_command(path, '--salvage')} brings back what can be read of it"
    if _has_backup(backup_folder(path)):
        salvage = f"{restore_command(path)} lists the copies in {backup_folder(path)}, and {salvage}"
    return StoreError(f"The chat database {path} is damaged ({detail}); nothing was changed: {salvage}.", "damaged")


def restore_command(path: Path, *words: str) -> str:
    """The command, between backticks, that restores the database ``path``, whichever folder is the usual one."""
    return f"`{shlex.join(['pagedchat', 'sessions', 'restore', *words, '--data-dir', str(path.parent)])}`"


def backup_folder(path: Path) -> Path:
    """Where copies of the database ``path`` are kept; it need not exist."""
    return path.parent / "backups"


def _has_backup(folder: Path) -> bool:
    try:
        return any(one.stat().st_size for one in folder.glob("*.db"))
    except OSError:
        return False


def _from_sqlite(path: Path, error: sqlite3.Error) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return damaged(path, str(error))
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _no_room(path)):
        return _full(path)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(
            f"The chat database {path} is locked by another program; close that program and try again.", "busy"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return _readonly(path)
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreError(
            f"The chat database {path} cannot be opened: check that its folder exists and may be written to, "
            "or choose another one with --data-dir.",
            "unreachable",
        )
    return StoreError(f"The chat database {path} could not be used: {error}; check the disk it lies on and its limits.")


def _from_system(path: Path, error: OSError) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(path)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return _readonly(path)
    reason = error.strerror or str(error)
    return StoreError(
        f"The chat database {path} cannot be reached: {reason}; choose another folder with --data-dir.", "unreachable"
    )


def _no_room(path: Path) -> bool:
    """Whether not even one of SQLite's shared-memory pages fits: it reports that as an I/O error."""
    try:
        return shutil.disk_usage(path.parent).free < 1 << 15
    except OSError:
        return False


def _full(path: Path) -> StoreError:
    return StoreError(f"The disk that holds {path} is full; free some space, nothing stored so far is lost.", "full")


def _readonly(path: Path) -> StoreError:
    return StoreError(
        f"The chat database {path} or its folder cannot be written to; change its permissions, "
        "or choose another folder with --data-dir.",
        "readonly",
    )
