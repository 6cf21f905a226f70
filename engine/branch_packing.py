"""Sequences that begin alike, and where their KV lies, in few bytes: of each only what the one before it has not.

::

    [1 2 3 4 5 6]      [0, [1 2 3 4 5 6]]
    [1 2 3 9]          [3, [9]]                the first three are those of the list before
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Packed = list[list[Any]]


def pack_lists(lists: Sequence[Sequence[Any]]) -> Packed:
    """Each list as [how many items it begins with that the list before it begins with, too; the rest]."""
    packed: Packed = []
    before: Sequence[Any] = ()
    for one in lists:
        same = num_alike(before, one)
        packed.append([same, list(one[same:])])
        before = one
    return packed


def unpack_lists(packed: Packed) -> list[list[Any]]:
    """The inverse of ``pack_lists``; items that were alike are one object."""
    lists: list[list[Any]] = []
    for same, rest in packed:
        lists.append([*lists[-1][:same], *rest] if same else list(rest))
    return lists


def num_alike(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many items two lists begin with in common."""
    same, end = 0, min(len(one), len(other))
    if one[:end] == other[:end]:
        return end
    while end - same > 1:  # they differ from `same` on and before `end`
        middle = (same + end) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            end = middle
    return same
