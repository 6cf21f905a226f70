"""Cuts the attention of one step into tiles, and finds the blocks that decoding sequences have in common.

A *run* is a stretch of slots in blocks that several block tables hold at the same places, all equal up to there:
forks, siblings, chats under one system prompt. Its members' queries read it together, and each member reads what comes
after its runs alone. Runs nest:

    members    slots
    a b c d    0 ........ 1024 the system prompt
    a b                   1024 .... 1600 a history and its fork

Rows are listed in ``order``, where the members of a run stand side by side; a tile is a stretch of that list. What a
row gathers in several tiles are its *parts*, numbered in the order of slots and merged in the end.
"""

from __future__ import annotations

from numba import njit

TILE_TOKENS = 16
SPLIT = 256
LEAST_SHARED = 64
"""Slots from which a run pays for one more part of each member."""

SEQUENCE, FIRST, TOKENS, BEGIN, END, PART = range(6)
COMPLETE, REACHED, PARTS = range(3)
RUN_FIRST, RUN_MEMBERS, RUN_BEGIN, RUN_END, RUN_PART = range(5)


@njit(nogil=True, inline="always")
def splits_of(slots):
    """Parts that a stretch of slots is cut into."""
    return (slots + SPLIT - 1) // SPLIT


@njit(nogil=True, error_model="numpy")
def plan_tiles(
    query_start, positions, block_tables, block_size, share, order, first_part, states, runs, stack, tiles, merges
):  # fmt: skip
    """Cuts a step into tiles int32 [n, 6]: sequence, first place in ``order``, tokens, slots begin and end, part.

    A tile's queries are rows ``order[first : first + tokens]``; they read the blocks of one ``sequence``. A prompt's
    tiles hold up to 16 neighbouring rows. A decoding row has one part for every 256 slots, which depends on itself
    alone, unless ``share`` lets it share runs with others.

    ``first_part`` int32 [num_tokens]: index of a row's first partial result, or -1 for a row of one part. ``merges``
    int32 [m, 3] lists the others: row, first partial result, parts. ``order`` int32 [num_tokens] and the rest
    (int32 [num_tokens, 3], [num_tokens, 5], [num_tokens, 3]) is scratch. Returns the numbers of tiles, merges and
    partial results; writes only the tiles and merges that fit.
    """
    count, alone = 0, 0
    for s in range(query_start.shape[0] - 1):
        if query_start[s + 1] - query_start[s] == 1:
            order[alone] = s
            states[s, COMPLETE], states[s, REACHED], states[s, PARTS] = positions[query_start[s]] // block_size, 0, 0
            alone += 1
    if share and alone > 1:
        for index in range(find_runs(block_tables, block_size, order, alone, states, runs, stack)):
            count = add_run(order, runs[index], tiles, count)
    place = alone
    for s in range(query_start.shape[0] - 1):
        row, end = query_start[s], query_start[s + 1]
        if end - row == 1:
            continue
        while row < end:
            tokens = min(TILE_TOKENS, end - row)
            count = add_tile(tiles, count, s, place, tokens, 0, positions[row + tokens - 1] + 1, 0)
            for _ in range(tokens):
                order[place], first_part[row] = row, -1
                place += 1
                row += 1
    merged, partials = 0, 0
    for place in range(alone):
        s = order[place]
        row, begin, shared = query_start[s], states[s, REACHED], states[s, PARTS]
        end = positions[row] + 1
        parts = shared + splits_of(end - begin)
        order[place], first_part[row] = row, partials if parts > 1 else -1
        if parts > 1:
            if merged < merges.shape[0]:
                merges[merged, 0], merges[merged, 1], merges[merged, 2] = row, partials, parts
            merged += 1
            partials += parts
        for part in range(shared, parts):
            count = add_tile(tiles, count, s, place, 1, begin, min(end, begin + SPLIT), part)
            begin += SPLIT
    return count, merged, partials


@njit(nogil=True, error_model="numpy")
def add_tile(tiles, count, sequence, first, tokens, begin, end, part):
    """Writes one tile if it fits; returns the number of tiles."""
    if count < tiles.shape[0]:
        tile = tiles[count]
        tile[SEQUENCE], tile[FIRST], tile[TOKENS], tile[BEGIN], tile[END], tile[PART] = (
            sequence, first, tokens, begin, end, part,
        )  # fmt: skip
    return count + 1


@njit(nogil=True, error_model="numpy")
def add_run(order, run, tiles, count):
    """The tiles of one run; returns the number of tiles."""
    begin, part, last = run[RUN_BEGIN], run[RUN_PART], run[RUN_FIRST] + run[RUN_MEMBERS]
    while begin < run[RUN_END]:
        end = min(run[RUN_END], begin + SPLIT)
        for first in range(run[RUN_FIRST], last, TILE_TOKENS):
            count = add_tile(tiles, count, order[first], first, min(TILE_TOKENS, last - first), begin, end, part)
        begin, part = end, part + 1
    return count


@njit(nogil=True, error_model="numpy")
def find_runs(block_tables, block_size, order, count, states, runs, stack):
    """Finds the runs of the sequences ``order[:count]``; returns how many.

    A run ends before the block that holds the row's own position, so that each member has something left of its own.
    Rearranges ``order`` so that members stand side by side. Of each sequence ``states`` has the complete blocks before
    its own position, and takes the slots that runs cover and the parts they make. ``runs`` int32 [count, 5] takes
    first place in ``order``, members, slots begin and end, part; outer runs come before those within. ``stack`` int32
    [count, 3] is scratch: stretches of ``order`` whose sequences agree, and on how many blocks.
    """
    found, top = 0, 1
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, count, 0
    while top > 0:
        top -= 1
        first, end = stack[top, 0], stack[top, 1]
        common = agreement(block_tables, states, order[first:end], stack[top, 2])
        begin, part = states[order[first], REACHED], states[order[first], PARTS]
        slots = common * block_size - begin
        if slots >= LEAST_SHARED:
            run = runs[found]
            run[RUN_FIRST], run[RUN_MEMBERS], run[RUN_BEGIN], run[RUN_END] = first, end - first, begin, begin + slots
            run[RUN_PART] = part
            found += 1
            for place in range(first, end):
                states[order[place], REACHED], states[order[place], PARTS] = begin + slots, part + splits_of(slots)
        while first < end:
            last = bring_together(block_tables, states, order, first, end, common)
            if last - first > 1:
                stack[top, 0], stack[top, 1], stack[top, 2] = first, last, common + 1
                top += 1
            first = last
    return found


@njit(nogil=True, error_model="numpy")
def agreement(block_tables, states, members, common):
    """Complete blocks that all ``members`` have in common; they are known to agree on the first ``common``."""
    one = block_tables[members[0]]
    agreed = states[members[0], COMPLETE]
    for place in range(1, members.shape[0]):
        other = block_tables[members[place]]
        limit = min(agreed, states[members[place], COMPLETE])
        agreed = common
        while agreed < limit and one[agreed] == other[agreed]:
            agreed += 1
    return agreed


@njit(nogil=True, error_model="numpy")
def bring_together(block_tables, states, order, first, end, index):
    """Moves those of ``order[first:end]`` with the same complete block ``index`` as the first next to it.

    Returns where they end.
    """
    last = first + 1
    if states[order[first], COMPLETE] > index:
        block = block_tables[order[first], index]
        for place in range(last, end):
            s = order[place]
            if states[s, COMPLETE] > index and block_tables[s, index] == block:
                order[place], order[last] = order[last], s
                last += 1
    return last
