"""Reads what can be read of a damaged database into a new, sound one; the damaged file is never changed.

::

    damaged file + committed pages of its log ──> a working copy beside the target, its header mended
    each table: all rows; where that fails, ranges of keys halved around the pages that cannot be read
    the new database: rows that lost their chat or parent are mended, the search index is filled anew

What is certain: every row that was read lay in a page that could be read. What is not: how many rows lay in those that
could not; rows that are still named by others are counted.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .backups import row_counts, sync_file
from .errors import StoreError, explained
from .mending import Mended, mend
from .pages import HEADER_BYTES, PAGE_SIZE, Header, committed_pages, mended_header, newest_header, real, size_of
from .raw_rows import ID_COLUMNS, RawPages, RawRow
from .replacing import remove_part
from .salvage_rows import TableRows
from .schema import open_database
from .wording import counted

_SKIPPED = "_sqlite_migrations"


@dataclass
class SalvageReport:
    """What was brought back and what was not.

    Attributes:
        chats, messages: that were read.
        affected: title and what happened, of each chat that lost something.
        lost_messages: those that others name, but that could not be read.
        unread: tables of which a part could not be read.
        notes: what else there is to know, a sentence each.
    """

    chats: int = 0
    messages: int = 0
    lost_messages: int = 0
    affected: list[tuple[str, str]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """The report, for a person."""
        lines = [f"{counted(self.chats, 'chat')} and {counted(self.messages, 'message')} were read."]
        if self.lost_messages:
            lines.append(
                f"{counted(self.lost_messages, 'message')} could not be read; there may be more that none names."
            )
        lines += [f"{title}: {what}" for title, what in self.affected]
        if self.unread:
            lines.append(f"A part of these tables could not be read: {', '.join(self.unread)}.")
        return lines + self.notes


def salvage(path: Path, target: Path) -> SalvageReport:
    """Read the damaged database ``path`` into the new database ``target``, in a folder that is there.

    Raises:
        StoreError: nothing could be read, or there is no room; ``target`` is removed then.
    """
    with explained(path):
        if not size_of(real(path)):
            raise StoreError(f"There is nothing to salvage: {path} is missing or empty.", "unreachable")
        work = target.with_name(target.name + ".work")
        report = SalvageReport()
        remove_part(target)
        try:
            _working_copy(real(path), work)
            with closing(open_database(target, busy_timeout_s=5.0)) as fresh:
                _fill(work, fresh, report)
                _finish(fresh, report)
            if not report.chats:
                raise StoreError(f"No chat could be read from {path}; it was left as it is.", "damaged")
            sync_file(target)
        except BaseException:
            remove_part(target)
            raise
        finally:
            remove_part(work)
        return report


def _working_copy(place: Path, work: Path) -> None:
    """The file as of the last commit in its log, with a header that SQLite takes."""
    shutil.copyfile(place, work)
    work.chmod(0o600)
    header = newest_header(place)
    newer = committed_pages(place)
    size = header.page_size if header else next((len(one) for one in newer.values()), PAGE_SIZE)
    with work.open("r+b") as file:
        for number, content in newer.items():
            file.seek((number - 1) * size)
            file.write(content)
        count = file.seek(0, os.SEEK_END) // size
        file.truncate(count * size)
        file.seek(0)
        first = file.read(HEADER_BYTES)
        file.seek(0)
        file.write(mended_header(first, size, count))


def _fill(work: Path, fresh: sqlite3.Connection, report: SalvageReport) -> None:
    """Copy every row that can be read."""
    with closing(sqlite3.connect(f"{work.as_uri()}?mode=ro&immutable=1", uri=True)) as source:
        source.text_factory = lambda content: content.decode("utf-8", "replace")
        with contextlib.suppress(sqlite3.Error):
            source.execute("PRAGMA writable_schema = ON")
        fresh.execute("PRAGMA foreign_keys = OFF")
        fresh.execute("BEGIN IMMEDIATE")
        for table in _tables(fresh):
            if not _copy_table(source, fresh, table):
                report.unread.append(table)
    if report.unread:
        _add_raw_rows(work, fresh, report)


def _tables(fresh: sqlite3.Connection) -> list[str]:
    """Tables in the order in which their keys are known: chats, messages, then the rest."""
    found = [one for one in row_counts(fresh) if one != _SKIPPED]
    return sorted(found, key=lambda one: (one != "sessions", one != "messages", one))


def _copy_table(source: sqlite3.Connection, fresh: sqlite3.Connection, table: str) -> bool:
    """Whether all of it was read."""
    wanted = _columns(fresh, table)
    try:
        there = _columns(source, table)
        known = source.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [table]).fetchone() is not None
    except sqlite3.Error:
        return False
    columns = [one for one in wanted if one in there]
    if not columns:
        return not known and _is_sound(source)
    owner = "sessions" if columns[0] == "session_id" else "messages"
    keys = [row[0] for row in fresh.execute(f"SELECT id FROM {owner}")]
    rows = TableRows(source, table, columns, ["", *keys])
    for row in rows.read():
        _insert(fresh, table, columns, row)
    return not rows.unread


def _is_sound(source: sqlite3.Connection) -> bool:
    """Whether the schema can be read, so that a table that is not there never was."""
    with contextlib.suppress(sqlite3.Error):
        return source.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0] > 0
    return False


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]


def _insert(fresh: sqlite3.Connection, table: str, columns: list[str], row: Iterable[Any]) -> bool:
    names = ", ".join(f'"{one}"' for one in columns)
    marks = ", ".join("?" * len(columns))
    with contextlib.suppress(sqlite3.IntegrityError, sqlite3.InterfaceError, OverflowError):
        done = fresh.execute(f'INSERT OR IGNORE INTO "{table}" ({names}) VALUES ({marks})', list(row))
        return done.rowcount > 0
    return False


def _add_raw_rows(work: Path, fresh: sqlite3.Connection, report: SalvageReport) -> None:
    """From the pages themselves, the rows of tables that could not be read to their end. The newest of a row counts."""
    with work.open("rb") as file:
        header = Header.read(file.read(HEADER_BYTES))
        assert header is not None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            known = {table: _known_ids(fresh, table) for table in report.unread}
            rows = RawPages(content, header.page_size).rows()
            found = [one for one in rows if one.table in known and one.id not in known[one.table]]
    found.sort(key=lambda one: (one.whole, _moment(one)), reverse=True)
    added = cut = 0
    for one in found:
        columns = _columns(fresh, one.table)[: len(one.values)]
        if _insert(fresh, one.table, columns, one.values):
            added += one.table == "messages"
            cut += one.table == "messages" and not one.whole
    if added:
        report.notes.append(
            f"{counted(added, 'message')} {'was' if added == 1 else 'were'} found only by looking through all pages; "
            "among them may be older states, or messages that were deleted."
        )
    if cut:
        report.notes.append(f"Of {counted(cut, 'message')} the end of the text is lost.")


def _known_ids(fresh: sqlite3.Connection, table: str) -> set[Any]:
    """Ids of the rows that were read, as ``RawRow.id`` gives them."""
    if table not in ID_COLUMNS:
        return set()
    return {row[0] if len(row) == 1 else tuple(row) for row in _ids(fresh, table)}


def _ids(fresh: sqlite3.Connection, table: str) -> Iterable[sqlite3.Row]:
    names = [_columns(fresh, table)[place] for place in ID_COLUMNS[table]]
    return fresh.execute(f'SELECT {", ".join(names)} FROM "{table}"')


def _moment(row: RawRow) -> str:
    """When it was last changed, as far as it says."""
    place = {"messages": 11, "sessions": 10}.get(row.table)
    return str(row.values[place]) if place is not None else ""


def _finish(fresh: sqlite3.Connection, report: SalvageReport) -> None:
    """Mend, count, name what was lost."""
    done = mend(fresh)
    fresh.execute("COMMIT")
    fresh.execute("PRAGMA foreign_keys = ON")
    report.chats = fresh.execute("SELECT count(*) FROM sessions").fetchone()[0]
    report.messages = fresh.execute("SELECT count(*) FROM messages").fetchone()[0]
    report.lost_messages = done.lost
    if report.unread or done.lost:
        report.affected = _affected(fresh, done)
    verdict = fresh.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if verdict != "ok":
        raise StoreError(f"What was salvaged did not make a sound database ({verdict}).", "damaged")
    fresh.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _affected(fresh: sqlite3.Connection, done: Mended) -> list[tuple[str, str]]:
    titles = dict(fresh.execute("SELECT id, coalesce(title, 'A chat without a name') FROM sessions").fetchall())
    found = [(titles[one], f"only its messages were left (chat {one[-8:]})") for one in done.rescued]
    for session_id, count in done.roots.items():
        what = "the message before one of its messages is" if count == 1 else f"the messages before {count} others are"
        found.append((titles[session_id], f"{what} lost, so that these begin branches of their own"))
    heads = set(done.heads) - set(done.roots)
    empty = {row[0] for row in fresh.execute("SELECT id FROM sessions WHERE head_id IS NULL")}
    found += [(titles[one], "all of its messages are lost") for one in heads & empty]
    found += [(titles[one], "its last message is lost; the latest that was read is shown") for one in heads - empty]
    spoilt = "SELECT session_id, count(*) FROM messages WHERE instr(content, char(65533)) GROUP BY session_id"
    for session_id, count in fresh.execute(spoilt).fetchall():
        found.append((titles[session_id], f"a part of the text of {counted(count, 'message')} cannot be read"))
    return found
