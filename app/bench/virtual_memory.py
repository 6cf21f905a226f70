"""KV that lies in one piece of addresses and takes memory only where it was written: the fourth allocator, for real.

Each sequence has addresses for the longest one; the operating system gives a page of memory when a token's KV is first
written there. How much it gave is read from ``/proc/self/smaps``, not computed. One tensor (the keys of one layer)
stands for all: each of them wastes the same.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from pathlib import Path

from ...engine.errors import PagedChatError
from .allocators import Allocator

SMAPS = Path("/proc/self/smaps")


class NoSmapsError(PagedChatError):
    """This system does not tell which pages of a process are in memory."""


class Virtual(Allocator):
    """Sequences in mapped memory whose pages are touched as they grow.

    Args:
        row_bytes: bytes of one token in one tensor: KV heads x head size x bytes of a number.
        seats: sequences at most; addresses are cheap, so many.

    Raises:
        NoSmapsError: where ``/proc/self/smaps`` is missing.
    """

    name = "virtual"
    page_bytes = mmap.PAGESIZE

    def __init__(self, budget: int, longest: int, row_bytes: int = 384, seats: int = 512) -> None:
        super().__init__(budget, longest)
        if not SMAPS.exists():
            raise NoSmapsError(
                f"Touched pages cannot be counted: this system has no {SMAPS}. The virtual allocator is left out; the "
                "other three do not need it."
            )
        self.row_bytes = row_bytes
        self._stride = -(-longest * row_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self._memory = mmap.mmap(-1, self._stride * seats, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for advice in ("MADV_NOHUGEPAGE", "MADV_DONTDUMP"):  # pages as they are, and a mapping unlike its neighbours
            if hasattr(mmap, advice):
                self._memory.madvise(getattr(mmap, advice))
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._seats = list(range(seats))[::-1]
        self._at: dict[int, int] = {}
        self._pages = 0

    def in_use(self) -> int:
        """See `Allocator.in_use`: the pages touched so far, by the allocator's own count."""
        return self._pages * mmap.PAGESIZE // self.row_bytes

    def in_memory(self) -> int:
        """Bytes that the operating system really holds for the mapping."""
        return resident_bytes(self._address, len(self._memory))

    @property
    def pages(self) -> int:
        """Pages touched, by the allocator's own count."""
        return self._pages

    def _room(self, key: int) -> int:
        return pages_of(self.lengths[key], self.row_bytes) * mmap.PAGESIZE // self.row_bytes

    def _take(self, key: int, tokens: Sequence[int]) -> bool:
        pages = pages_of(len(tokens), self.row_bytes)
        if not self._seats or not self._fits(pages):
            return False
        self._at[key] = self._seats.pop()
        self._pages += pages
        self._write(key, 0, len(tokens))
        return True

    def _grow(self, key: int, token: int) -> bool:
        length = self.lengths[key]
        more = pages_of(length + 1, self.row_bytes) - pages_of(length, self.row_bytes)
        if length >= self.longest or not self._fits(more):
            return False
        self._pages += more
        self._write(key, length, length + 1)
        return True

    def _release(self, key: int) -> None:
        self._pages -= pages_of(self.lengths[key], self.row_bytes)
        seat = self._at.pop(key)
        self._memory.madvise(mmap.MADV_DONTNEED, seat * self._stride, self._stride)
        self._seats.append(seat)

    def _fits(self, pages: int) -> bool:
        return (self._pages + pages) * mmap.PAGESIZE <= self.budget * self.row_bytes

    def _write(self, key: int, first: int, end: int) -> None:
        place = self._at[key] * self._stride
        count = (end - first) * self.row_bytes
        self._memory[place + first * self.row_bytes : place + first * self.row_bytes + count] = b"\1" * count


def pages_of(tokens: int, row_bytes: int) -> int:
    """Pages that so many tokens touch."""
    return -(-tokens * row_bytes // mmap.PAGESIZE)


def resident_bytes(address: int, size: int) -> int:
    """``Rss`` of the mapping that holds these addresses, from ``/proc/self/smaps``."""
    found, total = False, 0
    with SMAPS.open(encoding="ascii", errors="replace") as lines:
        for line in lines:
            head = line.split(maxsplit=1)[0]
            if "-" in head and not head.endswith(":"):
                first, _, end = head.partition("-")
                found = int(first, 16) < address + size and int(end, 16) > address
            elif found and head == "Rss:":
                total += int(line.split()[1]) * 1024
    return total
