"""Which blocks hold which tokens after which prefix: a tree of nodes, one root for each salt.

    root(salt) ── [t0 … t15] ── [t16 … t31] ── [t32 t33]        a part-filled tail is an entry too
                       │              └─────── [t32 t40 t41]     children are sorted by their token ids
                       └── [t16 … t20 t99]

A node stands for the tokens of one block and names the physical block of each KV group that holds their KV. A group
whose layers see only a window may have lost its block (`NO_BLOCK`); a hit needs the blocks that its next token sees.

A hit is decided by comparing token ids with the tree, never by a hash: two different prefixes cannot be confused.
Among sorted children, the one that shares most tokens with a query is a neighbour of the query's place. Tails that
running requests still append to hang on their node (`live`): they are compared as they are at the moment of a lookup,
so a decode step costs nothing here.

Knows nothing of reference counts; the cache manager says which blocks leave.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .block_table import NO_BLOCK

Tokens = tuple[int, ...]


class LiveTail(Protocol):
    """The end of a running request's sequence, past its last full block."""

    def tokens(self) -> Sequence[int]:
        """Tokens whose KV has been written, at this moment."""
        ...

    def blocks(self) -> Sequence[int]:
        """The block of each KV group that holds them; empty when nobody else may read them."""
        ...


class Node:
    """Tokens of one block after the prefix of its parent.

    Attributes:
        blocks: the physical block of each KV group, or `NO_BLOCK`.
        depth: nodes before it; 0 for a root.
        live: tails of running requests whose sequence goes on from here.
    """

    __slots__ = ("blocks", "children", "depth", "keys", "live", "parent", "salt", "tokens")

    def __init__(self, tokens: Tokens, blocks: list[int], parent: Node | None, salt: str) -> None:
        self.tokens = tokens
        self.blocks = blocks
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.salt = salt
        self.keys: list[Tokens] = []
        self.children: list[Node] = []
        self.live: dict[LiveTail, None] = {}

    def exact(self, key: Tokens) -> Node | None:
        """The child that holds exactly these tokens."""
        place = bisect_left(self.keys, key)
        return self.children[place] if place < len(self.keys) and self.keys[place] == key else None

    def subtree(self) -> Iterator[Node]:
        """This node and everything after it."""
        rest = [self]
        while rest:
            node = rest.pop()
            rest += node.children
            yield node


@dataclass
class Match:
    """The longest cached prefix of a query.

    Attributes:
        nodes: blocks that match in full, in order.
        partial: the block of each KV group whose first ``partial_tokens`` slots match the tokens after them; empty
            when there is none.
        partial_node: the node of ``partial``, None when it is the live tail of a running request.
    """

    nodes: list[Node] = field(default_factory=list)
    partial: list[int] = field(default_factory=list)
    partial_tokens: int = 0
    partial_node: Node | None = None

    def num_tokens(self, block_size: int) -> int:
        """Matching tokens in all."""
        return len(self.nodes) * block_size + self.partial_tokens

    @property
    def blocks(self) -> list[int]:
        """Blocks of the first KV group that match in full."""
        return [node.blocks[0] for node in self.nodes]


class PrefixIndex:
    """Tree of the blocks whose content can be reused.

    Args:
        block_size: tokens per block.
        windows: of each KV group, how many positions back its layers see, the position itself included; None is all.
        on_leave: called with a node that leaves the tree, those after it before it.
    """

    def __init__(
        self,
        block_size: int,
        windows: Sequence[int | None] = (None,),
        on_leave: Callable[[Node], None] = lambda node: None,
    ) -> None:
        self.block_size = block_size
        self.windows = tuple(windows)
        self._on_leave = on_leave
        self._roots: dict[str, Node] = {}
        self._owners: dict[int, tuple[Node, int]] = {}

    def __contains__(self, block: int) -> bool:
        return block in self._owners

    def __len__(self) -> int:
        return len(self._owners)

    # -- looking up ---------------------------------------------------------------------------------------------

    def match(self, tokens: Sequence[int], salt: str = "", limit: int | None = None) -> Match:
        """Find the longest cached prefix of ``tokens[:limit]`` that every group can serve, exact to the token."""
        limit = len(tokens) if limit is None else limit
        root, path, size = self._roots.get(salt), [], self.block_size
        if root is None:
            return Match()
        node, start = root, 0
        while start + size <= limit and (child := node.exact(tuple(tokens[start : start + size]))) is not None:
            path.append(child)
            node, start = child, start + size
        for count in range(len(path), -1, -1):
            found = Match(path[:count])
            node = path[count - 1] if count else root
            rest = tuple(tokens[count * size : min(count * size + size, limit)])
            if rest:
                _add_best_partial(found, node, rest)
                if found.partial and self._serves(found):
                    return found
                found = Match(path[:count])
            if self._serves(found):
                return found
        return Match()

    def first_needed(self, group: int, num_computed: int) -> int:
        """The first logical block of a group that the token at position ``num_computed`` sees."""
        window = self.windows[group]
        return 0 if window is None else max(0, num_computed - window + 1) // self.block_size

    def _serves(self, found: Match) -> bool:
        """Whether the next token's layers find all they see. (A node without its full-attention block has no
        successor with one, so the last node speaks for all.)"""
        length = found.num_tokens(self.block_size)
        for group, window in enumerate(self.windows):
            first = len(found.nodes) - 1 if window is None else self.first_needed(group, length)
            if any(node.blocks[group] == NO_BLOCK for node in found.nodes[max(0, first) :]):
                return False
        return True

    # -- what is there --------------------------------------------------------------------------------------------

    def blocks(self) -> list[int]:
        """All indexed blocks."""
        return list(self._owners)

    def tokens_of(self, block: int) -> Tokens:
        """Valid tokens of an indexed block."""
        return self._owners[block][0].tokens

    def place_of(self, block: int) -> tuple[Node, int]:
        """The node that an indexed block belongs to, and its KV group."""
        return self._owners[block]

    def parent_of(self, block: int) -> int | None:
        """The block before an indexed block, or None at the start of a sequence."""
        node, group = self._owners[block]
        parent = node.parent.blocks[group] if node.parent is not None and node.parent.tokens else NO_BLOCK
        return None if parent == NO_BLOCK else parent

    def covered_by(self, node: Node) -> list[Node]:
        """Part-filled siblings whose tokens are the beginning of the node's own, so that it replaces them."""
        assert node.parent is not None
        keys, covered = node.parent.keys, []
        place = bisect_left(keys, node.tokens)
        while place > 0 and node.tokens[: len(keys[place - 1])] == keys[place - 1]:
            place -= 1
            covered.append(node.parent.children[place])
        return covered

    def beginning_with(self, node: Node, num_tokens: int) -> list[Node]:
        """The node and its siblings that hold the same first ``num_tokens`` tokens."""
        assert node.parent is not None
        keys, key = node.parent.keys, node.tokens[:num_tokens]
        place, found = bisect_left(keys, key), []
        while place < len(keys) and keys[place][:num_tokens] == key:
            found.append(node.parent.children[place])
            place += 1
        return found

    # -- changes ------------------------------------------------------------------------------------------------

    def root(self, salt: str) -> Node:
        """Where sequences of this salt begin."""
        if salt not in self._roots:
            self._roots[salt] = Node((), [NO_BLOCK] * len(self.windows), None, salt)
        return self._roots[salt]

    def insert(self, parent: Node, tokens: Sequence[int], blocks: Sequence[int]) -> Node:
        """Make the content of some blocks findable.

        Args:
            parent: the node before them, full or a root.
            tokens: their valid tokens, at most ``block_size``.
            blocks: the physical block of each KV group.

        Returns:
            The node that stands for these tokens from now on: a new one, or one that was there before and begins
            with them. An older node keeps its own blocks and takes over only those that it lacks.
        """
        key = tuple(tokens)
        assert 0 < len(key) <= self.block_size
        place = bisect_left(parent.keys, key)
        if place < len(parent.keys) and parent.keys[place][: len(key)] == key:
            node = parent.children[place]
            if len(node.tokens) == len(key):
                self._fill(node, blocks)
            return node
        node = Node(key, [NO_BLOCK] * len(self.windows), parent, parent.salt)
        parent.keys.insert(place, key)
        parent.children.insert(place, node)
        self._fill(node, blocks)
        return node

    def forget(self, block: int) -> list[int]:
        """A block is recycled. Returns blocks that cannot be found any more without it, and are forgotten with it."""
        node, group = self._owners.pop(block)
        node.blocks[group] = NO_BLOCK
        lost: list[int] = []
        if self.windows[group] is None:
            for later in reversed(list(node.subtree())):
                assert not later.live, "a block leaves before its successors"
                lost += self._empty(later)
                if later is not node:
                    self._on_leave(later)
            node.keys, node.children = [], []
        self._prune(node)
        return lost

    def remove(self, node: Node) -> list[int]:
        """Take a node without successors out; returns its blocks."""
        assert not node.children and not node.live, "a node leaves before its successors"
        blocks = self._empty(node)
        self._prune(node)
        return blocks

    def shorten(self, node: Node, num_tokens: int) -> Node:
        """Keep only the first tokens of a node without successors.

        Returns:
            The node that stands for them: the same one, or a sibling that begins with them; then nothing has changed.
        """
        assert node.parent is not None and not node.children and not node.live
        siblings = [one for one in self.beginning_with(node, num_tokens) if one is not node]
        if siblings:
            return siblings[0]
        place = bisect_left(node.parent.keys, node.tokens)  # no sibling comes between this and the shorter one
        node.tokens = node.parent.keys[place] = node.tokens[:num_tokens]
        return node

    def attach(self, node: Node, tail: LiveTail) -> None:
        """A running request's sequence goes on from ``node``."""
        node.live[tail] = None

    def detach(self, node: Node, tail: LiveTail) -> None:
        """It does not any more."""
        node.live.pop(tail, None)
        self._prune(node)

    def clear(self) -> list[int]:
        """Forget everything; returns the blocks that were indexed."""
        blocks = list(self._owners)
        self._roots, self._owners = {}, {}
        return blocks

    def _fill(self, node: Node, blocks: Sequence[int]) -> None:
        for group, block in enumerate(blocks):
            if node.blocks[group] == NO_BLOCK and block != NO_BLOCK:
                assert block not in self._owners
                node.blocks[group] = block
                self._owners[block] = (node, group)

    def _empty(self, node: Node) -> list[int]:
        blocks = [block for block in node.blocks if block != NO_BLOCK]
        for block in blocks:
            del self._owners[block]
        node.blocks = [NO_BLOCK] * len(self.windows)
        return blocks

    def _prune(self, node: Node) -> None:
        """Drop a node that stands for nothing, and then perhaps those before it."""
        while not node.children and not node.live and all(block == NO_BLOCK for block in node.blocks):
            parent = node.parent
            if parent is None:
                self._roots.pop(node.salt, None)
                return
            place = bisect_left(parent.keys, node.tokens)
            if place == len(parent.keys) or parent.children[place] is not node:
                return  # dropped before
            del parent.keys[place], parent.children[place]
            self._on_leave(node)
            node = parent


def _add_best_partial(found: Match, node: Node, query: Tokens) -> None:
    """Add the block after ``node`` that shares most tokens with ``query``."""
    place = bisect_left(node.keys, query)
    for neighbour in (place, place - 1):
        if 0 <= neighbour < len(node.keys):
            child = node.children[neighbour]
            shared = _common(child.tokens, query)
            if shared > found.partial_tokens and NO_BLOCK not in child.blocks:
                found.partial, found.partial_tokens, found.partial_node = list(child.blocks), shared, child
    for tail in node.live:
        shared = _common(tail.tokens(), query)
        if shared > found.partial_tokens and (blocks := tail.blocks()):
            found.partial, found.partial_tokens, found.partial_node = list(blocks), shared, None


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count
