"""Block tables of running requests over the pool and the prefix index: allocation, sharing, copy-on-write, publishing.

A request's blocks, in a moment between two steps (block size 4, computed 10 of 11 tokens):

    logical      0           1           2
    physical     7  (shared) 3  (stored) 9  (live tail)
    slots        ■ ■ ■ ■     ■ ■ ■ ■     ■ ■ □ □

Full blocks are in the prefix index, the part-filled tail is *live*: others may copy its valid slots. Nothing is
published before the step that wrote it is done.

A model has one or more KV groups: layers that see everything, or only a window of W positions. Each group has a table
of its own over the one pool, all of the same length; blocks behind a group's window are let go of (`NO_BLOCK`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from .admission import Admission
from .block_copies import BlockCopies
from .block_pool import BlockPool
from .block_table import NO_BLOCK, BlockTable, block_before, in_token_order
from .cache_users import CacheUsers, Claims
from .events import EventLog
from .kv_content import KVContent
from .kv_demand import KVDemand
from .live_tail import LiveRequest
from .prefix_index import Match, Node, PrefixIndex
from .request import Request


class KVCacheManager(KVContent):
    """Owner of all block tables.

    Args:
        num_blocks: blocks in the pool.
        block_size: tokens per block.
        enable_caching: whether finished blocks are kept and found again.
        windows: the KV groups: how many positions back the layers of each see, None for all of them.
        max_step_tokens: most tokens of one request in one step (see `KVDemand`).
        clock: seconds, for the history of the blocks.

    Attributes:
        users: whose the cached prefixes are.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        enable_caching: bool = True,
        windows: Sequence[int | None] = (None,),
        max_step_tokens: int = 512,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.block_size = block_size
        self.enable_caching = enable_caching
        self.users = CacheUsers()
        self.index = PrefixIndex(block_size, windows, self.users.leave)
        self.windows: tuple[int | None, ...] = self.index.windows
        self.pool = BlockPool(num_blocks, self._evicted, clock)
        self.events = EventLog(lambda block: (self.pool.ref_counts[block], self.pool.state(block)[0]))
        self.demand = KVDemand(num_blocks, block_size, self.windows, max_step_tokens)
        self.admission = Admission(self.pool, self.index, self.demand)
        self._tails: dict[Request, LiveRequest] = {}
        self._taken_over: dict[Request, Claims] = {}  # whose tails were taken in place, until they are stored again
        self._held_beside: dict[Request, list[int]] = {}  # copied tails that are to be there afterwards
        self._copies = BlockCopies()

    # -- looking up ---------------------------------------------------------------------------------------------

    def match(self, token_ids: Sequence[int], salt: str = "", limit: int | None = None) -> Match:
        """Longest cached prefix; looking changes no recency."""
        return self.index.match(token_ids, salt, limit) if self.enable_caching else Match()

    def match_request(self, request: Request) -> Match:
        """What a waiting request would find now: at most one token less than it has, so that the last one is always
        computed; nothing if it needs the logits of its whole prompt."""
        if request.needs_prompt_logits:
            return Match()
        return self.match(request.token_ids, request.salt, request.num_tokens - 1)

    def blocks_of(self, found: Match) -> list[int]:
        """The blocks of a hit that whoever goes on from it sees, in the order of their tokens."""
        return [*in_token_order(self._tables_of(found)), *found.partial]

    # -- a request's life ---------------------------------------------------------------------------------------

    def admit(self, request: Request, found: Match | None = None, reserve: int = 0) -> bool:
        """Give a waiting request the blocks of its longest cached prefix, if all its tokens fit.

        Args:
            found: what `match_request` gave just now; looked up when None.
            reserve: blocks that must stay available beside the request's own.

        Returns:
            False when it does not fit now; nothing has changed then. Afterwards ``request.num_computed`` is the
            number of tokens found.
        """
        assert not any(request.tables)
        found = self.match_request(request) if found is None else found
        if not self._fits(request, found, reserve):
            found = self._without_tail(request, found)  # a copied tail needs its source to stay; without it it may fit
            if not self._fits(request, found, reserve):
                return False
        self._share(request, found)
        return True

    def can_admit(self, request: Request, found: Match, reserve: int) -> bool:
        """Whether `admit` would succeed."""
        return self._fits(request, found, reserve) or self._fits(request, self._without_tail(request, found), reserve)

    def append_slots(self, request: Request, num_tokens: int) -> bool:
        """Make room for the next ``num_tokens`` tokens, in blocks that only this request writes to.

        Returns:
            False when the pool cannot give what is missing; nothing has changed then.
        """
        tables, counts, computed = request.tables, self.pool.ref_counts, request.num_computed
        tail, length = computed // self.block_size, len(tables[0])
        missing = (computed + num_tokens - 1) // self.block_size + 1 - length
        shared = [] if tail >= length else [t for t in tables if counts[t[tail]] > 1 and self._is_shared(t[tail])]
        if missing <= 0 and not shared:
            return True
        if max(missing, 0) * len(tables) + len(shared) > self.pool.num_available:
            return False
        for table in shared:
            self._copy_on_write(request, table, tail)
        if missing > 0:
            fresh = self.pool.allocate(missing * len(tables))
            for group, table in enumerate(tables):
                table.extend(fresh[group * missing : (group + 1) * missing])
            request.metrics.blocks_new += len(fresh)
            self._emit("allocated", fresh, request)
        return True

    def commit(self, request: Request, num_tokens: int) -> None:
        """The step that computed ``num_tokens`` more tokens is done: publish what it filled, let go of what no layer
        sees any more."""
        request.num_computed += num_tokens
        full = request.num_computed // self.block_size
        if self.enable_caching and request.keep and request.num_stored < full:
            first = request.num_stored
            parent = block_before(request.blocks, first)
            while request.num_stored < full:
                self._store_full(request, request.num_stored)
                request.num_stored += 1
            stored = [table[logical] for logical in range(first, full) for table in request.tables]
            self._emit("stored", stored, request, parent=parent, num_tokens=self.block_size)
        if any(self.windows):
            self._release_behind(request)

    def free(self, request: Request) -> None:
        """Take all blocks back; what is computed stays findable. Harmless for a request without blocks."""
        if not any(request.tables):
            self._let_go(request)
            return
        blocks = in_token_order(request.tables)
        sources = self._copies.drop(blocks)
        if self.enable_caching and not sources:
            self._store_tail(request)
        self._let_go(request)
        sources = [*sources, *self._held_beside.pop(request, [])]
        blocks += sources  # they succeed blocks of this table in the index, so they must be evicted before them
        self.pool.release(blocks)
        self._emit("released", blocks, request)

    def fork(self, source: Request, target: Request) -> None:
        """Give ``target`` all blocks of ``source``, the part-filled tail too; the first writer copies the tail."""
        assert not any(target.tables)
        shared = in_token_order(source.tables)
        for block in shared:
            self.pool.acquire(block)
        target.tables = [table[:] for table in source.tables]
        target.num_computed, target.num_stored = source.num_computed, source.num_stored
        if source.node is not None:
            self._hang(target, source.node)
        if source in self._taken_over:
            self._taken_over[target] = dict(self._taken_over[source])
        target.metrics.blocks_shared += len(shared)
        self._emit("shared", shared, target)

    # -- a step's copies ----------------------------------------------------------------------------------------

    @property
    def copies(self) -> list[tuple[int, int]]:
        """(source, destination) blocks to copy before this step writes; sources stay held until `step_done`."""
        return self._copies.pairs

    def step_done(self) -> None:
        """The step's copies have happened: let go of their sources."""
        held = self._copies.done()
        if held:
            self.pool.release(held)
            self._emit("released", held, None)

    # -- inside -------------------------------------------------------------------------------------------------

    def _fits(self, request: Request, found: Match, reserve: int) -> bool:
        return self.admission.fits(request, self.blocks_of(found), len(found.partial), reserve)

    def _without_tail(self, request: Request, found: Match) -> Match:
        if not found.partial:
            return found
        return self.match(request.token_ids, request.salt, len(found.nodes) * self.block_size)

    def _tables_of(self, found: Match) -> list[BlockTable]:
        """Each group's table over the full blocks of a hit, without what lies behind its window."""
        length, tables = found.num_tokens(self.block_size), []
        for group in range(len(self.windows)):
            first = min(self.index.first_needed(group, length), len(found.nodes))
            seen = [node.blocks[group] for node in found.nodes[first:]]
            tables.append(BlockTable("i", [NO_BLOCK] * first + seen))
        return tables

    def _share(self, request: Request, found: Match) -> None:
        tables = self._tables_of(found)
        shared = in_token_order(tables)
        for block in shared:
            self.pool.acquire(block)
        request.tables = tables
        request.num_stored = len(found.nodes)
        request.num_computed = len(found.nodes) * self.block_size
        if shared:
            self._emit("shared", shared, request)
        request.metrics.blocks_shared += len(shared)
        if self.enable_caching:
            self._hang(request, found.nodes[-1] if found.nodes else self.index.root(request.salt))
        if found.partial:
            self._share_tail(request, found)

    def _share_tail(self, request: Request, found: Match) -> None:
        """Take the first slots of a part-matching block: in place if it holds no more than them and nobody uses it,
        else as a private copy."""
        request.num_computed += found.partial_tokens
        node = found.partial_node
        in_place = node is not None and len(node.tokens) == found.partial_tokens and self._is_idle(node)
        in_place = in_place and request.keep
        if node is not None and in_place:
            self._taken_over[request] = self.users.take(node)
            self.index.remove(node)
        elif node is not None:
            self.users.note(request.user, node, found.partial_tokens)
            if not request.keep:
                self._hold_beside(request, found.partial)
        for table, block in zip(request.tables, found.partial, strict=True):
            self.pool.acquire(block)
            table.append(block)
            if not in_place:
                self._copy_on_write(request, table, len(table) - 1)
        if in_place:
            for block in found.partial:
                self.pool.set_content(block, False)
            request.metrics.blocks_shared += len(found.partial)
            self._emit("shared", found.partial, request, num_tokens=found.partial_tokens)

    def _hold_beside(self, request: Request, blocks: list[int]) -> None:
        """A request that leaves nothing behind must not cost the chat that it looks at its tail either."""
        for block in blocks:
            self.pool.acquire(block)
        self._held_beside[request] = list(blocks)

    def _is_idle(self, node: Node) -> bool:
        """Whether nobody uses a node's blocks and nothing follows them."""
        if node.children or node.live:
            return False
        return all(self.pool.is_evictable(block) for block in node.blocks)

    def _copy_on_write(self, request: Request, table: BlockTable, logical: int) -> None:
        """Replace a table entry by a private copy; the request's reference to the source lasts until `step_done`."""
        source = table[logical]
        (target,) = self.pool.allocate(1)
        table[logical] = target
        self._copies.add(source, target)
        self.pool.history.copied += 1
        request.metrics.blocks_copied += 1
        self._emit("copied", [source, target], request, num_tokens=request.num_computed % self.block_size)

    def _is_shared(self, block: int) -> bool:
        return self.pool.ref_counts[block] - self._copies.holds(block) > 1

    def _evicted(self, block: int) -> None:
        parent = self.index.parent_of(block)
        lost = self.index.forget(block)
        self._emit("evicted", [block], None, parent=parent)
        self._drop_content(lost)

    def _store_full(self, request: Request, logical: int) -> None:
        blocks = [table[logical] for table in request.tables]
        start = logical * self.block_size
        assert request.node is not None
        node = self.index.insert(request.node, request.token_ids[start : start + self.block_size], blocks)
        for table, block, owner in zip(request.tables, blocks, node.blocks, strict=True):
            if owner == block:
                self.pool.set_content(block, True)
            else:
                self._use_instead(request, table, logical, owner)
        self._hang(request, node)
        self.users.give(node, self._taken_over.pop(request, {}))
        self._drop_covered(node)

    def _use_instead(self, request: Request, table: BlockTable, logical: int, owner: int) -> None:
        """Two requests computed the same block: keep the one that is findable, so that the content is stored once."""
        block = table[logical]
        assert not self._is_shared(block), "a block is written by one table only"
        self.pool.acquire(owner)
        table[logical] = owner
        self._emit("shared", [owner], request)
        self.pool.release([block])
        self._emit("released", [block], request)

    def _store_tail(self, request: Request) -> None:
        """Publish the part-filled tail of a request that lets go of its blocks."""
        logical, filled = divmod(request.num_computed, self.block_size)
        if not filled or not request.keep or logical != request.num_stored or request.node is None:
            return
        blocks = [table[logical] for table in request.tables]
        if any(self._is_shared(block) for block in blocks):
            return
        tokens = request.token_ids[logical * self.block_size : request.num_computed]
        node = self.index.insert(request.node, tokens, blocks)
        self.users.move(request.user, request.node, node, filled)
        self.users.give(node, self._taken_over.pop(request, {}))
        kept = [block for block, owner in zip(blocks, node.blocks, strict=True) if block == owner]
        if not kept:
            return
        for block in kept:
            self.pool.set_content(block, True)
        self._drop_covered(node)
        self._emit("stored", kept, request, parent=block_before(request.blocks, logical), num_tokens=filled)

    def _drop_covered(self, node: Node) -> None:
        for other in self.index.covered_by(node):
            if self._is_idle(other):
                self.users.give(node, self.users.take(other))
                self._drop_content(self.index.remove(other))

    def _release_behind(self, request: Request) -> None:
        """Windowed groups let go of the blocks that no token to come sees."""
        released = []
        for group, table in enumerate(request.tables):
            first = min(self.index.first_needed(group, request.num_computed), len(table))
            for logical in range(first - 1, -1, -1):
                if table[logical] == NO_BLOCK:
                    break
                released.append(table[logical])
                table[logical] = NO_BLOCK
        if released:
            self.pool.release(released[::-1])
            self._emit("released", released, request)

    def _hang(self, request: Request, node: Node) -> None:
        """Let a running request's sequence go on from ``node``, where others find its tail."""
        tail = self._tails.setdefault(request, LiveRequest(request, self.block_size, self._copies))
        before, request.node = request.node, node
        self.index.attach(node, tail)
        self.users.move(request.user, before, node)
        if before is not None:
            self.index.detach(before, tail)

    def _let_go(self, request: Request) -> None:
        """Forget a request's tables and its place in the index."""
        tail = self._tails.pop(request, None)
        if tail is not None and request.node is not None:
            for user in self._taken_over.pop(request, {}):
                self.users.note(user, request.node)
            self.index.detach(request.node, tail)
        request.node = None
        request.tables = [BlockTable("i") for _ in self.windows]
        request.num_computed = request.num_stored = 0
