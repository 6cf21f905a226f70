"""Block tables: which physical block holds which logical block of a sequence, one table for each KV group."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

BlockTable = array
"""Physical blocks by logical block, as C integers, so that a step's tables are gathered without converting them."""

NO_BLOCK = -1
"""In a block table or an index node: this group's block is not there (behind its window)."""


def block_before(table: Sequence[int], logical: int) -> int | None:
    """The physical block before a logical one; None at the start, or where it is behind the window."""
    block = table[logical - 1] if logical else NO_BLOCK
    return None if block == NO_BLOCK else block


def in_token_order(tables: Sequence[BlockTable[int]]) -> list[int]:
    """The blocks of all KV groups in the order of their tokens."""
    return [block for logical in zip(*tables, strict=True) for block in logical if block != NO_BLOCK]
