"""Block tables of running requests over the pool and the prefix index: allocation, sharing, copy-on-write, publishing.

A request's blocks, in a moment between two steps (block size 4, computed 10 of 11 tokens):

    logical      0           1           2
    physical     7  (shared) 3  (stored) 9  (live tail)
    slots        ■ ■ ■ ■     ■ ■ ■ ■     ■ ■ □ □

Full blocks are in the prefix index, the part-filled tail is *live*: others may copy its valid slots. Nothing is
published before the step that wrote it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .block_pool import BlockPool
from .events import EventLog
from .prefix_index import Match, PrefixIndex
from .request import Request


class KVCacheManager:
    """Owner of all block tables.

    Args:
        num_blocks: blocks in the pool.
        block_size: tokens per block.
        enable_caching: whether finished blocks are kept and found again.
    """

    def __init__(self, num_blocks: int, block_size: int, enable_caching: bool = True) -> None:
        self.block_size = block_size
        self.enable_caching = enable_caching
        self.index = PrefixIndex(block_size)
        self.pool = BlockPool(num_blocks, self._evicted)
        self.events = EventLog(lambda block: (self.pool.ref_counts[block], self.pool.state(block)[0]))
        self._copies: list[tuple[int, int]] = []
        self._held: list[int] = []

    # -- looking up ---------------------------------------------------------------------------------------------

    def match(self, token_ids: Sequence[int], salt: str = "", limit: int | None = None) -> Match:
        """Longest cached prefix; looking changes no recency."""
        return self.index.match(token_ids, salt, limit) if self.enable_caching else Match()

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that ``num_tokens`` tokens fill or begin."""
        return -(-num_tokens // self.block_size)

    # -- a request's life ---------------------------------------------------------------------------------------

    def admit(self, request: Request, reserve: int = 0) -> bool:
        """Give a waiting request the blocks of its longest cached prefix, if all its tokens fit.

        Args:
            reserve: blocks that must stay available beside the request's own.

        Returns:
            False when it does not fit now; nothing has changed then. Afterwards ``request.num_computed`` is the
            number of tokens found, at most one less than its tokens, so that the last one is always computed.
        """
        assert not request.blocks
        found = self.match(request.token_ids, request.salt, request.num_tokens - 1)
        if not self._fits(request, found, reserve):
            found = Match(found.blocks)  # a copied tail needs its source to stay; without it the prompt may fit
            if not self._fits(request, found, reserve):
                return False
        for block in found.blocks:
            self.pool.acquire(block)
        request.blocks = list(found.blocks)
        request.num_stored = len(found.blocks)
        if found.blocks:
            self._emit("shared", found.blocks, request)
        request.metrics.blocks_shared += len(found.blocks)
        request.num_computed = len(found.blocks) * self.block_size
        if found.partial is not None:
            self._share_tail(request, found.partial, found.partial_tokens)
        return True

    def append_slots(self, request: Request, num_tokens: int) -> bool:
        """Make room for the next ``num_tokens`` tokens, in blocks that only this request writes to.

        Returns:
            False when the pool cannot give what is missing; nothing has changed then.
        """
        missing = self.blocks_for(request.num_computed + num_tokens) - len(request.blocks)
        tail = request.num_computed // self.block_size
        must_copy = tail < len(request.blocks) and self._is_shared(request.blocks[tail])
        if missing + must_copy > self.pool.num_available:
            return False
        if must_copy:
            self._copy_on_write(request, tail)
        if missing > 0:
            fresh = self.pool.allocate(missing)
            request.blocks += fresh
            request.metrics.blocks_new += missing
            self._emit("allocated", fresh, request)
        return True

    def commit(self, request: Request, num_tokens: int) -> None:
        """The step that computed ``num_tokens`` more tokens is done: publish what it filled."""
        request.num_computed += num_tokens
        if not self.enable_caching:
            return
        full = request.num_computed // self.block_size
        first = request.num_stored
        while request.num_stored < full:
            self._store_full(request, request.num_stored)
            request.num_stored += 1
        if full > first:
            parent = request.blocks[first - 1] if first else None
            self._emit("stored", request.blocks[first:full], request, parent=parent, num_tokens=self.block_size)
        if request.num_computed % self.block_size:
            self._make_live(request)

    def free(self, request: Request) -> None:
        """Take all blocks back; what is computed stays findable. Harmless for a request without blocks."""
        blocks, request.blocks = request.blocks, []
        if not blocks:
            return
        sources = self._drop_copies(blocks)
        if self.enable_caching and not sources:
            self._store_tail(request, blocks)
        for block in blocks[request.num_stored :]:
            self.index.unset_live(block)
        blocks += sources  # they succeed blocks of this table in the index, so they must be evicted before them
        self.pool.release(blocks)
        self._emit("released", blocks, request)
        request.num_computed = request.num_stored = 0

    def fork(self, source: Request, target: Request) -> None:
        """Give ``target`` all blocks of ``source``, the part-filled tail too; the first writer copies the tail."""
        assert not target.blocks
        for block in source.blocks:
            self.pool.acquire(block)
        target.blocks = list(source.blocks)
        target.num_computed, target.num_stored = source.num_computed, source.num_stored
        target.metrics.blocks_shared += len(target.blocks)
        self._emit("shared", target.blocks, target)

    # -- a step's copies ----------------------------------------------------------------------------------------

    @property
    def copies(self) -> list[tuple[int, int]]:
        """(source, destination) blocks to copy before this step writes; sources stay held until `step_done`."""
        return list(self._copies)

    def step_done(self) -> None:
        """The step's copies have happened: let go of their sources."""
        self._copies = []
        held, self._held = self._held, []
        if held:
            self.pool.release(held)
            self._emit("released", held, None)

    # -- the whole pool -----------------------------------------------------------------------------------------

    def reset(self) -> bool:
        """Forget all cached content; False, and nothing changed, while blocks are in use."""
        if self.pool.num_active:
            return False
        blocks = self.index.clear()
        for block in blocks:
            self.pool.set_content(block, False)
        self._emit("reset", blocks, None)
        return True

    def conserved(self, requests: Iterable[Request]) -> bool:
        """Whether counts equal the entries of all tables and every block is free, cached or active."""
        entries = [block for request in requests for block in request.blocks]
        return self.pool.conserved([*entries, *self._held])

    # -- inside -------------------------------------------------------------------------------------------------

    def _fits(self, request: Request, found: Match, reserve: int) -> bool:
        """Whether all tokens fit beside ``reserve`` blocks; cached hits count as used."""
        wanted = min(self.blocks_for(request.num_tokens + 1), self.pool.num_blocks)
        hits = [*found.blocks, *([] if found.partial is None else [found.partial])]
        unused_hits = sum(self.pool.is_cached(block) for block in hits)
        return wanted - len(found.blocks) + unused_hits + reserve <= self.pool.num_available

    def _share_tail(self, request: Request, block: int, num_tokens: int) -> None:
        """Take ``num_tokens`` slots of a part-matching block: in place if it holds no more than them and nobody uses
        it, else as a private copy."""
        request.num_computed += num_tokens
        if self.pool.is_cached(block) and len(self.index.tokens_of(block)) == num_tokens:
            self.index.remove(block)
            self.pool.acquire(block)
            self.pool.set_content(block, False)
            request.blocks.append(block)
            request.metrics.blocks_shared += 1
            self._emit("shared", [block], request, num_tokens=num_tokens)
            self._make_live(request)
            return
        self.pool.acquire(block)
        request.blocks.append(block)
        self._copy_on_write(request, len(request.blocks) - 1)

    def _copy_on_write(self, request: Request, logical: int) -> None:
        """Replace a table entry by a private copy; the request's reference to the source lasts until `step_done`."""
        source = request.blocks[logical]
        (target,) = self.pool.allocate(1)
        request.blocks[logical] = target
        self._copies.append((source, target))
        self._held.append(source)
        request.metrics.blocks_copied += 1
        self._emit("copied", [source, target], request, num_tokens=request.num_computed % self.block_size)

    def _drop_copies(self, targets: list[int]) -> list[int]:
        """Forget the copies into ``targets``; the sources, which need not stay for them any longer."""
        sources = [source for source, target in self._copies if target in targets]
        self._copies = [pair for pair in self._copies if pair[1] not in targets]
        for source in sources:
            self._held.remove(source)
        return sources

    def _is_shared(self, block: int) -> bool:
        return self.pool.ref_counts[block] - self._held.count(block) > 1

    def _evicted(self, block: int) -> None:
        parent = self.index.parent_of(block)
        self.index.remove(block)
        self._emit("evicted", [block], None, parent=parent)

    def _store_full(self, request: Request, logical: int) -> None:
        block = request.blocks[logical]
        parent = request.blocks[logical - 1] if logical else None
        self.index.unset_live(block)
        start = logical * self.block_size
        tokens = request.token_ids[start : start + self.block_size]
        owner = self.index.insert(block, tokens, parent, request.salt)
        if owner != block:
            self._use_instead(request, logical, owner)
            return
        self.pool.set_content(block, True)
        self._drop_covered(block)

    def _use_instead(self, request: Request, logical: int, owner: int) -> None:
        """Two requests computed the same block: keep the one that is findable, so that the content is stored once."""
        block = request.blocks[logical]
        assert not self._is_shared(block), "a block is written by one table only"
        self.pool.acquire(owner)
        request.blocks[logical] = owner
        self._emit("shared", [owner], request)
        self.pool.release([block])
        self._emit("released", [block], request)

    def _store_tail(self, request: Request, blocks: list[int]) -> None:
        """Publish the part-filled tail of a request that lets go of its blocks."""
        logical, filled = divmod(request.num_computed, self.block_size)
        if not filled or logical != request.num_stored or self._is_shared(blocks[logical]):
            return
        block, parent = blocks[logical], blocks[logical - 1] if logical else None
        tokens = request.token_ids[logical * self.block_size : request.num_computed]
        self.index.unset_live(block)
        if self.index.insert(block, tokens, parent, request.salt) == block:
            self.pool.set_content(block, True)
            self._drop_covered(block)
            self._emit("stored", [block], request, parent=parent, num_tokens=filled)

    def _drop_covered(self, block: int) -> None:
        for other in self.index.covered_by(block):
            if self.pool.is_cached(other) and other not in self.pool.pinned:
                self.index.remove(other)
                self.pool.set_content(other, False)
                self._emit("evicted", [other], None)

    def _make_live(self, request: Request) -> None:
        logical = request.num_computed // self.block_size
        block = request.blocks[logical]
        if logical != request.num_stored or self._is_shared(block):
            return
        parent = request.blocks[logical - 1] if logical else None
        self.index.set_live(block, parent, request.salt, _tail_of(request, logical * self.block_size))

    def _emit(self, kind: str, blocks: Sequence[int], request: Request | None, **more: int | None) -> None:
        self.events.emit(
            kind,
            blocks,
            request_id=request.request_id if request else None,
            labels=request.labels if request else None,
            **more,
        )


def _tail_of(request: Request, start: int) -> Callable[[], Sequence[int]]:
    return lambda: request.token_ids[start : request.num_computed]
