"""The pool of KV blocks: ids and reference counts, no tensors, no tokens.

    free     no content, count 0            taken first, the last one given back before others: its memory is in use
    cached   content kept, count 0          taken when nothing is free, least recently used first; never if pinned
    active   count >= 1
    shared   count >= 2 (also active)

A table that holds a block also holds the blocks before it, and tables are released tail first, so the least recently
used cached block never has a cached successor: chains lose their tails before their heads.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence

from .block_history import BlockHistory


class OutOfBlocksError(Exception):
    """Fewer blocks are free or cached than were asked for; nothing has changed."""


class BlockPool:
    """Owner of every block's reference count.

    Args:
        num_blocks: blocks in the pool.
        on_evict: called with a block id when its cached content is given up.
        clock: seconds, for the history.

    Attributes:
        num_shared: blocks with two references or more.
        history: totals, and what each block went through.
    """

    def __init__(
        self,
        num_blocks: int,
        on_evict: Callable[[int], None] = lambda block: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.num_blocks = num_blocks
        self.num_shared = 0
        self.history = BlockHistory(num_blocks, clock)
        self.ref_counts = [0] * num_blocks
        self.pinned: set[int] = set()
        self._free: deque[int] = deque(range(num_blocks))
        self._cached: OrderedDict[int, None] = OrderedDict()
        self._kept: set[int] = set()  # cached and pinned
        self._has_content = bytearray(num_blocks)
        self._on_evict = on_evict

    @property
    def num_free(self) -> int:
        """Blocks without content."""
        return len(self._free)

    @property
    def num_cached(self) -> int:
        """Blocks that nobody uses and whose content can be reused, pinned ones too."""
        return len(self._cached) + len(self._kept)

    @property
    def num_active(self) -> int:
        """Blocks with at least one reference."""
        return self.num_blocks - self.num_free - self.num_cached

    @property
    def num_available(self) -> int:
        """Blocks that could be handed out now: free ones, and cached ones that are not pinned."""
        return len(self._free) + len(self._cached)

    def state(self, block: int) -> str:
        """One of free, cached, active, shared."""
        count = self.ref_counts[block]
        if count:
            return "shared" if count > 1 else "active"
        return "cached" if self.is_cached(block) else "free"

    def letters(self) -> str:
        """The state of every block, one letter each: f free, c cached, a active, s shared."""
        letters = bytearray(b"f") * self.num_blocks
        for cached in (self._cached, self._kept):
            for block in cached:
                letters[block] = ord("c")
        for block, count in enumerate(self.ref_counts):
            if count:
                letters[block] = ord("s" if count > 1 else "a")
        return letters.decode("ascii")

    def is_cached(self, block: int) -> bool:
        """Whether nobody uses the block and its content is kept."""
        return block in self._cached or block in self._kept

    def is_evictable(self, block: int) -> bool:
        """Whether the block is cached and not pinned."""
        return block in self._cached

    def allocate(self, count: int) -> list[int]:
        """Take ``count`` blocks with one reference each, content-free ones first.

        Raises:
            OutOfBlocksError: when there are not enough; the pool is unchanged.
        """
        if count > self.num_available:
            raise OutOfBlocksError(f"{count} blocks wanted, {self.num_available} available")
        taken = []
        for _ in range(count):
            block = self._free.popleft() if self._free else self._evict()
            self.ref_counts[block] = 1
            taken.append(block)
        self.history.note_allocated(taken)
        return taken

    def acquire(self, block: int) -> None:
        """Add a reference to a block that is in use or cached."""
        count = self.ref_counts[block]
        if count == 0:
            self._leave_cache(block)
        elif count == 1:
            self.num_shared += 1
        self.ref_counts[block] = count + 1
        self.history.note_reused(block, was_in_use=count > 0)

    def release(self, blocks: Sequence[int]) -> None:
        """Drop one reference of each block, last block first, so that a chain's tail is evicted before its head."""
        unused = []
        for block in reversed(blocks):
            count = self.ref_counts[block] = self.ref_counts[block] - 1
            assert count >= 0, f"block {block} released twice"
            if count == 1:
                self.num_shared -= 1
            elif count == 0:
                unused.append(block)
                if self._has_content[block]:
                    self._enter_cache(block)
                else:
                    self._free.appendleft(block)
        self.history.note_released(unused)

    def set_content(self, block: int, has_content: bool) -> None:
        """Say whether a block's content is worth keeping once nobody uses it."""
        self._has_content[block] = has_content
        if not has_content:
            self.pinned.discard(block)
            if self.is_cached(block):
                self._leave_cache(block)
                self._free.appendleft(block)
                self.history.note_evicted(block)

    def pin(self, block: int) -> None:
        """Never evict a block that holds content; not a reference."""
        assert self._has_content[block], f"block {block} holds nothing worth pinning"
        self.pinned.add(block)
        if block in self._cached:
            del self._cached[block]
            self._kept.add(block)

    def unpin(self, block: int) -> None:
        """The block may be evicted again, after those that are cached now."""
        self.pinned.discard(block)
        if block in self._kept:
            self._kept.remove(block)
            self._cached[block] = None

    def conserved(self, references: Iterable[int]) -> bool:
        """Whether the books balance.

        Args:
            references: every block reference there is: all entries of all block tables, and blocks held by copies.
        """
        held = Counter(references)
        lists = [*self._free, *self._cached, *self._kept]
        return (
            len(set(lists)) == len(lists)
            and all(self.ref_counts[block] == 0 for block in lists)
            and len(lists) + sum(count > 0 for count in self.ref_counts) == self.num_blocks
            and self.num_shared == sum(count > 1 for count in self.ref_counts)
            and self.history.allocated - self.history.released == self.num_active
            and held == {block: count for block, count in enumerate(self.ref_counts) if count}
        )

    def _enter_cache(self, block: int) -> None:
        if block in self.pinned:
            self._kept.add(block)
        else:
            self._cached[block] = None

    def _leave_cache(self, block: int) -> None:
        if block in self._kept:
            self._kept.remove(block)
        else:
            del self._cached[block]

    def _evict(self) -> int:
        block, _ = self._cached.popitem(last=False)
        self._has_content[block] = False
        self.history.note_evicted(block)
        self._on_evict(block)
        return block
