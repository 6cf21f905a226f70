"""The block tables of a chat's branches merged into one tree of runs: what they share, and where they part.

::

    branch   block table             runs
    1        7 3 9 4 5               7 3 9 ─┬─ 4 5        shared by three, then one's own
    2        7 3 9 6 8 1                    └─ 6 ─┬─ 8 1
    3        7 3 9 6 2                            └─ 2

Going down the runs of a branch gives its block table again, row by row. Knows nothing of stores and engines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from .branch_parts import BranchPart

Row = dict[str, Any]
"""A row of ``Engine.branch``."""


@dataclass(slots=True)
class Branch:
    """One branch.

    Attributes:
        end: id of its last message.
        token_ids: all it has in a prompt.
        parts: which message its tokens are of, in order, as far as it is known.
        rows: its block table.
    """

    end: str
    token_ids: list[int]
    parts: list[BranchPart]
    rows: list[Row] = field(default_factory=list)

    def part_at(self, token: int) -> BranchPart | None:
        """The part that a token is in; None where that is not known."""
        return next(self.parts_in(token, token + 1), None)

    def parts_in(self, first: int, end: int) -> Iterator[BranchPart]:
        """The parts that have tokens from ``first`` to ``end``."""
        at = bisect_right(self.parts, first, key=lambda part: part.end)
        return takewhile(lambda part: part.first < end, self.parts[at:])


@dataclass(slots=True)
class Run:
    """Blocks in a row that the same branches have.

    Attributes:
        first: logical number of the first of them.
        branches: places of those branches.
        parent: place of the run before it; None at the beginning.
    """

    first: int
    rows: list[Row]
    branches: list[int]
    parent: int | None

    @property
    def num_tokens(self) -> int:
        """Tokens of the branches in it, cached or not."""
        return sum(row["num_tokens"] for row in self.rows)

    @property
    def blocks(self) -> list[int | None]:
        """The physical block of each; None where it is not in the pool."""
        return [row["block"] for row in self.rows]


def merge(branches: list[Branch], block_size: int) -> list[Run]:
    """The runs of all branches, each behind the one before it; branches stay in their order."""
    runs: list[Run] = []
    groups: list[tuple[list[int], int, int | None]] = _parted(branches, range(len(branches)), 0, None, block_size)
    while groups:
        group, first, parent = groups.pop()
        end = _common_end(branches, group, first, block_size)
        runs.append(Run(first, branches[group[0]].rows[first:end], group, parent))
        groups += _parted(branches, group, end, len(runs) - 1, block_size)
    return runs


def messages_of(runs: list[Run], branches: list[Branch], block_size: int) -> list[list[tuple[str, bool]]]:
    """Of each run the messages that lie in it, in order, and whether it is named for each of them.

    A run is named for a message that all its branches have and that no run above is named for. Where two replies begin
    alike, the run of that beginning is not named for them; if they are alike to their end, it is.
    """
    inside = [_inside(run, branches, block_size) for run in runs]
    holders: dict[str, set[int]] = defaultdict(set)
    for place, branch in enumerate(branches):
        for part in branch.parts:
            holders[part.message_id].add(place)
    below: list[set[str]] = [set() for _ in runs]
    for place, run in enumerate(runs):
        if run.parent is not None:
            below[run.parent] |= inside[place].keys()
    return [
        [(name, _is_named(name, run, runs, inside, holders[name], name in below[place])) for name in names]
        for place, (run, names) in enumerate(zip(runs, inside, strict=True))
    ]


def _is_named(
    name: str, run: Run, runs: list[Run], inside: list[dict[str, None]], holders: set[int], goes_on: bool
) -> bool:
    above = run.parent
    if above is not None and name in inside[above] and holders.issuperset(runs[above].branches):
        return False
    return not goes_on or holders.issuperset(run.branches)


def _inside(run: Run, branches: list[Branch], size: int) -> dict[str, None]:
    """The messages of all branches of a run that have tokens in it."""
    begin = run.first * size
    end = begin + run.num_tokens
    return {part.message_id: None for place in run.branches for part in branches[place].parts_in(begin, end)}


def listed_twice(runs: list[Run]) -> set[int]:
    """Blocks that more than one run lists: two branches hold different parts of what is in them."""
    times = Counter(block for run in runs for block in set(run.blocks) if block is not None)
    return {block for block, count in times.items() if count > 1}


def _common_end(branches: list[Branch], group: list[int], first: int, size: int) -> int:
    """Behind the last block that all of a group have in common."""
    shortest = min(len(branches[one].rows) for one in group)
    head, *others = [branches[one] for one in group]
    at = first
    while at < shortest and all(_alike(head, one, at, size) for one in others):
        at += 1
    return at


def _alike(one: Branch, other: Branch, at: int, size: int) -> bool:
    part = slice(at * size, (at + 1) * size)
    return one.rows[at] == other.rows[at] and one.token_ids[part] == other.token_ids[part]


def _parted(
    branches: list[Branch], group: Any, at: int, parent: int | None, size: int
) -> list[tuple[list[int], int, int | None]]:
    """The parts of a group that go on with different blocks from ``at``, the last one first."""
    parts: list[list[int]] = []
    for one in group:
        if at >= len(branches[one].rows):
            continue
        part = next((part for part in parts if _alike(branches[part[0]], branches[one], at, size)), None)
        if part is None:
            parts.append([one])
        else:
            part.append(one)
    return [(part, at, parent) for part in reversed(parts)]
