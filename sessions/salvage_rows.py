"""Reads a table of a damaged database through SQLite, around the pages that it cannot read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

_MOST_PROBES = 200_000
"""Queries spent on the gaps of one table, about 10 s."""
_UNKNOWN_TAIL = 4096
"""Keys looked for beyond the last one that was read, where nothing says how many there were."""


class TableRows:
    """The rows of one table that can be read.

    Attributes:
        unread: whether a part of it could not be read.
    """

    def __init__(self, damaged: sqlite3.Connection, table: str, columns: list[str], keys: Iterable[str] = ()) -> None:
        """
        Args:
            columns: what to read; of a table without rowid the first one is looked up by ``keys`` where a scan fails.
        """
        self._damaged = damaged
        self._table = table
        self._columns = ", ".join(f'"{one}"' for one in columns)
        self._first = columns[0]
        self._keys = keys
        self._probes = 0
        self.unread = False

    def read(self) -> Iterator[tuple]:
        """Every row once, in no special order."""
        if self._has_rowid():
            yield from self._by_rowid()
        else:
            yield from self._by_key()

    def _has_rowid(self) -> bool:
        try:
            self._damaged.execute(f'SELECT rowid FROM "{self._table}" LIMIT 0')
        except sqlite3.OperationalError as error:
            return "no such column" not in str(error)
        except sqlite3.Error:
            pass
        return True

    def _by_rowid(self) -> Iterator[tuple]:
        last = 0
        try:
            for row in self._scan(-(1 << 63), (1 << 63) - 1):
                last = row[0]
                yield row[1:]
        except sqlite3.Error:
            self.unread = True
            first = last + 1
            end = self._greatest(last)
            try:
                for row in self._scan(first, end, backwards=True):
                    end = row[0] - 1
                    yield row[1:]
            except sqlite3.Error:
                yield from self._gap(first, end)

    def _gap(self, first: int, end: int) -> Iterator[tuple]:
        """Rows between two keys, of which some cannot be read: halve until a part reads or is one key."""
        parts = [(first, end)]
        while parts:
            first, end = parts.pop()
            self._probes += 1
            if first > end or self._probes > _MOST_PROBES:
                continue
            try:
                yield from [row[1:] for row in self._scan(first, end)]
            except sqlite3.Error:
                if first < end:
                    middle = (first + end) // 2
                    parts += [(middle + 1, end), (first, middle)]

    def _greatest(self, last: int) -> int:
        try:
            row = self._damaged.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", [self._table]).fetchone()
            if row is not None:
                return max(int(row[0]), last)
        except sqlite3.Error:
            pass
        return last + _UNKNOWN_TAIL

    def _scan(self, first: int, end: int, *, backwards: bool = False) -> sqlite3.Cursor:
        return self._damaged.execute(
            f'SELECT rowid, {self._columns} FROM "{self._table}" NOT INDEXED WHERE rowid BETWEEN ? AND ? '
            f"ORDER BY rowid {'DESC' if backwards else ''}",
            [first, end],
        )

    def _by_key(self) -> Iterator[tuple]:
        seen: set[tuple] = set()
        select = f'SELECT {self._columns} FROM "{self._table}"'
        try:
            for row in self._damaged.execute(select):
                seen.add(tuple(row))
                yield tuple(row)
        except sqlite3.Error:
            self.unread = True
            for key in self._keys:
                try:
                    rows = self._damaged.execute(f'{select} WHERE "{self._first}" = ?', [key]).fetchall()
                except sqlite3.Error:
                    continue
                yield from (tuple(row) for row in rows if tuple(row) not in seen)
