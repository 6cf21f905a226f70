"""Copies of the database in ``<data>/backups``: taken while it is used, verified, counted, thinned out.

::

    sessions-20261130T003925.123456Z-daily.db        a day after the last copy, if anything changed
                                    -version-2.db    before a migration from version 2
                                    -hand.db         asked for
                                    -replaced.db     what lay there before a restore

A copy is ``VACUUM INTO`` by a connection of its own: writers go on. It counts once its check is ok and its rows are
as many as the database's; only then do older ones go. Of daily copies the last of 7 days and of 4 weeks stay, of those
before migrations 3, and always the one with the most messages; what was asked for or put aside is never removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from ..engine.sizes import size_in_words
from .errors import StoreError, backup_folder, explained
from .pages import Header, log_of, real, size_of

Kind = Literal["daily", "version", "hand", "replaced"]
KEPT_DAYS, KEPT_WEEKS, KEPT_VERSIONS = 7, 4, 3
_DAY = timedelta(days=1)
_PART_LIFE_S = 3600.0
_MARGIN_BYTES: dict[str, int] = {"daily": 256 << 20, "hand": 16 << 20, "version": 0, "replaced": 0}
"""What must stay free on the disk after a copy. A copy before a migration is worth the last byte."""
_TRIES = 3
_NAME = re.compile(r"-(\d{8}T\d{6}\.\d{6}Z)-(daily|hand|replaced|version-\d+)(?:-\d+)?\.db$")
_STAMP = "%Y%m%dT%H%M%S.%fZ"


@dataclass(frozen=True, slots=True)
class Backup:
    """One copy.

    Attributes:
        made_at: UTC, ISO 8601.
        size: bytes.
        version: of the schema; 0 where it cannot be told.
        chats, messages: those not in the trash, and all rows; 0 where they cannot be read.
        problem: why it cannot be restored; None if it looks well (its pages are checked when it is restored).
    """

    path: Path
    kind: Kind
    made_at: str
    size: int
    version: int
    chats: int
    messages: int
    problem: str | None

    @property
    def name(self) -> str:
        """Its file's name."""
        return self.path.name


def back_up(path: Path, kind: Kind = "hand", target: Path | None = None, *, version: int = 0) -> Path:
    """A verified copy of the database ``path``; returns where it is, mode 0600.

    Args:
        target: where it goes; by default into ``backups``, named for its time and kind.
        version: of the schema, named by a copy before a migration.

    Raises:
        StoreError: no room, the target exists, or the copy would not be sound. No half copy stays.
    """
    with explained(path):
        if not path.is_file():
            raise StoreError(f"There is nothing to back up: {path} does not exist.", "unreachable")
        if target is None:
            target = new_copy(path, f"version-{version}" if kind == "version" else kind)
            target.parent.mkdir(exist_ok=True)
        if target.exists():
            raise StoreError(f"{target} exists already; name another file for the copy.")
        if not target.parent.is_dir():
            raise StoreError(f"The folder {target.parent} does not exist; make it, or name another file for the copy.")
        _check_room(path, target.parent, kind)
        part = target.with_name(target.name + ".part")
        try:
            _copy(path, part)
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
        sync_folder(target.parent)
        return target


def list_backups(path: Path) -> list[Backup]:
    """The copies of the database ``path``, newest first."""
    return [described(one) for one in copies(path)]


def daily_backup(path: Path) -> Path | None:
    """Copy the database if that is due, then let old copies go; None if it was not due.

    Raises:
        StoreError: see `back_up`; nothing was removed.
    """
    with explained(path):
        if not is_due(path) or not _has_chats(path):
            return None
    made = back_up(path, "daily")
    rotate(path)
    return made


def is_due(path: Path, now: datetime | None = None) -> bool:
    """Whether the last copy is more than a day old and the database changed since."""
    now = now or datetime.now(UTC)
    stamps = [stamp for one in copies(path) if (stamp := _stamp_of(one)) and _kind_of(one) in ("daily", "hand")]
    if any(timedelta(0) <= now - stamp < _DAY for stamp in stamps):
        return False
    if not size_of(path):
        return False
    past = [stamp for stamp in stamps if stamp <= now]
    return not past or _changed_at(path) > max(past).timestamp()


def rotate(path: Path) -> list[Path]:
    """Remove copies that are no longer kept, and what interrupted copies left; returns those removed."""
    found = copies(path)
    daily = [one for one in found if _kind_of(one) == "daily"]
    kept = _firsts(daily, lambda stamp: stamp.date(), KEPT_DAYS)
    kept |= _firsts(daily, lambda stamp: stamp.isocalendar()[:2], KEPT_WEEKS)
    kept |= set([one for one in found if _kind_of(one) == "version"][:KEPT_VERSIONS])
    old = [one for one in found if _kind_of(one) in ("daily", "version") and one not in kept]
    if old:
        fullest = max(found, key=lambda one: (described(one).messages, one.name))
        old = [one for one in old if one != fullest]
    for part in backup_folder(path).glob("*.part"):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > _PART_LIFE_S:
                part.unlink()
    for one in old:
        with contextlib.suppress(OSError):
            one.unlink()
    return old


def copies(path: Path) -> list[Path]:
    """Files in ``backups`` that may be copies of the database ``path``, newest first; unknown names come last."""
    try:
        found = [one for one in backup_folder(path).glob("*.db") if one.is_file() and size_of(one)]
    except OSError:
        return []
    return sorted(found, key=lambda one: (_stamp_of(one) or datetime.min.replace(tzinfo=UTC), one.name), reverse=True)


def described(copy: Path) -> Backup:
    """What a copy holds, from its header and its counts."""
    stat = copy.stat()
    stamp = _stamp_of(copy) or datetime.fromtimestamp(stat.st_mtime, UTC)
    version = chats = messages = 0
    problem = None
    try:
        with copy.open("rb") as file:
            header = Header.read(file.read(100))
        version = header.user_version if header else 0
        with closing(look_into(copy)) as connection:
            chats = connection.execute("SELECT count(*) FROM sessions WHERE deleted_at IS NULL").fetchone()[0]
            messages = connection.execute("SELECT count(*) FROM messages").fetchone()[0]
    except (sqlite3.Error, OSError) as error:
        problem = str(error)
    made_at = stamp.isoformat(timespec="seconds").replace("+00:00", "Z")
    return Backup(copy, _kind_of(copy), made_at, stat.st_size, version, chats, messages, problem)


def new_copy(path: Path, kind: str, moment: datetime | None = None) -> Path:
    """The name of a copy that is made at ``moment``, or now."""
    return backup_folder(path) / f"{path.stem}-{(moment or datetime.now(UTC)).strftime(_STAMP)}-{kind}.db"


def look_into(copy: Path) -> sqlite3.Connection:
    """A connection that reads a file that nobody writes; it makes no file beside it."""
    return sqlite3.connect(f"{copy.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)


def row_counts(connection: sqlite3.Connection) -> dict[str, int]:
    """Rows of each table that holds content; an index for search is none."""
    tables = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    virtual = [row[0] for row in tables if str(row[1]).upper().startswith("CREATE VIRTUAL")]
    plain = [row[0] for row in tables if not row[0].startswith(("sqlite_", *(f"{one}_" for one in virtual)))]
    return {
        name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
        for name in plain
        if name not in virtual
    }


def sync_file(path: Path) -> None:
    """Wait until the disk has all of a file."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder; some systems cannot, and need not."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(path: Path, part: Path) -> None:
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(path, isolation_level=None, timeout=5.0)) as connection:
        for _ in range(_TRIES):
            before = row_counts(connection)
            os.truncate(part, 0)
            connection.execute("VACUUM INTO ?", [str(part)])
            if _is_whole(part, before, row_counts(connection)):
                sync_file(part)
                return
    raise StoreError(f"A copy of {path} did not come out whole, so it was removed; check the disk it lies on.")


def _is_whole(part: Path, before: dict[str, int], after: dict[str, int]) -> bool:
    """Whether a copy is sound and has the rows that its source had before or after it was taken."""
    try:
        with closing(look_into(part)) as copy:
            if copy.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                return False
            counts = row_counts(copy)
    except sqlite3.Error:
        return False
    same = counts.keys() == before.keys() == after.keys()
    return same and all(min(before[one], after[one]) <= counts[one] <= max(before[one], after[one]) for one in counts)


def _has_chats(path: Path) -> bool:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=5.0)) as connection:
        return connection.execute("SELECT 1 FROM sessions").fetchone() is not None


def _check_room(path: Path, folder: Path, kind: Kind) -> None:
    needed = size_of(real(path)) + size_of(log_of(real(path)))
    free = shutil.disk_usage(folder).free
    if free < needed + _MARGIN_BYTES[kind]:
        raise StoreError(
            f"No copy of the chats was made: {folder} has {size_in_words(free)} free, and a copy of "
            f"{size_in_words(needed)} would leave less than {size_in_words(_MARGIN_BYTES[kind])}; free some space.",
            "full",
        )


def _firsts(newest_first: Iterable[Path], period: Callable[[datetime], object], count: int) -> set[Path]:
    """The newest copy of each of the last ``count`` periods that have one."""
    found: dict[object, Path] = {}
    for one in newest_first:
        stamp = _stamp_of(one)
        if stamp is not None:
            found.setdefault(period(stamp), one)
    return set(list(found.values())[:count])


def _changed_at(path: Path) -> float:
    files = [real(path), log_of(real(path))]
    return max((one.stat().st_mtime for one in files if size_of(one)), default=0.0)


def _stamp_of(copy: Path) -> datetime | None:
    found = _NAME.search(copy.name)
    try:
        return datetime.strptime(found[1], _STAMP).replace(tzinfo=UTC) if found else None
    except ValueError:
        return None


def _kind_of(copy: Path) -> Kind:
    found = _NAME.search(copy.name)
    name = found[2].partition("-")[0] if found else "hand"
    return name if name in ("daily", "version", "replaced") else "hand"  # type: ignore[return-value]
