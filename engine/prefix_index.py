"""Which block holds which tokens after which prefix: a tree of blocks, one root for each salt.

    root(salt) ── [t0 … t15] ── [t16 … t31] ── [t32 t33]        a part-filled tail is an entry too
                       │              └─────── [t32 t40 t41]     children are sorted by their token ids
                       └── [t16 … t20 t99]

A hit is decided by comparing token ids with the tree, never by a hash: two different prefixes cannot be confused.
Among sorted children, the one that shares most tokens with a query is a neighbour of the query's place. Tails that
running requests still append to are kept apart (`live`): they are compared as they are at the moment of a lookup,
so a decode step costs nothing here.

Knows nothing of reference counts; the cache manager says which blocks leave.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Tokens = tuple[int, ...]


@dataclass
class Match:
    """The longest cached prefix of a query.

    Attributes:
        blocks: physical blocks that match in full, in order.
        partial: a block whose first ``partial_tokens`` slots match the tokens after them, or None.
    """

    blocks: list[int] = field(default_factory=list)
    partial: int | None = None
    partial_tokens: int = 0

    def num_tokens(self, block_size: int) -> int:
        """Matching tokens in all."""
        return len(self.blocks) * block_size + self.partial_tokens


class _Node:
    __slots__ = ("block", "children", "keys", "live", "parent", "salt", "tokens")

    def __init__(self, block: int, tokens: Tokens, parent: _Node | None, salt: str = "") -> None:
        self.block = block
        self.tokens = tokens
        self.parent = parent
        self.salt = salt  # of a root
        self.keys: list[Tokens] = []
        self.children: list[_Node] = []
        self.live: dict[int, Callable[[], Sequence[int]]] = {}


class PrefixIndex:
    """Tree of the blocks whose content can be reused.

    Args:
        block_size: tokens per block.
    """

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._roots: dict[str, _Node] = {}
        self._nodes: dict[int, _Node] = {}
        self._live_parents: dict[int, _Node] = {}

    def __contains__(self, block: int) -> bool:
        return block in self._nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def match(self, tokens: Sequence[int], salt: str = "", limit: int | None = None) -> Match:
        """Find the longest cached prefix of ``tokens[:limit]``, exact to the token."""
        limit = len(tokens) if limit is None else limit
        node, found, start = self._roots.get(salt), Match(), 0
        if node is None:
            return found
        while start + self.block_size <= limit:
            child = _exact(node, tuple(tokens[start : start + self.block_size]))
            if child is None:
                break
            found.blocks.append(child.block)
            node, start = child, start + self.block_size
        rest = tuple(tokens[start : min(start + self.block_size, limit)])
        if rest:
            found.partial, found.partial_tokens = _best_partial(node, rest)
        return found

    def insert(self, block: int, tokens: Sequence[int], parent: int | None, salt: str = "") -> int:
        """Make a block's content findable.

        Args:
            block: the physical block.
            tokens: its valid tokens, at most ``block_size``.
            parent: the block before it, which must be in the index and full; None at the start of a sequence.

        Returns:
            The block that holds these tokens from now on: ``block``, or one that was there before with the same
            content (then ``block`` was not inserted).
        """
        node, key = self._node_of(parent, salt), tuple(tokens)
        assert block not in self._nodes and 0 < len(key) <= self.block_size
        place = bisect_left(node.keys, key)
        if place < len(node.keys) and node.keys[place][: len(key)] == key:
            return node.children[place].block
        child = _Node(block, key, node)
        node.keys.insert(place, key)
        node.children.insert(place, child)
        self._nodes[block] = child
        return block

    def covered_by(self, block: int) -> list[int]:
        """Part-filled siblings of ``block`` whose tokens are the beginning of its own, so that it replaces them."""
        node = self._nodes[block]
        assert node.parent is not None
        place, covered = bisect_left(node.parent.keys, node.tokens), []
        while place > 0 and node.tokens[: len(node.parent.keys[place - 1])] == node.parent.keys[place - 1]:
            place -= 1
            covered.append(node.parent.children[place].block)
        return covered

    def remove(self, block: int) -> None:
        """Forget a block; it must have no successors."""
        node = self._nodes.pop(block)
        assert not node.children and not node.live, f"block {block} leaves before its successors"
        assert node.parent is not None
        place = bisect_left(node.parent.keys, node.tokens)
        del node.parent.keys[place], node.parent.children[place]
        self._drop_empty_root(node.parent)

    def blocks(self) -> list[int]:
        """All indexed blocks."""
        return list(self._nodes)

    def tokens_of(self, block: int) -> Tokens:
        """Valid tokens of an indexed block."""
        return self._nodes[block].tokens

    def parent_of(self, block: int) -> int | None:
        """The block before an indexed block, or None at the start of a sequence."""
        parent = self._nodes[block].parent
        return parent.block if parent is not None and parent.block >= 0 else None

    def set_live(self, block: int, parent: int | None, salt: str, tokens: Callable[[], Sequence[int]]) -> None:
        """Make the tail of a running request findable; ``tokens()`` gives its valid tokens at any moment."""
        if block not in self._live_parents:
            node = self._node_of(parent, salt)
            node.live[block] = tokens
            self._live_parents[block] = node

    def unset_live(self, block: int) -> None:
        """The tail is full, or its request is gone."""
        node = self._live_parents.pop(block, None)
        if node is not None:
            del node.live[block]
            self._drop_empty_root(node)

    def clear(self) -> list[int]:
        """Forget everything; returns the blocks that were indexed."""
        blocks = list(self._nodes)
        self._roots, self._nodes, self._live_parents = {}, {}, {}
        return blocks

    def _node_of(self, block: int | None, salt: str) -> _Node:
        if block is not None:
            return self._nodes[block]
        return self._roots.setdefault(salt, _Node(-1, (), None, salt))

    def _drop_empty_root(self, node: _Node) -> None:
        if node.parent is None and not node.children and not node.live:
            self._roots.pop(node.salt, None)


def _exact(node: _Node, key: Tokens) -> _Node | None:
    place = bisect_left(node.keys, key)
    if place < len(node.keys) and node.keys[place] == key:
        return node.children[place]
    return None


def _best_partial(node: _Node, query: Tokens) -> tuple[int | None, int]:
    place, best, length = bisect_left(node.keys, query), None, 0
    for neighbour in (place, place - 1):
        if 0 <= neighbour < len(node.keys):
            shared = _common(node.keys[neighbour], query)
            if shared > length:
                best, length = node.children[neighbour].block, shared
    for block, tokens in node.live.items():
        shared = _common(tokens(), query)
        if shared > length:
            best, length = block, shared
    return best, length


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count
