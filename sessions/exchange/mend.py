"""Makes a tree out of whatever a file calls one: every message stays, has one parent and a place, and is in reach.

Decisions: a message whose parent is missing becomes a first message of its chat (its branch is then one of those that
the page offers at the top, whole from there on); a circle is opened at its oldest message; of two messages with one id
the first keeps it, and replies belong to the first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, get_args

from ...engine.errors import PagedChatError
from ..checks import clean_params
from ..ids import new_id, now
from ..rows import INTERRUPTED, Role, Status
from .report import Mends
from .tree import ChatTree, Node
from .values import as_time, tomorrow

ROLES: dict[str, str] = {
    **{role: role for role in get_args(Role)},
    "human": "user",
    "prompter": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "ai": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "claude": "assistant",
    "developer": "system",
    "function": "tool",
    "function_call": "assistant",
    "function_response": "tool",
    "observation": "tool",
    "ipython": "tool",
}
"""Names of roles in files, in lower case, and what they are here."""


def mend(tree: ChatTree, mends: Mends) -> ChatTree:
    """Put ``tree`` in order, in place, and count what had to be mended."""
    _name_nodes(tree, mends)
    _open_circles(tree, mends)
    tree.nodes = list(_in_order(tree.nodes))
    _set_times(tree, mends)
    _set_roles(tree, mends)
    _set_state(tree, mends)
    _keep_in_reach(tree)
    _set_head(tree, mends)
    tree.params = known_params(tree.params, mends)
    return tree


def known_params(params: dict[str, Any], mends: Mends) -> dict[str, Any]:
    """The settings among ``params`` that mean something here."""
    kept: dict[str, Any] = {}
    for name, value in params.items():
        try:
            kept.update(clean_params({}, {name: value}))
        except (PagedChatError, TypeError, ValueError, OverflowError):
            mends["param"] += 1
    return kept


def _name_nodes(tree: ChatTree, mends: Mends) -> None:
    """One node an id; parents that are not there are none."""
    by_id: dict[str, Node] = {}
    kept: list[Node] = []
    for node in tree.nodes:
        if not node.id:
            node.id = new_id()
            mends["no id"] += 1
        first = by_id.setdefault(node.id, node)
        if first is not node:
            if _same(first, node):
                mends["again"] += 1
                continue
            node.id = new_id()
            by_id[node.id] = node
            mends["same id"] += 1
        kept.append(node)
    for node in kept:
        if node.parent_id is not None and node.parent_id not in by_id:
            node.parent_id = None
            mends["no parent"] += 1
    tree.nodes = kept


def _same(one: Node, other: Node) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in _COMPARED)


_COMPARED = ("parent_id", "role", "content", "reasoning", "created_at", "runs", "attachments")


def _open_circles(tree: ChatTree, mends: Mends) -> None:
    by_id = {one.id: one for one in tree.nodes}
    rank = _ranks(tree.nodes)
    safe: set[str] = set()
    for start in tree.nodes:
        climbed: list[Node] = []
        on_way: set[str] = set()
        node: Node | None = start
        while node is not None and node.id not in safe and node.id not in on_way:
            climbed.append(node)
            on_way.add(node.id)
            node = by_id[node.parent_id] if node.parent_id is not None else None
        if node is not None and node.id in on_way:
            circle = climbed[climbed.index(node) :]
            min(circle, key=lambda one: (one.created_at or "~", rank[one.id])).parent_id = None
            mends["cycle"] += 1
        safe |= on_way


def _ranks(nodes: list[Node]) -> dict[str, int]:
    """id -> place: by ``order`` where every node has one, else as they are listed."""
    ordered = nodes
    if all(one.order is not None for one in nodes):
        ordered = sorted(nodes, key=lambda one: one.order or 0)
    return {one.id: place for place, one in enumerate(ordered)}


def _in_order(nodes: list[Node]) -> Iterator[Node]:
    """Every node after its parent, otherwise by rank; a tree that is in order already stays as it is."""
    rank = _ranks(nodes)
    below: dict[str | None, list[Node]] = {}
    for one in nodes:
        below.setdefault(one.parent_id, []).append(one)
    heap = [(rank[one.id], one) for one in below.get(None, [])]
    heapq.heapify(heap)
    while heap:
        _, one = heapq.heappop(heap)
        yield one
        for child in below.get(one.id, ()):
            heapq.heappush(heap, (rank[child.id], child))


def _set_times(tree: ChatTree, mends: Mends) -> None:
    """Times that can be, for the chat and every message; a message without one gets that of the message above."""
    known = [one.created_at for one in tree.nodes if one.created_at]
    begun = as_time(tree.created_at)
    if begun is None:
        begun = min(known) if known else now()
    tree.created_at = begun
    times: dict[str, str] = {}
    latest = tomorrow()
    for node in tree.nodes:
        if not node.created_at:
            node.created_at = times.get(node.parent_id or "", begun)
            mends["time"] += bool(known)  # some formats have no times at all
        elif node.created_at > latest:
            mends["future"] += 1
        node.updated_at = node.updated_at or node.created_at
        times[node.id] = node.created_at
    if as_time(tree.updated_at) is None:
        tree.updated_at = max([begun, *times.values()])


def _set_roles(tree: ChatTree, mends: Mends) -> None:
    roles: dict[str, str] = {}
    for node in tree.nodes:
        role = ROLES.get(node.role.strip().lower()) if isinstance(node.role, str) else None
        if role is None:
            above = roles.get(node.parent_id or "")
            role = "assistant" if node.runs or above == "user" else "user"
            mends["role"] += 1
        node.role = roles[node.id] = role


def _set_state(tree: ChatTree, mends: Mends) -> None:
    """States that rows can have. A reply that was being written when it was exported has ended."""
    ids = {one.id for one in tree.nodes}
    for node in tree.nodes:
        empty = node.role == "assistant" and not (node.content or node.reasoning or node.attachments)
        node.hidden = node.hidden and empty
        if node.status not in get_args(Status):
            node.status = "done"
        elif node.status == "streaming":
            node.status, node.error = "interrupted", node.error or INTERRUPTED
            node.hidden = empty
            mends["streaming"] += 1
        if node.replaces_id not in ids:
            node.replaces_id = None
        if node.deleted_at is None:
            node.deleted_root = None
    roots = {one.id for one in tree.nodes if one.deleted_root == one.id}
    for node in tree.nodes:
        if node.deleted_at is not None and node.deleted_root not in roots:
            node.deleted_root = node.id


def _keep_in_reach(tree: ChatTree) -> None:
    """What lies under a deleted message is in the trash with it; what lies under a hidden one shows it again."""
    by_id = {one.id: one for one in tree.nodes}
    for node in tree.nodes:
        above = by_id.get(node.parent_id or "")
        if above is not None and above.deleted_at is not None and node.deleted_at is None:
            node.deleted_at, node.deleted_root = above.deleted_at, above.deleted_root
    for node in reversed(tree.nodes):
        above = by_id.get(node.parent_id or "")
        if above is not None and node.visible:
            above.hidden = False


def _set_head(tree: ChatTree, mends: Mends) -> None:
    """A head that can be shown and is the last message of its branch: the one that was shown last, else made last."""
    by_id = tree.by_id()
    below: dict[str | None, list[Node]] = {}
    for one in tree.nodes:
        if one.visible:
            below.setdefault(one.parent_id, []).append(one)
    place = {one.id: number for number, one in enumerate(tree.nodes)}
    head = by_id.get(tree.head_id or "")
    ends: list[Node] = []
    todo = [*below.get(None, [])] if head is None or not head.visible else [head]
    while todo:
        one = todo.pop()
        children = below.get(one.id)
        if children:
            todo.extend(children)
        else:
            ends.append(one)
    last = max(ends, key=lambda one: (one.shown, one.created_at, place[one.id]), default=None)
    if head is None or not head.visible:
        mends["head"] += last is not None and (tree.head_id is not None or not tree.exact)
    elif last is not head:
        mends["head inside"] += 1
    tree.head_id = last.id if last else None
    if last is not None and not tree.exact:
        last.shown = 1
