"""A chat as files and rows both can say it: one session and every message of its tree."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from typing import Any

from ..rows import Generation

NO_IDS = ("message_id",)
"""Fields of a run that only a database has."""


@dataclass(slots=True)
class NodeTokens:
    """The ids that a message has in prompts of one model.

    Attributes:
        token_ids: int32, little-endian, as ``rows.pack`` makes them.
    """

    fingerprint: str
    header_tokens: int
    token_ids: bytes


@dataclass(slots=True)
class Attached:
    """A file that was sent with a message. ``data`` is None where only its name is known."""

    name: str
    media_type: str
    data: bytes | None
    created_at: str = ""
    deleted_at: str | None = None


@dataclass(slots=True)
class Node:
    """One message.

    Attributes:
        order: place among all messages of the chat, as siblings are counted; None: its place in the list.
        shown: grows each time a branch was shown that ends here.
        kind: "summary" for what stands for all that is above it.
        sent_before, sent_after, sources: see ``sent_files``.
        runs: how a reply came to be, one for each time the model was asked.
    """

    id: str
    parent_id: str | None
    role: str
    content: str = ""
    reasoning: str | None = None
    status: str = "done"
    error: str | None = None
    hidden: bool = False
    replaces_id: str | None = None
    shown: int = 0
    created_at: str = ""
    updated_at: str = ""
    deleted_at: str | None = None
    deleted_root: str | None = None
    copied_from: str | None = None
    kind: str | None = None
    sent_before: str | None = None
    sent_after: str | None = None
    sources: str | None = None
    order: int | None = None
    runs: list[Generation] = field(default_factory=list)
    tokens: list[NodeTokens] = field(default_factory=list)
    attachments: list[Attached] = field(default_factory=list)

    @property
    def visible(self) -> bool:
        """Whether paths and lists of siblings name it."""
        return not self.hidden and self.deleted_at is None


@dataclass(slots=True)
class Draft:
    """What was typed and not sent."""

    text: str
    parent_id: str | None = None
    edits_id: str | None = None
    updated_at: str = ""


@dataclass(slots=True)
class Preset:
    """A preset as files have it; the texts of ``tools`` and ``examples`` are JSON."""

    id: str
    name: str
    system_prompt: str = ""
    policy: str = ""
    tools: str = ""
    examples: str = "[]"
    retrieval: str = ""
    model: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    created_at: str = ""
    updated_at: str = ""
    deleted_at: str | None = None


@dataclass(slots=True)
class Shelf:
    """What belongs to no chat: all presets, and the names of all folders."""

    presets: list[Preset] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ChatTree:
    """A whole chat.

    Attributes:
        id: what the chat was called where it comes from; rows get ids of their own.
        begun_at: the date in its prompts, where that is not ``created_at``.
        origin: the format it was read from, "" for one that was read from rows.
        folder: name of its folder; one is made where there is none of that name.
        system_tokens: fingerprint -> ids of the system turn, packed.
        loose: attachments of the draft.
        source: where it came from before that, if it was imported there.
        exact: read from a file of ours, so the head and the order are as they should be.
    """

    id: str
    title: str | None = None
    title_by: str | None = None
    head_id: str | None = None
    system_prompt: str | None = None
    model: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    created_at: str = ""
    updated_at: str = ""
    begun_at: str | None = None
    pinned: bool = False
    archived: bool = False
    deleted_at: str | None = None
    forked_from: str | None = None
    folder: str | None = None
    preset: Preset | None = None
    draft: Draft | None = None
    system_tokens: dict[str, bytes] = field(default_factory=dict)
    loose: list[Attached] = field(default_factory=list)
    source: dict[str, Any] | None = None
    origin: str = ""
    exact: bool = False
    nodes: list[Node] = field(default_factory=list)

    def by_id(self) -> dict[str, Node]:
        """The messages by their ids."""
        return {one.id: one for one in self.nodes}

    def branch(self, node_id: str | None, by_id: dict[str, Node] | None = None) -> list[Node]:
        """The messages from the root to ``node_id``; empty if there is no such message."""
        by_id = self.by_id() if by_id is None else by_id
        found: list[Node] = []
        while node_id is not None and (node := by_id.get(node_id)) is not None:
            found.append(node)
            node_id = node.parent_id
        return found[::-1]

    def leaves(self) -> list[Node]:
        """Visible messages without a visible one under them, in the order they were made."""
        parents = {one.parent_id for one in self.nodes if one.visible}
        return [one for one in self.nodes if one.visible and one.id not in parents]


def content_name(tree: ChatTree) -> str:
    """A name for a chat that has none where it comes from: the same for the same messages."""
    digest = hashlib.sha256((tree.system_prompt or "").encode())
    for one in tree.nodes:
        digest.update(f"\0{one.role}\0{one.content}".encode())
    return f"sha256:{digest.hexdigest()}"


def tree_order(nodes: list[Node], children: dict[str, list[str]] | None = None) -> None:
    """Set ``order`` for a program that lists the children of a message: theirs first, then by time, then by place.

    Args:
        children: message id -> ids below it, the oldest first.
    """
    listed = {child: place for ids in (children or {}).values() for place, child in enumerate(ids)}
    place = {id(one): index for index, one in enumerate(nodes)}
    below: dict[str | None, list[Node]] = {}
    for one in nodes:
        below.setdefault(one.parent_id, []).append(one)
    for group in below.values():
        group.sort(key=lambda one: (listed.get(one.id, len(listed)), one.created_at, place[id(one)]))
    known = {one.id for one in nodes}
    open_ends = [one for parent, group in below.items() if parent not in known for one in group][::-1]
    seen: set[int] = set()
    while open_ends:
        one = open_ends.pop()
        if id(one) in seen:
            continue
        one.order = len(seen)
        seen.add(id(one))
        open_ends.extend(reversed(below.get(one.id, [])))
    for one in nodes:  # what a cycle hides comes last
        if id(one) not in seen:
            one.order = len(seen)
            seen.add(id(one))


RUN_FIELDS = tuple(one.name for one in fields(Generation) if one.name not in NO_IDS)
