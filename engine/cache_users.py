"""Whose the cached prefixes are: which sessions have computed or used what the prefix index holds.

    root ── A ── B ── C     a user is noted at the last node of what it has: one at C has A and B, too
                  └── D     a node that leaves hands on to the node before it whoever was noted there

A user may have only the first tokens of a node, where its tail was the beginning of another's. A decode step costs
nothing here, a block that fills up two dictionary entries.
"""

from __future__ import annotations

from .prefix_index import Node

ANYBODY = ""
"""Who works in nobody's name: what such requests have computed or used is never one session's alone."""
MOST_USERS = 64
"""Users noted at one node; where more have been, the node is anybody's."""
_PIN = "\0pin:"

Claims = dict[str, int]
"""By user, how many of a node's first tokens it has."""


def pin_user(name: str) -> str:
    """The user that stands for a pin."""
    return _PIN + name


def is_pin(user: str) -> bool:
    """Whether a user stands for a pin."""
    return user.startswith(_PIN)


class CacheUsers:
    """Where in the index each user's prefixes end."""

    def __init__(self) -> None:
        self._at: dict[Node, Claims] = {}
        self._nodes: dict[str, set[Node]] = {}

    def note(self, user: str, node: Node, num_tokens: int | None = None) -> None:
        """A user has everything up to the first ``num_tokens`` tokens of a node; all of them for None."""
        if not node.tokens:
            return
        num_tokens = len(node.tokens) if num_tokens is None else num_tokens
        claims = self._at.setdefault(node, {})
        if claims.get(user, 0) < num_tokens:
            claims[user] = num_tokens
            self._nodes.setdefault(user, set()).add(node)
            if len(claims) > MOST_USERS:
                self.give(node, {ANYBODY: max(self.take(node).values())})

    def move(self, user: str, before: Node | None, node: Node, num_tokens: int | None = None) -> None:
        """A user that was noted at the node before this one has this one, too; see ``note``."""
        self.note(user, node, num_tokens)
        if before is not None and before is node.parent:
            self._discard(user, before)

    def leave(self, node: Node) -> None:
        """A node leaves the index: its users still have what comes before it."""
        claims = self.take(node)
        if node.parent is not None:
            for user in claims:
                self.note(user, node.parent)

    def take(self, node: Node) -> Claims:
        """Forget who is noted at a node; returns it."""
        claims = self._at.pop(node, {})
        for user in claims:
            self._forget_place(user, node)
        return claims

    def give(self, node: Node, claims: Claims) -> None:
        """Note users at a node."""
        for user, num_tokens in claims.items():
            self.note(user, node, num_tokens)

    def drop(self, user: str) -> dict[Node, int]:
        """Forget a user; returns by node what it had there."""
        ends = self.ends(user)
        for node in ends:
            self._discard(user, node)
        return ends

    def ends(self, user: str) -> dict[Node, int]:
        """Where a user is noted, and what it has there."""
        return {node: self._at[node][user] for node in self._nodes.get(user, ())}

    def have_all(self, node: Node, num_tokens: int) -> bool:
        """Whether a user that is no pin has the first ``num_tokens`` tokens of a node, or what follows it."""
        if any(count >= num_tokens and not is_pin(user) for user, count in self.at(node).items()):
            return True
        later = (one for one in node.subtree() if one is not node)
        return any(not is_pin(user) for one in later for user in self.at(one))

    def at(self, node: Node) -> Claims:
        """Who is noted at a node."""
        return self._at.get(node, {})

    def knows(self, user: str) -> bool:
        """Whether a user is noted anywhere."""
        return user in self._nodes

    def clear(self) -> None:
        """The index is empty."""
        self._at.clear()
        self._nodes.clear()

    def _discard(self, user: str, node: Node) -> None:
        claims = self._at.get(node)
        if claims is not None and claims.pop(user, None) is not None:
            self._forget_place(user, node)
            if not claims:
                del self._at[node]

    def _forget_place(self, user: str, node: Node) -> None:
        nodes = self._nodes[user]
        nodes.discard(node)
        if not nodes:
            del self._nodes[user]


def tails_first(ends: dict[Node, int]) -> dict[Node, int]:
    """What a user has of every node of its prefixes, later nodes before earlier ones.

    Args:
        ends: by node, what it has where its prefixes end.
    """
    has: dict[Node, int] = {}
    for end, num_tokens in ends.items():
        has[end] = max(has.get(end, 0), num_tokens)
        node = end.parent
        while node is not None and node.tokens:
            seen = node in has
            has[node] = len(node.tokens)
            if seen:
                break
            node = node.parent
    return {node: has[node] for node in sorted(has, key=lambda one: one.depth, reverse=True)}
