"""Brings a copy back, or what can be read of a damaged file, in the place of the database.

What lay there is put aside among the backups (see ``replacing``), so that a restore can itself be undone. The caller
holds the data folder's lock: no server runs on it.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections import deque
from contextlib import closing
from pathlib import Path

from .backups import copies, described, look_into
from .errors import StoreError, explained, restore_command
from .pages import HEADER_BYTES, Header, log_of, real, size_of
from .replacing import finish_replacing, fold, part_of, put_in_place, remove_part
from .salvage import SalvageReport, salvage
from .schema import check_versions, refuse_damaged, refuse_strange


def find_backup(path: Path, name: str) -> Path:
    """The copy of the database ``path`` that ``name`` means: a file, a name in ``backups``, or ``latest`` (of those
    that can be read, leaving out what a restore put aside).

    Raises:
        StoreError: there is none, or several names begin so.
    """
    found = copies(path)
    if name == "latest":
        usable = (one for one in map(described, found) if one.kind != "replaced" and one.problem is None)
        found = [one.path for one in usable][:1]
    elif Path(name).is_file():
        return Path(name)
    else:
        exact = [one for one in found if one.name in (name, f"{name}.db")]
        found = exact or [one for one in found if one.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    reason = f"{len(found)} backups begin with {name}" if found else f"There is no backup {name} of {path}"
    if name == "latest":
        reason = f"There is no backup of {path} that can be read"
    raise StoreError(f"{reason}; {restore_command(path)} lists them.", "unreachable")


def restore(path: Path, backup: Path) -> Path | None:
    """Put a copy in the place of the database ``path``. A copy of an older version migrates at the next start.

    Returns:
        Where the database that lay there is now; None if there was none.

    Raises:
        StoreError: the copy is damaged, newer or no database of pagedchat, or there is no room. Nothing is changed.
    """
    place = real(path)
    with explained(path):
        finish_replacing(place)
    part = part_of(place)
    try:
        with explained(backup):
            if not backup.is_file():
                raise StoreError(f"There is no file {backup}; {restore_command(path)} lists the backups.")
            shutil.copyfile(backup, part)
            part.chmod(0o600)
            if size_of(log_of(backup)):
                shutil.copyfile(log_of(backup), log_of(part))
            fold(part)
            _refuse_unusable(part, backup)
        return put_in_place(path, part)
    except StoreError as error:
        if error.problem != "damaged":
            raise
        reason = f"The copy {backup} is damaged; nothing was changed: {restore_command(path)} lists the others."
        raise StoreError(reason, "damaged") from error
    finally:
        remove_part(part)


def restore_salvaged(path: Path) -> tuple[SalvageReport, Path | None]:
    """Salvage the damaged database ``path`` and put what could be read in its place.

    Returns:
        What was read and lost, and where the damaged file is now.

    Raises:
        StoreError: it is not damaged, nothing could be read, or there is no room. Nothing is changed.
    """
    part = part_of(real(path))
    try:
        with explained(path):
            if _is_sound(real(path), part):
                raise StoreError(f"The chat database {path} is not damaged; there is nothing to salvage.")
        report = salvage(path, part)
        return report, put_in_place(path, part)
    finally:
        remove_part(part)


def _is_sound(place: Path, copy: Path) -> bool:
    """Whether every page, every row and the search index of a database with chats can be read, tried on a copy."""
    with contextlib.suppress(sqlite3.DatabaseError, StoreError):
        if not size_of(place):
            return False
        shutil.copyfile(place, copy)
        copy.chmod(0o600)
        if size_of(log_of(place)):
            shutil.copyfile(log_of(place), log_of(copy))
        fold(copy)
        with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            refuse_damaged(connection, place)
            if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
                return False
            tables = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
            for name, how in tables:
                deque(connection.execute(f'SELECT * FROM "{name}"'), maxlen=0)
                if "using fts5" in how.lower():
                    connection.execute(f'INSERT INTO "{name}" ("{name}") VALUES (\'integrity-check\')')
            return connection.execute("SELECT 1 FROM sessions").fetchone() is not None
    return False


def _refuse_unusable(part: Path, backup: Path) -> None:
    with part.open("rb") as file:
        header = Header.read(file.read(HEADER_BYTES))
    refuse_strange(part, backup, header)
    with closing(look_into(part)) as connection:
        refuse_damaged(connection, backup)
        check_versions(connection, backup)
