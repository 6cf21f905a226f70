"""Views of a large pool in few bytes: what the panel asks of an engine, which answers between two steps.

The whole snapshot has a row for each block; at 50,000 blocks it takes the engine longer than many steps do. These say
the same in parts, each as short as can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from .block_detail import sessions_of
from .inspect import block_row, owners_of_blocks, pool_books
from .kv_cache_manager import KVCacheManager
from .request import Request


def pool_brief(kv: KVCacheManager, requests: Sequence[Request]) -> dict[str, Any]:
    """What a snapshot says of states, counts and owners.

    Returns:
        The totals, ``pins`` (the pinned blocks), and ``states``: runs of (letter, how many blocks), f free, c cached, a
        active, s shared; ``owners``: names; ``held``: runs of (blocks skipped since the run before, how many,
        references, places in ``owners``).
    """
    pool, owners = kv.pool, owners_of_blocks(requests)
    names: dict[str, int] = {}
    held = _runs(
        (block, count, [names.setdefault(one, len(names)) for one in owners.get(block, ())])
        for block, count in enumerate(pool.ref_counts)
        if count
    )
    return {
        **pool_books(kv, requests),
        "block_size": kv.block_size,
        "num_blocks": pool.num_blocks,
        "pins": sorted(pool.pinned),
        "states": [(letter, sum(1 for _ in run)) for letter, run in groupby(pool.letters())],
        "owners": list(names),
        "held": held,
    }


def block_ages(kv: KVCacheManager) -> dict[str, Any]:
    """The history of all blocks that are not free, as columns.

    Returns:
        ``seq`` and ``time`` (seconds since the epoch) of this moment; ``blocks``: runs of (blocks skipped since the run
        before, how many); for each of them in order ``born_ms`` and ``idle_ms``, ages in milliseconds, the latter 0
        while it is in use; ``reuses`` and ``counts``: runs of (times it was taken again, or references; how many
        blocks).
    """
    pool, history = kv.pool, kv.pool.history
    letters, now = pool.letters(), history.clock()
    blocks = [block for block, letter in enumerate(letters) if letter != "f"]
    counts, born, used = pool.ref_counts, history.born, history.last_used
    return {
        "seq": kv.events.seq,
        "time": kv.events.now(),
        "blocks": _runs((block,) for block in blocks),
        "born_ms": [round(1e3 * (now - born[block])) for block in blocks],
        "idle_ms": [0 if counts[block] else round(1e3 * (now - used[block])) for block in blocks],
        "reuses": _alike(history.reuses[block] for block in blocks),
        "counts": _alike(counts[block] for block in blocks),
    }


def spread(runs: Iterable[Sequence[Any]]) -> Iterator[int]:
    """The blocks of runs of (blocks skipped since the run before, how many, ...), in order."""
    end = 0
    for skipped, size, *_ in runs:
        begin = end + skipped
        end = begin + size
        yield from range(begin, end)


def _runs(blocks: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Blocks in order, each with what is told of it, as such runs: neighbours of which the same is told are one."""
    runs: list[list[Any]] = []
    end = 0
    for block, *told in blocks:
        if runs and block == end and told == runs[-1][2:]:
            runs[-1][1] += 1
        else:
            runs.append([block - end, 1, *told])
        end = block + 1
    return runs


def _alike(values: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of (value, how many)."""
    return [(value, sum(1 for _ in run)) for value, run in groupby(values)]


def idle_rows(kv: KVCacheManager, most: int) -> list[dict[str, Any]]:
    """Blocks that are held long and reused little: rows of cached blocks that nobody uses, those first that have lived
    longest for each time they were used; ``sessions`` are those that have computed or used them, as far as known.
    """
    pool, history, index = kv.pool, kv.pool.history, kv.index
    now = history.clock()
    cached = [block for block, letter in enumerate(pool.letters()) if letter == "c"]
    cached.sort(key=lambda block: (now - history.born[block]) / (1 + history.reuses[block]), reverse=True)
    return [
        {**block_row(pool, block, len(index.tokens_of(block)), [], now), "sessions": sessions_of(kv, block)}
        for block in cached[:most]
    ]
