"""Views of the pool for people and tests: the snapshot, and where a branch's KV lies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from .block_pool import BlockPool
from .block_table import NO_BLOCK
from .kv_cache_manager import KVCacheManager
from .request import Request

_Place = tuple[int, "int | None", int, int]
"""Logical block, physical block or None, tokens found in it, tokens of the branch in it."""


def pool_books(kv: KVCacheManager, requests: Sequence[Request]) -> dict[str, Any]:
    """The totals of a snapshot, and whether the books balance."""
    pool = kv.pool
    return {
        "seq": kv.events.seq,
        "free": pool.num_free,
        "cached": pool.num_cached,
        "active": pool.num_active,
        "shared": pool.num_shared,
        "pinned": len(pool.pinned),
        "conserved": kv.conserved(requests),
    }


def pool_snapshot(kv: KVCacheManager, requests: Sequence[Request]) -> dict[str, Any]:
    """Every block and every live table; ``free + cached + active = num_blocks``, ``active`` includes ``shared``."""
    pool, owners, tokens = kv.pool, owners_of_blocks(requests), _valid_tokens(kv, requests)
    now = pool.history.clock()
    return {
        **pool_books(kv, requests),
        "block_size": kv.block_size,
        "num_blocks": pool.num_blocks,
        "blocks": [
            block_row(pool, block, tokens.get(block, 0), owners.get(block, []), now) for block in range(pool.num_blocks)
        ],
        "tables": [
            {
                "request_id": request.request_id,
                "session_id": request.labels.get("session"),
                "message_id": request.labels.get("message"),
                "num_tokens": request.num_computed,
                "kv_group": group,
                "blocks": [None if block == NO_BLOCK else block for block in table],
            }
            for request in requests
            for group, table in enumerate(request.tables)
            if table
        ],
    }


def branch_rows(
    kv: KVCacheManager, token_ids: Sequence[int], salt: str, requests: Sequence[Request]
) -> list[dict[str, Any]]:
    """One row a logical block: its tokens, the physical block or None, its count, and the requests that hold it."""
    return rows_of_branches(kv, [token_ids], salt, requests)[0]


def rows_of_branches(
    kv: KVCacheManager, branches: Sequence[Sequence[int]], salt: str, requests: Sequence[Request]
) -> list[list[dict[str, Any]]]:
    """The rows of several branches at one moment; see ``branch_rows``."""
    owners = owners_of_blocks(requests)
    made: dict[_Place, dict[str, Any]] = {}
    return [[_row_once(kv, owners, made, place) for place in _places(kv, ids, salt)] for ids in branches]


def _places(kv: KVCacheManager, token_ids: Sequence[int], salt: str) -> Iterator[_Place]:
    found = kv.match(token_ids, salt)
    full = found.blocks
    for logical in range(kv.demand.logical(len(token_ids))):
        wanted = min(kv.block_size, len(token_ids) - logical * kv.block_size)
        block, held = None, 0
        if logical < len(full):
            block, held = full[logical], wanted
        elif logical == len(full) and found.partial:
            block, held = found.partial[0], found.partial_tokens
        yield logical, None if block == NO_BLOCK else block, held, wanted


def _row_once(
    kv: KVCacheManager, owners: dict[int, list[str]], made: dict[_Place, dict[str, Any]], place: _Place
) -> dict[str, Any]:
    """The row of a place; the same one for all branches that have it."""
    row = made.get(place)
    if row is None:
        logical, block, held, wanted = place
        row = made[place] = {
            "logical": logical,
            "num_tokens": wanted,
            "block": block,
            "cached_tokens": held,
            "ref_count": 0 if block is None else kv.pool.ref_counts[block],
            "state": "missing" if block is None else kv.pool.state(block),
            "sharers": [] if block is None else owners.get(block, []),
        }
    return row


def block_row(pool: BlockPool, block: int, num_tokens: int, owners: list[str], now: float) -> dict[str, Any]:
    """A block of the snapshot. One that is not free has a history, too: ``born_s`` and ``last_used_s`` are ages in
    seconds, the latter 0 while it is in use."""
    state = pool.state(block)
    count = pool.ref_counts[block]
    row = {"id": block, "state": state, "ref_count": count, "num_tokens": num_tokens, "owners": owners}
    if state != "free":
        history = pool.history
        row["born_s"] = round(now - history.born[block], 3)
        row["last_used_s"] = 0.0 if count else round(now - history.last_used[block], 3)
        row["reuses"] = history.reuses[block]
        row["pinned"] = block in pool.pinned
    return row


def owner_of(request: Request) -> str:
    """Whose a request is: its session's, or its own."""
    return request.labels.get("session") or request.request_id


def owners_of_blocks(requests: Sequence[Request]) -> dict[int, list[str]]:
    """Sessions (or, without one, requests) whose tables hold each block."""
    owners: dict[int, list[str]] = defaultdict(list)
    for request in requests:
        name = owner_of(request)
        for block in (block for table in request.tables for block in table if block != NO_BLOCK):
            if name not in owners[block]:
                owners[block].append(name)
    return owners


def _valid_tokens(kv: KVCacheManager, requests: Sequence[Request]) -> dict[int, int]:
    valid = {block: len(kv.index.tokens_of(block)) for block in kv.index.blocks()}
    for request in requests:
        for table in request.tables:
            for logical, block in enumerate(table):
                held = min(kv.block_size, request.num_computed - logical * kv.block_size)
                valid[block] = max(valid.get(block, 0), held)
    return valid
