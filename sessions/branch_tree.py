"""All branches of a chat at once, as prompts have them: which messages each has, and the ids of each message.

Reads only; one pass over the chat's rows, however many branches it has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import turns
from .connection import Connection
from .rows import Session, unpack
from .tree import of_each

_NODES = """
SELECT id, parent_id, role, status, kind, content = '' AND coalesce(reasoning, '') = '', shown
FROM messages WHERE session_id = ? AND hidden = 0 AND deleted_at IS NULL ORDER BY key
"""
_SYSTEM = "SELECT token_ids FROM system_tokens WHERE session_id = ? AND fingerprint = ?"
_TOKENS = "SELECT message_id, token_ids FROM message_tokens WHERE fingerprint = ? AND message_id IN (?)"
_CUT = """
SELECT DISTINCT g.message_id FROM messages m JOIN generations g ON g.message_id = m.id
WHERE m.session_id = ? AND g.kept_from IS NOT NULL
"""
COSTS = ("prompt_tokens", "cached_tokens", "blocks_new", "blocks_shared", "blocks_copied")
_COSTS = (
    f"SELECT message_id, {', '.join(COSTS)} FROM generations WHERE message_id IN (?) AND blocks_new IS NOT NULL "
    "ORDER BY run DESC"
)


@dataclass(slots=True)
class Node:
    """A message of the tree.

    Attributes:
        empty: it has no text, so that prompts do not have it.
        number: which question, or reply to one, of its branch it is, from 1.
        version, versions: its place among its siblings, from 1, and how many they are.
    """

    id: str
    parent_id: str | None
    role: str
    status: str
    kind: str | None
    empty: bool
    shown: int
    number: int = 0
    version: int = 1
    versions: int = 1


@dataclass(slots=True)
class BranchTree:
    """The branches of a chat.

    Attributes:
        nodes: by id, in the order in which they were made.
        ends: the last messages of the branches, the shown one first, then those shown or made last.
        left_out: branches that are not among them.
        cut: replies whose prompts had not all of their branch.
        token_ids: of the messages of those branches, as far as they are known.
        costs: what the last run of a reply found and took, by ``COSTS``.
    """

    session: Session
    nodes: dict[str, Node]
    ends: list[str]
    left_out: int
    cut: set[str]
    system_ids: list[int] | None
    token_ids: dict[str, list[int]] = field(default_factory=dict)
    costs: dict[str, dict[str, int]] = field(default_factory=dict)

    def path(self, end: str) -> list[Node]:
        """The messages down to ``end``."""
        found: list[Node] = []
        here: Node | None = self.nodes.get(end)
        while here is not None:
            found.append(here)
            here = self.nodes.get(here.parent_id or "")
        return found[::-1]


class BranchTrees:
    """The branches of one database's chats.

    Args:
        reader: the connection that reads.
    """

    def __init__(self, reader: Connection) -> None:
        self._reader = reader

    def tree(self, session_id: str, fingerprint: str, most: int, end: str | None = None) -> BranchTree:
        """The branches of a chat, with the ids that its messages had in prompts of a model.

        Args:
            most: branches to tell of.
            end: the last message of the one branch to tell of, instead.

        Raises:
            SessionError: there is no such chat.
        """
        with self._reader.reading() as connection:
            session = turns.session(connection, session_id)
            nodes = {row[0]: Node(*row) for row in connection.execute(_NODES, [session_id])}
            _number(nodes)
            ends, left_out = _ends(nodes, session.head_id, most) if end is None else ([end] if end in nodes else [], 0)
            row = connection.execute(_SYSTEM, [session_id, fingerprint]).fetchone()
            cut = {one[0] for one in connection.execute(_CUT, [session_id])}
            tree = BranchTree(session, nodes, ends, left_out, cut, unpack(row[0]) if row else None)
            wanted = list(dict.fromkeys(node.id for end in ends for node in tree.path(end)))
            tree.token_ids = {one: unpack(ids) for one, ids in of_each(connection, _TOKENS, wanted, fingerprint)}
            replies = [one for one in wanted if nodes[one].role == "assistant"]
            for one, *values in of_each(connection, _COSTS, replies):
                tree.costs.setdefault(one, dict(zip(COSTS, values, strict=True)))
            return tree


def _number(nodes: dict[str, Node]) -> None:
    siblings: dict[Any, list[Node]] = {}
    for node in nodes.values():  # parents come before their children
        above = nodes.get(node.parent_id or "")
        node.number = (above.number if above else 0) + int(node.role == "user")
        siblings.setdefault(node.parent_id, []).append(node)
    for group in siblings.values():
        for place, node in enumerate(group, 1):
            node.version, node.versions = place, len(group)


def _ends(nodes: dict[str, Node], head_id: str | None, most: int) -> tuple[list[str], int]:
    parents = {node.parent_id for node in nodes.values()}
    places = {one: place for place, one in enumerate(nodes)}
    leaves = [one for one in nodes if one not in parents and one != head_id]
    leaves.sort(key=lambda one: (nodes[one].shown, places[one]), reverse=True)
    ends = [*([head_id] if head_id in nodes else []), *leaves]
    return ends[:most], max(0, len(ends) - most)
