"""What the cache holds as a whole: kept, given up, forgotten, and whether the books balance.

forget(a)    root ── A ── B ── C          root ── A ── B'       C had only a: its block is free
                    a,b  a,b   a    ──>          b    b         b has the first tokens of B: it is shortened
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .block_copies import BlockCopies
from .block_pool import BlockPool
from .block_table import NO_BLOCK
from .cache_users import CacheUsers, Claims, tails_first
from .events import EventLog, EventType
from .live_tail import LiveRequest
from .prefix_index import Node, PrefixIndex
from .request import Request


class KVContent:
    """The part of `KVCacheManager` that is about content, whoever it serves."""

    index: PrefixIndex
    pool: BlockPool
    users: CacheUsers
    events: EventLog
    _copies: BlockCopies
    _tails: dict[Request, LiveRequest]
    _taken_over: dict[Request, Claims]
    _held_beside: dict[Request, list[int]]

    def reset(self) -> bool:
        """Forget all cached content, pinned too; False, and nothing changed, while blocks are in use."""
        if self.pool.num_active:
            return False
        blocks = self.index.clear()
        self.users.clear()
        for block in blocks:
            self.pool.set_content(block, False)
        self._emit("reset", blocks, None)
        return True

    def conserved(self, requests: Iterable[Request]) -> bool:
        """Whether counts equal the entries of all tables and every block is free, cached or active."""
        entries = [block for request in requests for table in request.tables for block in table if block != NO_BLOCK]
        beside = [block for blocks in self._held_beside.values() for block in blocks]
        return self.pool.conserved([*entries, *self._copies.held, *beside])

    def set_pinned(self, blocks: Sequence[int], pinned: bool) -> None:
        """Keep cached content from eviction, or no longer."""
        for block in blocks:
            if pinned:
                self.pool.pin(block)
            else:
                self.pool.unpin(block)
        if blocks:
            self._emit("pinned" if pinned else "unpinned", blocks, None)

    # -- forgetting ---------------------------------------------------------------------------------------------

    def forget(self, user: str) -> list[int]:
        """Give up the content that one user alone has, tails before heads.

        What a running request holds stays, and the user with it: ``users`` knows it until all is gone.

        Returns:
            The blocks whose content was given up.
        """
        gone: list[int] = []
        for claims in self._taken_over.values():
            claims.pop(user, None)
        for node, had in tails_first(self.users.drop(user)).items():
            gone += self._forget_node(node, user, had)
        for request in self._tails:
            if request.user == user and request.node is not None:
                self.users.note(user, request.node)
        if gone:
            self._emit("evicted", gone, None)
        return gone

    def _forget_node(self, node: Node, user: str, had: int) -> list[int]:
        """Give up what a user had of a node, its first ``had`` tokens, as far as nobody else has it."""
        if node.children or node.live:
            return []  # somebody goes on from here, so all of it is theirs, too
        if any(self.pool.ref_counts[block] for block in node.blocks if block != NO_BLOCK):
            self.users.note(user, node, had)
            return []
        claimed = max(self.users.at(node).values(), default=0)
        if claimed >= had:
            return []
        if claimed:
            heir = self.index.shorten(node, claimed)
            if heir is node:
                self._emit("stored", [one for one in node.blocks if one != NO_BLOCK], None, num_tokens=claimed)
                return []
            self.users.give(heir, self.users.take(node))
        blocks = self.index.remove(node)
        for block in blocks:
            self.pool.set_content(block, False)
        return blocks

    def _drop_content(self, blocks: list[int]) -> None:
        for block in blocks:
            self.pool.set_content(block, False)
        if blocks:
            self._emit("evicted", blocks, None)

    def _emit(self, kind: EventType, blocks: Sequence[int], request: Request | None, **more: int | None) -> None:
        self.events.emit(
            kind,
            blocks,
            request_id=request.request_id if request else None,
            labels=request.labels if request else None,
            **more,
        )
