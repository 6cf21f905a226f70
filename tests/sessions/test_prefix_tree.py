"""Block tables of branches merged into one tree: every branch finds its own table in it again, and each run is as long
as what its branches share."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pagedchat.sessions.branch_parts import BranchPart
from pagedchat.sessions.prefix_tree import Branch, Run, listed_twice, merge, messages_of

SIZE = 3


@st.composite
def trees(draw: st.DrawFn) -> list[Branch]:
    """Branches that go on from each other's beginnings; blocks of some beginnings are not in the pool."""
    lists: list[list[int]] = []
    for _ in range(draw(st.integers(0, 6))):
        before = draw(st.sampled_from(lists)) if lists else []
        kept = draw(st.integers(0, len(before)))
        lists.append([*before[:kept], *draw(st.lists(st.integers(0, 2), max_size=10))])
    pool: dict[tuple[int, ...], int | None] = {}
    branches = []
    for number, ids in enumerate(lists):
        rows = []
        for at in range(0, len(ids), SIZE):
            key = tuple(ids[: at + SIZE])
            if key not in pool:
                gone = at > 0 and pool[tuple(ids[:at])] is None
                pool[key] = None if gone or draw(st.integers(0, 4)) == 0 else len(pool)
            rows.append(row(at // SIZE, pool[key], len(ids[at : at + SIZE])))
        cuts = sorted(draw(st.sets(st.integers(1, max(1, len(ids))), max_size=4)) | {0, len(ids)})
        parts = [(f"{number}-{end}", end - start) for start, end in pairwise(cuts) if end <= len(ids)]
        branches.append(branch(str(number), ids, parts, rows))
    return branches


def branch(end: str, ids: list[int], sizes: list[tuple[str, int]], rows: list[dict[str, Any]]) -> Branch:
    """A branch of messages of so many tokens each."""
    starts = accumulate((size for _, size in sizes), initial=0)
    parts = [BranchPart(name, "user", at, ids[at : at + size]) for (name, size), at in zip(sizes, starts, strict=False)]
    return Branch(end, ids, parts, rows)


def row(logical: int, block: int | None, tokens: int) -> dict[str, Any]:
    return {"logical": logical, "block": block, "num_tokens": tokens, "cached_tokens": tokens if block else 0}


def way(runs: list[Run], place: int) -> list[Run]:
    """The runs of a branch, from the first one down."""
    return [one for one in runs if place in one.branches]


@given(trees())
def test_going_down_the_runs_of_a_branch_gives_its_block_table(branches: list[Branch]) -> None:
    runs = merge(branches, SIZE)
    for place, branch in enumerate(branches):
        path = way(runs, place)
        assert [row for run in path for row in run.rows] == branch.rows
        assert [run.first for run in path] == [0, *accumulate(len(run.rows) for run in path)][: len(path)]
        assert sum(run.num_tokens for run in path) == len(branch.token_ids)
        for above, below in pairwise(path):
            assert below.parent is not None and runs[below.parent] is above
            assert set(below.branches) <= set(above.branches)
    assert all(run.rows for run in runs)


@given(trees())
def test_runs_end_only_where_branches_part_or_end(branches: list[Branch]) -> None:
    runs = merge(branches, SIZE)
    for place, run in enumerate(runs):
        below = [one for one in runs if one.parent == place]
        ended = len(run.branches) - sum(len(one.branches) for one in below)
        assert ended or len(below) != 1, "one run that all go on with is a part of this one"
    for place in {run.parent for run in runs}:
        begins = [
            (run.rows[0]["block"], branches[run.branches[0]].token_ids[run.first * SIZE :][:SIZE])
            for run in runs
            if run.parent == place
        ]
        assert len(begins) == len({str(one) for one in begins}), "what is the same stands once"


@given(trees())
def test_one_run_of_a_branch_is_named_for_each_of_its_messages(branches: list[Branch]) -> None:
    runs = merge(branches, SIZE)
    inside = messages_of(runs, branches, SIZE)
    for place, branch in enumerate(branches):
        told = [one for at, run in enumerate(runs) if place in run.branches for one in inside[at]]
        names = [part.message_id for part in branch.parts]
        own = [one for one in told if one[0].startswith(f"{place}-")]
        assert sorted(name for name, named in own if named) == sorted(name for name in names)
        assert {name for name, _ in own} == set(names)


def test_a_fork_within_a_block_parts_at_that_block() -> None:
    first = branch("a", [1, 2, 3, 4, 5, 6, 7], [("", 4), ("reply a", 3)], [row(0, 5, 3), row(1, 8, 3), row(2, 2, 1)])
    second = branch("b", [1, 2, 3, 4, 9], [("", 4), ("reply b", 1)], [row(0, 5, 3), row(1, 8, 2)])
    runs = merge([first, second], SIZE)
    assert [(run.first, run.blocks, run.branches, run.parent) for run in runs] == [
        (0, [5], [0, 1], None),
        (1, [8, 2], [0], 0),
        (1, [8], [1], 0),
    ]
    assert listed_twice(runs) == {8}
    told = messages_of(runs, [first, second], SIZE)
    assert told == [[("", True)], [("", False), ("reply a", True)], [("", False), ("reply b", True)]]


def test_replies_that_begin_alike_name_the_blocks_of_their_own() -> None:
    first = branch("a", [1, 2, 3, 4, 5, 6, 7], [("you", 2), ("reply a", 5)], [row(0, 5, 3), row(1, 8, 3), row(2, 2, 1)])
    second = branch("b", [1, 2, 3, 4, 5, 9], [("you", 2), ("reply b", 4)], [row(0, 5, 3), row(1, 7, 3)])
    runs = merge([first, second], SIZE)
    assert messages_of(runs, [first, second], SIZE) == [
        [("you", True), ("reply a", False), ("reply b", False)],
        [("reply a", True)],
        [("reply b", True)],
    ]
