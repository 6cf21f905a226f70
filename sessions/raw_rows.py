"""Finds the rows of chats in the pages of a database whose trees or schema are gone, without SQLite.

::

    leaf page   type │ … │ number of cells │ pointers → │      …      │ ← cells
    cell        size of the record, rowid, record, and, if it does not fit, the first of its overflow pages
    record      size of its head, a type for each column │ the columns' values

A page says what kind it is, not which table it belongs to: a row is known by its shape (an id of 32 hex digits, a
role, a status). Pages on the free list are left out as long as it can be read, so that what was deleted stays so.
Format: SQLite's fileformat2.html, sections 1.6 (pages) and 2 (records).
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .pages import HEADER_BYTES

_TABLE_LEAF, _INDEX_LEAF, _INDEX_INNER = 0x0D, 0x0A, 0x02
_ID = re.compile(r"[0-9a-f]{32}")
_NUMBER_SIZES = (0, 1, 2, 3, 4, 6, 8, 8)
_ROLES = {"system", "user", "assistant", "tool"}
_STATUSES = {"streaming", "done", "stopped", "interrupted", "error"}
_MOST_CELLS = 1 << 14
ID_COLUMNS = {
    "sessions": (1,),
    "messages": (1,),
    "generations": (0, 1),
    "message_tokens": (0, 1),
    "system_tokens": (0, 1),
}
"""Places of the columns that name a row, in each table whose rows are known by their shape."""


@dataclass(slots=True)
class RawRow:
    """One row.

    Attributes:
        table: the one whose shape it has.
        values: in the table's column order; the rowid stands where the key is.
        whole: whether all of its text was found.
    """

    table: str
    values: list[Any]
    whole: bool

    @property
    def id(self) -> Any:
        """What names it in its table: an id, or several values."""
        named = tuple(self.values[place] for place in ID_COLUMNS[self.table])
        return named[0] if len(named) == 1 else named


class RawPages:
    """The pages of a file."""

    def __init__(self, content: bytes | mmap.mmap, page_size: int) -> None:
        self._content = content
        self._size = page_size
        self._count = len(content) // page_size

    def rows(self) -> Iterator[RawRow]:
        """Every row with the shape of one of ours."""
        free = self._free_pages()
        for number in range(1, self._count + 1):
            if number in free:
                continue
            for rowid, values, whole in self._records(number):
                table = _table_of(values, in_table=rowid is not None)
                if table is not None:
                    if table in ("sessions", "messages"):
                        values[0] = rowid
                    yield RawRow(table, values, whole)

    def _page(self, number: int) -> bytes:
        return self._content[(number - 1) * self._size : number * self._size]

    def _free_pages(self) -> set[int]:
        found: set[int] = set()
        trunk = int.from_bytes(self._content[32:36], "big")
        while 1 < trunk <= self._count and trunk not in found:
            page = self._page(trunk)
            found.add(trunk)
            count = min(int.from_bytes(page[4:8], "big"), self._size // 4 - 2)
            found.update(struct.unpack_from(f">{count}I", page, 8))
            trunk = int.from_bytes(page[:4], "big")
        return found

    def _records(self, number: int) -> Iterator[tuple[int | None, list[Any], bool]]:
        page = self._page(number)
        start = HEADER_BYTES if number == 1 else 0
        kind = page[start]
        if kind not in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INNER):
            return
        cells = int.from_bytes(page[start + 3 : start + 5], "big")
        pointers = start + (12 if kind == _INDEX_INNER else 8)
        if not 0 < cells <= min(_MOST_CELLS, (self._size - pointers) // 2):
            return
        for at in struct.unpack_from(f">{cells}H", page, pointers):
            try:
                yield self._cell(page, at, kind)
            except (IndexError, ValueError, struct.error):
                continue

    def _cell(self, page: bytes, at: int, kind: int) -> tuple[int | None, list[Any], bool]:
        if kind == _INDEX_INNER:
            at += 4
        size, at = _varint(page, at)
        rowid = None
        if kind == _TABLE_LEAF:
            rowid, at = _varint(page, at)
        local = self._local(size, kind)
        payload = page[at : at + local]
        if local < size:
            payload += self._overflow(int.from_bytes(page[at + local : at + local + 4], "big"), size - local)
        return rowid, _values(payload, size), len(payload) == size

    def _local(self, size: int, kind: int) -> int:
        """Bytes of a record that lie in its cell."""
        usable = self._size
        most = usable - 35 if kind == _TABLE_LEAF else (usable - 12) * 64 // 255 - 23
        if size <= most:
            return size
        least = (usable - 12) * 32 // 255 - 23
        wanted = least + (size - least) % (usable - 4)
        return wanted if wanted <= most else least

    def _overflow(self, number: int, size: int) -> bytes:
        found = bytearray()
        while len(found) < size and 1 < number <= self._count:
            page = self._page(number)
            found += page[4 : 4 + min(size - len(found), self._size - 4)]
            number = int.from_bytes(page[:4], "big")
        return bytes(found)


def _varint(page: bytes, at: int) -> tuple[int, int]:
    """(number, place after it): seven bits a byte, the ninth has eight."""
    value = 0
    for count in range(9):
        byte = page[at + count]
        if count == 8:
            value = value << 8 | byte
        else:
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                return value, at + count + 1
    return value, at + 9


def _values(payload: bytes, size: int) -> list[Any]:
    """The columns of a record; what is missing at its end is cut off or empty."""
    head, at = _varint(payload, 0)
    if not 1 < head <= len(payload):
        raise ValueError("no record")
    kinds = []
    while at < head:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    if head + sum(_length(kind) for kind in kinds) != size:
        raise ValueError("no record")
    values: list[Any] = []
    for kind in kinds:
        part = payload[at : at + _length(kind)]
        values.append(_value(kind, part))
        at += _length(kind)
    return values


def _length(kind: int) -> int:
    if kind >= 12:
        return (kind - 12) // 2
    return _NUMBER_SIZES[kind] if kind < 8 else 0


def _value(kind: int, part: bytes) -> Any:
    if kind >= 12:
        return part.decode("utf-8", "replace") if kind % 2 else part
    if kind == 7:
        return struct.unpack(">d", part)[0]
    if kind in (8, 9):
        return kind - 8
    return int.from_bytes(part, "big", signed=True) if kind else None


def _table_of(values: list[Any], *, in_table: bool) -> str | None:
    """The table whose rows look like ``values``."""
    if in_table and len(values) >= 14 and _is_id(values[1]):
        if _is_id(values[2]) and values[4] in _ROLES and values[5] in _STATUSES:
            return "messages"
        if isinstance(values[8], str) and _is_time(values[9]) and _is_time(values[10]):
            return "sessions"
        return None
    if not values or not _is_id(values[0]):
        return None
    if in_table and len(values) == 4 and isinstance(values[3], bytes):
        return "message_tokens"
    if in_table and len(values) == 3 and isinstance(values[2], bytes):
        return "system_tokens"
    if not in_table and len(values) >= 22 and isinstance(values[1], int) and isinstance(values[4], str):
        return "generations"
    return None


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and len(value) >= 20 and value[4:5] == "-" and value[10:11] == "T"
