"""All that is known of one physical block: what it holds, after what, for whom, and what it went through.

    root ── 3 ── 7 ── [9] ── 12        chain (3, 7), the block 9, children (12, 14)
                       └──── 14

A block is found in the prefix index, or in the table of a running request that has not published it yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from .block_table import NO_BLOCK
from .cache_users import ANYBODY, is_pin
from .errors import RequestError
from .inspect import block_row, owner_of
from .kv_cache_manager import KVCacheManager
from .prefix_index import Node
from .request import Request

LAST_EVENTS = 12
MOST_SESSIONS = 64
MOST_NODES = 4_000
"""Later blocks that are looked at for whose a block is: of one that very many go on from, some are not told."""


@dataclass
class _Place:
    """Where a block stands in what it is a part of.

    Attributes:
        logical: blocks before it.
        tokens: its valid tokens.
        chain: the blocks before it, first one first; None where its group holds one no more.
        children: blocks that go on from it.
        sessions: whose content it is, as far as the index knows; `ANYBODY` is not among them.
    """

    group: int = 0
    logical: int | None = None
    tokens: Sequence[int] = ()
    chain: list[int | None] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)


def block_detail(kv: KVCacheManager, block: int, requests: Sequence[Request]) -> dict[str, Any]:
    """What is known of a block.

    Returns:
        The block's row of the snapshot, and ``seq``, ``block_size``, ``kv_group``, ``logical`` (blocks before it),
        ``token_ids`` (the valid ones), ``chain`` (blocks before it, first one first), ``children`` (blocks that go on
        from it), ``holders`` (running requests that have it, with its place in their table), ``sessions`` (who
        have all of its content, at most 64) and ``events`` (its last ones, oldest first).

    Raises:
        RequestError: the pool has no such block.
    """
    if not 0 <= block < kv.pool.num_blocks:
        raise RequestError(f"Block {block} does not exist: blocks go from 0 to {kv.pool.num_blocks - 1}.")
    holders = _holders(block, requests)
    place = _place(kv, block, holders)
    num_tokens = len(place.tokens)
    owners = list(dict.fromkeys(owner_of(request) for request, _, _ in holders))
    whole = [one for one, _, logical in holders if one.num_computed - logical * kv.block_size >= num_tokens]
    sessions = [session for one in whole if (session := one.labels.get("session"))]
    return {
        **block_row(kv.pool, block, num_tokens, owners, kv.pool.history.clock()),
        "seq": kv.events.seq,
        "block_size": kv.block_size,
        "kv_group": place.group,
        "logical": place.logical,
        "token_ids": list(place.tokens),
        "chain": place.chain,
        "children": place.children,
        "holders": [
            {
                "request_id": request.request_id,
                "session_id": request.labels.get("session"),
                "message_id": request.labels.get("message"),
                "logical": logical,
            }
            for request, _, logical in holders
        ],
        "sessions": list(dict.fromkeys([*sessions, *place.sessions]))[:MOST_SESSIONS],
        "events": kv.events.about(block, LAST_EVENTS),
    }


def sessions_of(kv: KVCacheManager, block: int) -> list[str]:
    """The sessions that have computed or used the content of a block, as far as the index knows."""
    return _sessions(kv, kv.index.place_of(block)[0])[:MOST_SESSIONS] if block in kv.index else []


def _holders(block: int, requests: Sequence[Request]) -> list[tuple[Request, int, int]]:
    """(request, KV group, logical block) of each table that has the block."""
    return [
        (request, group, table.index(block))
        for request in requests
        for group, table in enumerate(request.tables)
        if block in table
    ]


def _place(kv: KVCacheManager, block: int, holders: list[tuple[Request, int, int]]) -> _Place:
    place = _in_index(kv, block) if block in kv.index else _Place()
    for request, group, logical in holders:
        start = logical * kv.block_size
        tokens = request.token_ids[start : min(start + kv.block_size, request.num_computed)]
        table = request.tables[group]
        if place.logical is None:
            place.group, place.logical = group, logical
            place.chain = [None if one == NO_BLOCK else one for one in table[:logical]]
        if len(tokens) > len(place.tokens):
            place.tokens = tokens
        if logical + 1 < len(table) and table[logical + 1] not in (NO_BLOCK, *place.children):
            place.children.append(table[logical + 1])
    return place


def _in_index(kv: KVCacheManager, block: int) -> _Place:
    node, group = kv.index.place_of(block)
    chain: list[int | None] = []
    before = node.parent
    while before is not None and before.tokens:
        chain.append(None if before.blocks[group] == NO_BLOCK else before.blocks[group])
        before = before.parent
    children = [child.blocks[group] for child in node.children if child.blocks[group] != NO_BLOCK]
    tails = [tail.blocks() for tail in node.live]
    children += [blocks[group] for blocks in tails if blocks and blocks[group] not in children]
    return _Place(group, len(chain), node.tokens, chain[::-1], children, _sessions(kv, node))


def _sessions(kv: KVCacheManager, node: Node) -> list[str]:
    """Who has computed or used all of a node: those noted at its end, or at a node after it."""
    found: dict[str, None] = {}
    for one in islice(node.subtree(), MOST_NODES):
        least = len(node.tokens) if one is node else 1
        users = (user for user, count in kv.users.at(one).items() if count >= least)
        found.update((user, None) for user in users if user != ANYBODY and not is_pin(user))
        if len(found) >= MOST_SESSIONS:
            break
    return list(found)
