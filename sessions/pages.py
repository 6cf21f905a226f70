"""A database file and its log as bytes, read without SQLite: nothing is locked, made or changed.

::

    file  │ page 1 (begins with the header) │ page 2 │ …
    -wal  │ header │ frame │ frame │ commit │ frame │ …      a frame is a later state of one page

What counts is the last commit: frames after it belong to a transaction that never ended. Formats: SQLite's
fileformat2.html, sections 1.3 (header) and 4 (log).
"""

from __future__ import annotations

import os
import struct
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"SQLite format 3\x00"
HEADER_BYTES = 100
PAGE_SIZE = 4096
"""What SQLite takes where nobody chose."""
_LOG_MAGIC = 0x377F0682
_LOG_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24


@dataclass(frozen=True, slots=True)
class Header:
    """What the first page says of its file.

    Attributes:
        user_version, application_id: as the program that wrote it set them.
    """

    page_size: int
    page_count: int
    user_version: int
    application_id: int

    @classmethod
    def read(cls, content: bytes) -> Header | None:
        """The header at the beginning of ``content``; None if there is none that makes sense."""
        size = int.from_bytes(content[16:18], "big")
        sound = size == 1 or (512 <= size <= 1 << 15 and size & (size - 1) == 0)
        if len(content) < HEADER_BYTES or not content.startswith(MAGIC) or not sound:
            return None
        numbers = struct.unpack_from(">I", content, 28) + struct.unpack_from(">I", content, 60)
        return cls(1 << 16 if size == 1 else size, *numbers, struct.unpack_from(">I", content, 68)[0])


def log_of(path: Path) -> Path:
    """SQLite's log beside the database ``path``; it need not exist."""
    return path.with_name(path.name + "-wal")


def size_of(path: Path) -> int:
    """Bytes in a file; 0 if it is not there."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def real(path: Path) -> Path:
    """Where the file lies: SQLite keeps its log beside the file that a link leads to."""
    return Path(os.path.realpath(path))


def newest_header(path: Path) -> Header | None:
    """The header as the last commit left it, in the file or in its log; None if neither has one."""
    with path.open("rb") as file:
        found = Header.read(file.read(HEADER_BYTES))
    for pages in _commits(log_of(path), verify=False):
        if 1 in pages:
            found = Header.read(pages[1]) or found
    return found


def committed_pages(path: Path) -> dict[int, bytes]:
    """Pages that the log of ``path`` holds newer than the file, as of the last whole commit. Torn frames end it."""
    found: dict[int, bytes] = {}
    for pages in _commits(log_of(path), verify=True):
        found.update(pages)
    return found


def mended_header(first: bytes, page_size: int, page_count: int) -> bytes:
    """A header for a file of so many pages without a log, with the list of free pages of ``first`` if that is one."""
    head = bytearray(HEADER_BYTES)
    head[:16] = MAGIC
    struct.pack_into(">H", head, 16, 1 if page_size == 1 << 16 else page_size)
    head[18:24] = bytes((1, 1, 0, 64, 32, 32))  # no log; nothing kept free at the end of pages
    struct.pack_into(">I", head, 28, page_count)
    if Header.read(first) is not None:
        head[32:40] = first[32:40]
    struct.pack_into(">I", head, 44, 4)  # format of the schema
    struct.pack_into(">I", head, 56, 1)  # UTF-8
    return bytes(head)


def _commits(log: Path, *, verify: bool) -> Iterator[dict[int, bytes]]:
    """The pages of each transaction in the log, in order.

    Args:
        verify: compare checksums, about 0.1 ms for each page.
    """
    if size_of(log) < _LOG_HEADER_BYTES:
        return
    with log.open("rb") as file:
        head = file.read(_LOG_HEADER_BYTES)
        magic, _, page_size = struct.unpack_from(">3I", head)
        if magic & ~1 != _LOG_MAGIC or not 512 <= page_size <= 1 << 16:
            return
        salts = head[16:24]
        big_endian = bool(magic & 1)
        sums = _checksum(head[:24], (0, 0), big_endian)
        if verify and sums != struct.unpack_from(">2I", head, 24):
            return
        pages: dict[int, bytes] = {}
        while len(frame := file.read(_FRAME_HEADER_BYTES + page_size)) == _FRAME_HEADER_BYTES + page_size:
            content = frame[_FRAME_HEADER_BYTES:]
            if frame[8:16] != salts:
                return
            if verify:
                sums = _checksum(content, _checksum(frame[:8], sums, big_endian), big_endian)
                if sums != struct.unpack_from(">2I", frame, 16):
                    return
            number, commit = struct.unpack_from(">2I", frame)
            pages[number] = content if verify or number == 1 else b""
            if commit:
                yield pages
                pages = {}


def _checksum(content: bytes, sums: tuple[int, int], big_endian: bool) -> tuple[int, int]:
    words = array("I", content)
    if big_endian != (sys.byteorder == "big"):
        words.byteswap()
    first, second = sums
    pairs = iter(words)
    for even, odd in zip(pairs, pairs, strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
