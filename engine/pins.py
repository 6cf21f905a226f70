"""Prefixes that are kept in the cache on purpose: system prompts, which every new chat begins with.

A pin keeps blocks from eviction; it is not a reference. Pins together take at most a share of the pool, and when a
request that runs alone lacks blocks, the oldest pin gives way: a pin never makes a request fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .cache_users import pin_user, tails_first
from .errors import RequestError
from .kv_cache_manager import KVCacheManager
from .prefix_index import Node

MOST_PINNED = 0.25
"""Share of the pool's blocks that pins may take."""


@dataclass
class Pin:
    """One pinned prefix; ``blocks`` is empty until its KV has been computed."""

    token_ids: list[int]
    salt: str
    blocks: list[int] = field(default_factory=list)


class PinnedPrefixes:
    """All pins by name."""

    def __init__(self, kv: KVCacheManager) -> None:
        self._kv = kv
        self._pins: dict[str, Pin] = {}

    @property
    def most_blocks(self) -> int:
        """Blocks that all pins together may take."""
        return int(self._kv.pool.num_blocks * MOST_PINNED)

    def add(self, name: str, token_ids: Sequence[int], salt: str = "") -> bool:
        """Pin a prefix, in the place of one that had the name.

        Returns:
            Whether its blocks are pinned now; False when its KV must be computed first, then `settle`.

        Raises:
            RequestError: when it is empty, or all pins together would take more than their share of the pool.
        """
        wanted = self._kv.demand.of_sequence(len(token_ids))
        others = sum(
            self._kv.demand.of_sequence(len(pin.token_ids)) for other, pin in self._pins.items() if other != name
        )
        if not token_ids:
            raise RequestError("There is nothing to pin: the prefix is empty.")
        if wanted + others > self.most_blocks:
            raise RequestError(
                f"Pinning this prefix takes {wanted:,} blocks, and {others:,} are pinned already; pins may take "
                f"{self.most_blocks:,} of the pool's {self._kv.pool.num_blocks:,}. Unpin another, or start with more "
                "--num-blocks."
            )
        self.remove(name)
        self._pins[name] = Pin(list(token_ids), salt)
        return self.settle(name)

    def settle(self, name: str) -> bool:
        """Pin what is cached of a prefix, if all of it is; True then, or when the pin is gone."""
        pin = self._pins.get(name)
        if pin is None:
            return True
        found = self._kv.match(pin.token_ids, pin.salt)
        if found.num_tokens(self._kv.block_size) < len(pin.token_ids) or (found.partial and not found.partial_node):
            return False
        pin.blocks = self._kv.blocks_of(found)
        self._kv.users.drop(pin_user(name))
        if found.partial_node is not None:
            self._kv.users.note(pin_user(name), found.partial_node, found.partial_tokens)
        else:
            self._kv.users.note(pin_user(name), found.nodes[-1])
        self._kv.set_pinned(pin.blocks, True)
        return True

    def remove(self, name: str) -> bool:
        """Let go of a pin; False if there is none of that name."""
        pin = self._pins.pop(name, None)
        if pin is None:
            return False
        self._kv.users.drop(pin_user(name))
        kept = {block for other in self._pins.values() for block in other.blocks}
        self._kv.set_pinned([block for block in reversed(pin.blocks) if block not in kept], False)
        return True

    def forget(self, user: str) -> list[int]:
        """Forget a user's cached prefixes (see ``KVCacheManager.forget``), and the pins that only it begins with.

        Returns:
            The blocks whose content was given up.
        """
        has = tails_first(self._kv.users.ends(user))
        mine = [name for name in self._pins if any(has.get(node, 0) >= count for node, count in self._heirs(name))]
        gone = self._kv.forget(user)
        for name in mine:
            if not any(self._kv.users.have_all(node, count) for node, count in self._heirs(name)):
                ends = self._kv.users.ends(pin_user(name))
                self.remove(name)
                for node, count in ends.items():
                    self._kv.users.note(user, node, count)
                gone += self._kv.forget(user)
        return gone

    def _heirs(self, name: str) -> list[tuple[Node, int]]:
        """The nodes that a pin's whole prefix may end in, and how many of their tokens are still its."""
        ends = self._kv.users.ends(pin_user(name))
        return [(one, count) for node, count in ends.items() for one in self._kv.index.beginning_with(node, count)]

    def give_way(self) -> bool:
        """Let go of the oldest pin that has blocks; False if there is none."""
        for name, pin in self._pins.items():
            if pin.blocks:
                return self.remove(name)
        return False

    def clear(self) -> None:
        """All content is forgotten, and the pins with it."""
        self._pins.clear()

    def rows(self) -> list[dict[str, Any]]:
        """What each pin costs: name, tokens, blocks (0 until computed)."""
        return [
            {"name": name, "num_tokens": len(pin.token_ids), "blocks": len(pin.blocks)}
            for name, pin in self._pins.items()
        ]
