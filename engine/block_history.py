"""What each block went through: when it was born, last used and how often it was taken again. Knows no reasons.

A life begins when a block without content is allocated and ends when its content is evicted:

    allocated ── released ── reused ── released ───────── evicted
    |                     |<- gap ->|          |<- idle ->|
    |<------------------- lifetime ---------------------->|

Work is done for blocks that are touched, never for those that only stay in use.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from typing import Any

from .metric_catalogue import histogram_of


class BlockHistory:
    """Totals of a pool, and of each block the times of its present life.

    Args:
        clock: seconds that never go back.

    Attributes:
        born, last_used: by block, the clock at its allocation and when it was last allocated, taken again or released.
        reuses: by block, how often it was taken again in this life.
        allocated, released: blocks that came into use and went out of it; the difference is in use.
        copied, reused, evicted: see `metric_catalogue`.
    """

    def __init__(self, num_blocks: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.born = array("d", bytes(8 * num_blocks))
        self.last_used = array("d", bytes(8 * num_blocks))
        self.reuses = array("L", [0]) * num_blocks
        self.allocated = self.released = self.copied = self.reused = self.evicted = 0
        self.lifetime = histogram_of("kv_block_lifetime_seconds")
        self.idle_before_evict = histogram_of("kv_block_idle_before_evict_seconds")
        self.reuse_gap = histogram_of("kv_block_reuse_gap_seconds")

    def note_allocated(self, blocks: list[int]) -> None:
        """Blocks without content are in use now."""
        now = self.clock()
        for block in blocks:
            self.born[block] = self.last_used[block] = now
            self.reuses[block] = 0
        self.allocated += len(blocks)

    def note_reused(self, block: int, was_in_use: bool) -> None:
        """A block was taken again."""
        now = self.clock()
        self.reuse_gap.observe(now - self.last_used[block])
        self.last_used[block] = now
        self.reuses[block] += 1
        self.reused += 1
        self.allocated += not was_in_use

    def note_released(self, blocks: list[int]) -> None:
        """Nobody uses these blocks any more."""
        now = self.clock()
        for block in blocks:
            self.last_used[block] = now
        self.released += len(blocks)

    def note_evicted(self, block: int) -> None:
        """A block that nobody used lost its content."""
        now = self.clock()
        self.lifetime.observe(now - self.born[block])
        self.idle_before_evict.observe(now - self.last_used[block])
        self.evicted += 1

    def counters(self) -> dict[str, int]:
        """Totals by the names of metrics."""
        return {
            "kv_blocks_allocated_total": self.allocated,
            "kv_blocks_released_total": self.released,
            "kv_blocks_copied_total": self.copied,
            "kv_blocks_reused_total": self.reused,
            "kv_blocks_evicted_total": self.evicted,
        }

    def histograms(self) -> dict[str, dict[str, Any]]:
        """Times by the names of metrics."""
        return {
            "kv_block_lifetime_seconds": self.lifetime.to_dict(),
            "kv_block_idle_before_evict_seconds": self.idle_before_evict.to_dict(),
            "kv_block_reuse_gap_seconds": self.reuse_gap.to_dict(),
        }
