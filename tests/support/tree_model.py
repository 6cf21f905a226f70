"""What a store should hold, in plain Python: every message as an object, every rule of the tree as a loop over them."""

from __future__ import annotations

from dataclasses import dataclass, field


class Refused(Exception):
    """The store must refuse this too."""


@dataclass
class Node:
    """A message. ``run``: the finish reason of its last run; None for one that no model wrote."""

    id: str
    chat: str
    above: Node | None
    role: str
    text: str
    status: str = "done"
    run: str | None = None
    hidden: bool = False
    deleted_with: str | None = None
    shown: int = 0
    replaces: Node | None = None
    below: list[Node] = field(default_factory=list)

    @property
    def visible(self) -> bool:
        return not self.hidden and self.deleted_with is None

    @property
    def empty(self) -> bool:
        """A reply that has ended without text."""
        return self.role == "assistant" and not self.text and self.status != "streaming"

    @property
    def path(self) -> list[Node]:
        return [*(self.above.path if self.above else []), self]

    @property
    def all(self) -> list[Node]:
        return [self, *(one for child in self.below for one in child.all)]

    @property
    def leaves(self) -> list[Node]:
        """Visible ends at or below it."""
        below = [one for child in self.below if child.visible for one in child.leaves]
        return below or [self]

    @property
    def last_leaf(self) -> Node:
        return max(self.leaves, key=lambda one: (one.shown, one.id))


@dataclass
class Chat:
    """A session, its settings, and the messages without any above."""

    id: str
    head: Node | None = None
    deleted: bool = False
    pinned: bool = False
    archived: bool = False
    folder: str | None = None
    draft: str = ""
    roots: list[Node] = field(default_factory=list)

    @property
    def all(self) -> list[Node]:
        return [one for root in self.roots for one in root.all]


class TreeModel:
    """All chats of a store."""

    def __init__(self) -> None:
        self.chats: dict[str, Chat] = {}
        self.folders: dict[str, bool] = {}
        self._clock = 0

    @property
    def nodes(self) -> list[Node]:
        return [one for chat in self.chats.values() for one in chat.all]

    def node(self, message_id: str) -> Node:
        return next(one for one in self.nodes if one.id == message_id)

    # -- rules ------------------------------------------------------------------------------------------------------

    def place_of_question(self, parent: Node) -> Node | None:
        """The message that a question sent under ``parent`` really follows."""
        self.check_open(self.chats[parent.chat])
        self.check_kept(parent)
        if parent.status == "streaming":
            raise Refused
        return parent.above if parent.empty else parent

    def ask(self, chat: Chat, parent: Node | None, text: str, question_id: str, reply_id: str) -> None:
        place = self.place_of_question(parent) if parent else None
        if parent is not None and place is not parent:
            parent.hidden = True
        question = self.add(Node(question_id, chat.id, place, "user", text))
        self.add(Node(reply_id, chat.id, question, "assistant", "", "streaming"))
        self.show(chat, self.node(reply_id))

    def regenerate(self, target: Node, reply_id: str) -> None:
        question = target if target.role == "user" else target.above
        assert question is not None
        replaces = self.shown_at(target)
        if target.empty:
            target.hidden, replaces = True, None
        reply = self.add(Node(reply_id, target.chat, question, "assistant", "", "streaming", replaces=replaces))
        self.show(self.chats[target.chat], reply)

    def edit(self, target: Node, text: str, edited_id: str, reply_id: str | None) -> None:
        edited = self.add(Node(edited_id, target.chat, target.above, target.role, text))
        target.hidden = target.hidden or target.empty
        if reply_id is not None:
            edited = self.add(Node(reply_id, target.chat, edited, "assistant", "", "streaming"))
        self.show(self.chats[target.chat], edited)

    def proceed(self, target: Node, reply_id: str) -> None:
        """A reply is written further, in a copy if anything follows it."""
        reply = target
        if target.below:
            replaces = self.shown_at(target)
            reply = Node(reply_id, target.chat, target.above, "assistant", target.text, run=target.run)
            reply.replaces = replaces
            self.add(reply)
        reply.status = "streaming"
        self.show(self.chats[target.chat], reply)

    def can_proceed(self, target: Node) -> bool:
        unfinished = target.status in ("stopped", "interrupted", "error") or target.run in (None, "length")
        return target.role == "assistant" and target.status != "streaming" and unfinished and bool(target.text)

    def end(self, reply: Node, text: str, status: str, run: str | None) -> None:
        chat = self.chats[reply.chat]
        reply.text, reply.status, reply.run = text, status, run or reply.run
        if text or (status == "error" and reply.replaces is None):
            return
        reply.hidden = True
        if chat.head is reply:
            back = reply.replaces or reply.above
            self.show(chat, back.last_leaf if back and back.visible else self.nearest(reply))

    def delete_branch(self, root: Node) -> int:
        chat, within = self.chats[root.chat], self.on_path(root)
        gone = [one for one in root.all if one.deleted_with is None]
        for one in gone:
            one.deleted_with = root.id
        if within:
            self.show(chat, self.nearest(root))
        return sum(not one.hidden for one in gone)

    def restore_branch(self, root: Node) -> None:
        for one in root.all:
            if one.deleted_with == root.id:
                one.deleted_with = None
        self.show(self.chats[root.chat], root.last_leaf)

    def to_fork(self, target: Node, mode: str) -> list[Node]:
        """The originals that a fork copies."""
        everyone = [one for one in self.chats[target.chat].all if one.visible]
        everyone = [one for one in everyone if one.status != "streaming" or one.text]
        if mode == "tree":
            return everyone
        path = target.path
        chosen = path if mode == "branch" else [one for step in path for one in self.siblings(step)]
        return [one for one in everyone if one in chosen]

    def fork(self, target: Node, mode: str, chat_id: str, ids: dict[str, str]) -> None:
        source = self.chats[target.chat]
        chat = self.chats[chat_id] = Chat(chat_id, folder=source.folder)
        copies: dict[str, Node] = {}
        for old in sorted(self.to_fork(target, mode), key=lambda one: (len(one.path), one.id)):
            above = copies[old.above.id] if old.above else None
            status = "interrupted" if old.status == "streaming" else old.status
            copies[old.id] = self.add(Node(ids[old.id], chat_id, above, old.role, old.text, status, old.run))
            copies[old.id].shown = old.shown
        shown = copies.get(target.id) or copies.get(target.above.id if target.above else "")
        self.show(chat, shown.last_leaf if shown else None)

    # -- questions --------------------------------------------------------------------------------------------------

    def siblings(self, node: Node) -> list[Node]:
        """Visible messages beside it, itself included, in the order they were made."""
        beside = node.above.below if node.above else self.chats[node.chat].roots
        return [one for one in beside if one.visible]

    def on_path(self, node: Node) -> bool:
        head = self.chats[node.chat].head
        return head is not None and node in head.path

    def nearest(self, gone: Node) -> Node | None:
        beside = [one for one in self.siblings(gone) if one is not gone]
        if beside:
            return max((one for each in beside for one in each.leaves), key=lambda one: (one.shown, one.id))
        return gone.above if gone.above is None or gone.above.visible else self.nearest(gone.above)

    def shown_at(self, target: Node) -> Node | None:
        head = self.chats[target.chat].head
        leaf = head if self.on_path(target) else target.last_leaf
        return None if leaf is target and target.role == "user" else leaf

    def check_open(self, chat: Chat) -> None:
        if chat.deleted:
            raise Refused

    def check_kept(self, node: Node) -> None:
        self.check_open(self.chats[node.chat])
        if node.deleted_with is not None:
            raise Refused

    # -- inside -----------------------------------------------------------------------------------------------------

    def add(self, node: Node) -> Node:
        (node.above.below if node.above else self.chats[node.chat].roots).append(node)
        return node

    def show(self, chat: Chat, node: Node | None) -> None:
        chat.head = node
        if node is not None:
            self._clock += 1
            node.shown = self._clock
