"""What others find of a running request past its last full block."""

from __future__ import annotations

from collections.abc import Sequence

from .block_copies import BlockCopies
from .request import Request


class LiveRequest:
    """The tail of one request as the prefix index sees it (see `LiveTail`)."""

    def __init__(self, request: Request, block_size: int, copies: BlockCopies) -> None:
        self._request = request
        self._block_size = block_size
        self._copies = copies

    def tokens(self) -> Sequence[int]:
        """Tokens whose KV has been written."""
        request = self._request
        return request.token_ids[request.num_stored * self._block_size : request.num_computed]

    def blocks(self) -> Sequence[int]:
        """The block of each KV group that holds them; empty when there is none, or before its copy is made."""
        request = self._request
        logical, filled = divmod(request.num_computed, self._block_size)
        if not filled or logical != request.num_stored:
            return []
        blocks = [table[logical] for table in request.tables]
        return [] if self._copies.writes(blocks) else blocks
