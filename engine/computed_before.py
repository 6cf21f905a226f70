"""What this engine has computed before, long after the blocks are gone: why a prefix was not found.

Remembers one number a block, never tokens, so it can be kept for many more blocks than the pool has. Salts stay apart
here as they do in the cache: what was computed under another salt is not told, for that would tell one tenant what
another has sent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Literal

from .cache_users import ANYBODY

REMEMBERED_BLOCKS = 1 << 16

MissReason = Literal[
    "caching_off",  # the engine keeps nothing
    "evicted",  # it was computed, and its blocks were needed for something else
    "other_text",  # this beginning (a block at least) was computed, but another text after it
    "not_computed",  # it was never computed here
    "trimmed",  # the oldest turns were left out, so all that follows has moved
    "template",  # the chat template writes an earlier message in another way than it was sent
    "new",  # it is the newest message
]


class ComputedBefore:
    """Remembers chains of blocks, the last one filled in part or whole, the least recently computed forgotten first.

    Args:
        block_size: tokens per block.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._blocks: OrderedDict[int, str] = OrderedDict()
        self._parents: OrderedDict[int, str] = OrderedDict()

    def note(self, token_ids: Sequence[int], salt: str, user: str = ANYBODY) -> None:
        """These tokens were computed, or found, in a user's name (see `cache_users`)."""
        last = hash((salt, self._block_size))
        for parent, block in self._chain(token_ids, salt):
            self._remember(self._blocks, block, user)
            self._remember(self._parents, parent, user)
            last = block
        tail = token_ids[len(token_ids) - len(token_ids) % self._block_size :]
        if tail:
            self._remember(self._blocks, hash((last, *tail)), user)

    def forget(self) -> None:
        """Know nothing any more."""
        self._blocks.clear()
        self._parents.clear()

    def forget_user(self, user: str) -> None:
        """Know nothing any more of what was computed in one user's name only."""
        for known in (self._blocks, self._parents):
            for key in [key for key, one in known.items() if one == user]:
                del known[key]

    def reason(self, token_ids: Sequence[int], salt: str, found: int) -> MissReason:
        """Why token ``found`` of a prompt is not cached."""
        logical, parent = found // self._block_size, hash((salt, self._block_size))
        for number, (_, block) in enumerate(self._chain(token_ids, salt)):
            if number == logical:
                break
            parent = block
        block = token_ids[logical * self._block_size :][: self._block_size]
        ends = range(found % self._block_size + 1, len(block) + 1)
        if any(hash((parent, *block[:end])) in self._blocks for end in ends):
            return "evicted"
        return "other_text" if logical and parent in self._parents else "not_computed"

    def _remember(self, known: OrderedDict[int, str], key: int, user: str) -> None:
        known[key] = user if known.get(key, user) == user else ANYBODY
        known.move_to_end(key)
        if len(known) > REMEMBERED_BLOCKS:
            known.popitem(last=False)

    def _chain(self, token_ids: Sequence[int], salt: str) -> Iterator[tuple[int, int]]:
        """(what stands for all before it, what stands for all up to its end) of each full block."""
        before = hash((salt, self._block_size))
        for start in range(0, len(token_ids) - self._block_size + 1, self._block_size):
            key = hash((before, *token_ids[start : start + self._block_size]))
            yield before, key
            before = key
