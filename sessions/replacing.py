"""Puts another database in a database's place, and what lay there aside, so that a kill at any step loses nothing.

::

    sessions.db.part   being made: a leftover of it counts for nothing
    sessions.db.new    whole, checked and on disk: from here the change is carried out, now or at the next start
        1. sessions.db-wal, sessions.db  -> backups/…-replaced.db(-wal)      each a rename
        2. sessions.db.new               -> sessions.db

The caller holds the data folder's lock: no server runs on it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from .backups import new_copy, sync_file, sync_folder
from .errors import explained
from .pages import log_of, real, size_of


def put_in_place(path: Path, fresh: Path) -> Path | None:
    """Make ``fresh``, a sound database in the same folder, the database ``path``.

    Returns:
        Where the database that lay there is now; None if there was none.
    """
    place = real(path)
    with explained(path):
        with contextlib.suppress(sqlite3.Error):
            if _is_sound(place):  # a damaged one is put aside with its log
                fold(place)
        sync_file(fresh)
        os.replace(fresh, _whole(place))
        sync_folder(place.parent)
        return finish_replacing(place)


def finish_replacing(path: Path) -> Path | None:
    """Carry out a replacement that is ready; does nothing if there is none. Every start calls it.

    Returns:
        Where the database that lay there is now.
    """
    place = real(path)
    fresh = _whole(place)
    if not fresh.exists():
        return None
    kept = _aside(place, fresh)
    if size_of(log_of(place)):
        kept.parent.mkdir(exist_ok=True)
        _move(log_of(place), log_of(kept))
    if size_of(place):
        kept.parent.mkdir(exist_ok=True)
        _move(place, kept)
    for leftover in (log_of(place), place.with_name(place.name + "-shm")):
        leftover.unlink(missing_ok=True)
    os.replace(fresh, place)
    sync_folder(place.parent)
    return kept if kept.exists() else None


def part_of(place: Path) -> Path:
    """Where the file that will take the place of ``place`` is made."""
    return place.with_name(place.name + ".part")


def _is_sound(place: Path) -> bool:
    """Whether file and log make a database that can be read; looks at them without a change."""
    if not size_of(place):
        return False
    with closing(sqlite3.connect(f"{place.as_uri()}?mode=ro", uri=True, timeout=5.0)) as connection:
        return connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"


def _whole(place: Path) -> Path:
    return place.with_name(place.name + ".new")


def _aside(place: Path, fresh: Path) -> Path:
    """Where the present file goes: the same name however often this is begun, until the file is there."""
    moment = datetime.fromtimestamp(fresh.stat().st_mtime, UTC)
    first = new_copy(place, "replaced", moment)
    others = (first.with_name(f"{first.stem}-{number}.db") for number in range(2, 1 << 20))
    kept = first
    while kept.exists() and size_of(place):
        kept = next(others)
    return kept


def fold(path: Path) -> None:
    """Bring the log of ``path`` into the file."""
    if size_of(path) and size_of(log_of(path)):
        with closing(sqlite3.connect(path, isolation_level=None, timeout=5.0)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _move(source: Path, target: Path) -> None:
    """Rename, or copy and remove where ``target`` is on another disk."""
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        part = target.with_name(target.name + ".part")
        shutil.copyfile(source, part)
        part.chmod(0o600)
        sync_file(part)
        os.replace(part, target)
        source.unlink()
    sync_folder(target.parent)


def remove_part(part: Path) -> None:
    """Remove a file that did not become a database, and what SQLite made beside it."""
    for one in (part, log_of(part), part.with_name(part.name + "-shm")):
        with contextlib.suppress(OSError):
            one.unlink(missing_ok=True)
