"""The pool of KV blocks: ids and reference counts, no tensors, no tokens.

    free     no content, count 0            taken first, the last one given back before others: its memory is in use
    cached   content kept, count 0          taken when nothing is free, least recently used first
    active   count >= 1
    shared   count >= 2 (also active)

A table that holds a block also holds the blocks before it, and tables are released tail first, so the least recently
used cached block never has a cached successor: chains lose their tails before their heads.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence


class OutOfBlocksError(Exception):
    """Fewer blocks are free or cached than were asked for; nothing has changed."""


class BlockPool:
    """Owner of every block's reference count.

    Args:
        num_blocks: blocks in the pool.
        on_evict: called with a block id when its cached content is given up.
    """

    def __init__(self, num_blocks: int, on_evict: Callable[[int], None] = lambda block: None) -> None:
        self.num_blocks = num_blocks
        self.ref_counts = [0] * num_blocks
        self.pinned: set[int] = set()
        self._free: deque[int] = deque(range(num_blocks))
        self._cached: OrderedDict[int, None] = OrderedDict()
        self._has_content = bytearray(num_blocks)
        self._on_evict = on_evict

    @property
    def num_free(self) -> int:
        """Blocks without content."""
        return len(self._free)

    @property
    def num_cached(self) -> int:
        """Blocks that nobody uses and whose content can be reused."""
        return len(self._cached)

    @property
    def num_active(self) -> int:
        """Blocks with at least one reference."""
        return self.num_blocks - self.num_free - self.num_cached

    @property
    def num_available(self) -> int:
        """Blocks that could be handed out now: free ones, and cached ones that are not pinned."""
        return self.num_free + self.num_cached - sum(block in self._cached for block in self.pinned)

    def state(self, block: int) -> str:
        """One of free, cached, active, shared."""
        count = self.ref_counts[block]
        if count:
            return "shared" if count > 1 else "active"
        return "cached" if block in self._cached else "free"

    def is_cached(self, block: int) -> bool:
        """Whether nobody uses the block and its content is kept."""
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
        return taken

    def acquire(self, block: int) -> None:
        """Add a reference to a block that is in use or cached."""
        if self.ref_counts[block] == 0:
            del self._cached[block]
        self.ref_counts[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Drop one reference of each block, last block first, so that a chain's tail is evicted before its head."""
        for block in reversed(blocks):
            assert self.ref_counts[block] > 0, f"block {block} released twice"
            self.ref_counts[block] -= 1
            if self.ref_counts[block] == 0:
                if self._has_content[block]:
                    self._cached[block] = None
                else:
                    self._free.appendleft(block)

    def set_content(self, block: int, has_content: bool) -> None:
        """Say whether a block's content is worth keeping once nobody uses it."""
        self._has_content[block] = has_content
        if not has_content and block in self._cached:
            del self._cached[block]
            self.pinned.discard(block)
            self._free.appendleft(block)

    def conserved(self, references: Iterable[int]) -> bool:
        """Whether the books balance.

        Args:
            references: every block reference there is: all entries of all block tables, and blocks held by copies.
        """
        held = Counter(references)
        lists = [*self._free, *self._cached]
        return (
            len(set(lists)) == len(lists)
            and all(self.ref_counts[block] == 0 for block in lists)
            and len(lists) + sum(count > 0 for count in self.ref_counts) == self.num_blocks
            and all(self.ref_counts[block] == held.get(block, 0) for block in range(self.num_blocks))
        )

    def _evict(self) -> int:
        for block in self._cached:
            if block not in self.pinned:
                break
        else:
            raise OutOfBlocksError("every cached block is pinned")
        del self._cached[block]
        self._has_content[block] = False
        self._on_evict(block)
        return block
