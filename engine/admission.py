"""Whether the pool has room: for a waiting request, and for what running ones will still want."""

from __future__ import annotations

from .block_pool import BlockPool
from .kv_demand import KVDemand
from .prefix_index import PrefixIndex
from .request import Request


class Admission:
    """Looks at the books of one pool; changes nothing."""

    def __init__(self, pool: BlockPool, index: PrefixIndex, demand: KVDemand) -> None:
        self._pool = pool
        self._index = index
        self._demand = demand

    def fits(self, request: Request, hits: list[int], num_copied: int, reserve: int) -> bool:
        """Whether all tokens of a request fit beside ``reserve`` blocks; cached hits count as used.

        Args:
            hits: the blocks that it finds.
            num_copied: how many of them are only copied.
        """
        wanted = min(self._demand.of_sequence(request.num_tokens + 1), self._pool.num_blocks)
        unused_hits = sum(map(self._pool.is_evictable, hits))
        num_shared = len(hits) - num_copied
        return max(0, wanted - num_shared) + unused_hits + reserve <= self._pool.num_available

    def still_wanted(self, request: Request) -> int:
        """Blocks that a running request will need for the tokens it has."""
        wanted = 0
        for group, table in enumerate(request.tables):
            held = len(table) - self._index.first_needed(group, request.num_computed)
            wanted += max(0, self._demand.of_group(group, request.num_tokens) - held)
        return wanted
