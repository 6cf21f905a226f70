"""How many blocks sequences need, in a pool that serves KV groups with and without a window."""

from __future__ import annotations

from collections.abc import Sequence

WITHOUT_END = 2**62


class KVDemand:
    """Sizes of sequences in blocks.

    Args:
        num_blocks: blocks in the pool.
        block_size: tokens per block.
        windows: of each KV group, how many positions back its layers see; None for all.
        max_step_tokens: most tokens that one request may have in a step.

    Attributes:
        max_step_tokens: the same, less where windowed groups share a small pool: a group holds its window and what
            one step adds to it.
    """

    def __init__(self, num_blocks: int, block_size: int, windows: Sequence[int | None], max_step_tokens: int) -> None:
        self._num_blocks = num_blocks
        self._block_size = block_size
        self._windows = windows
        self.max_step_tokens = max_step_tokens
        if any(windows):
            self.max_step_tokens = max(1, min(max_step_tokens, num_blocks * block_size // (4 * len(windows))))

    def logical(self, num_tokens: int) -> int:
        """Logical blocks that ``num_tokens`` tokens fill or begin."""
        return -(-num_tokens // self._block_size)

    def of_group(self, group: int, num_tokens: int) -> int:
        """Most blocks that a group holds at a time of a sequence of this length."""
        window = self._windows[group]
        if window is not None:
            num_tokens = min(num_tokens, window + self.max_step_tokens + self._block_size)
        return self.logical(num_tokens)

    def of_sequence(self, num_tokens: int) -> int:
        """Most blocks that a sequence of this length holds at a time, all groups together."""
        return sum(self.of_group(group, num_tokens) for group in range(len(self._windows)))

    @property
    def capacity(self) -> int | None:
        """Tokens of the longest sequence that the pool can hold; None if its length does not matter."""
        windowed = [group for group, window in enumerate(self._windows) if window is not None]
        rest = self._num_blocks - sum(self.of_group(group, WITHOUT_END) for group in windowed)
        num_full = len(self._windows) - len(windowed)
        if not num_full:
            return None if rest >= 0 else 0
        return max(0, rest // num_full) * self._block_size
