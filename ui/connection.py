"""One open page: what it shows, what it was sent, and what still has to go out.

News are noted, not queued: a page that is slow to read gets fewer and larger frames, never a backlog. Frames leave in
one order, so that what was sent is what the page has.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

import orjson

from ..engine.errors import PagedChatError
from ..sessions.outline import node_view
from .engine_views import alerts_view, status_view
from .panel_feed import PanelFeed
from .shown_part import WINDOW, first_shown
from .views import (
    Blocks,
    View,
    aside_view,
    finished_blocks,
    finished_message,
    growing_message,
    list_item,
    patch,
    render_ahead,
    stamp,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .hub import Hub


class Connection:
    """State of one WebSocket.

    Attributes:
        session_id: the chat it shows, if any.
        panel: what it is told of KV blocks.
        near: whether the page is open on this computer; see ``block_text.is_near``.
        tree: the chat whose tree it shows, if any.
    """

    def __init__(self, hub: Hub, send: Callable[[bytes], Awaitable[None]], *, near: bool = False) -> None:
        self.hub = hub
        self.near = near
        self.session_id: str | None = None
        self.panel = PanelFeed(hub.kv, self._put, lambda: self._wake.set(), lambda: self.session_id)
        self.tree: str | None = None
        self._send = send
        self._out: deque[View] = deque()
        self._wake = asyncio.Event()
        self._lock = asyncio.Lock()
        self._first = 0
        self._ids: list[str] = []
        self._above: list[View] = []
        self._stamps: dict[str, str] = {}
        self._blocks: dict[str, Blocks] = {}
        self._reading: asyncio.Task[None] | None = None
        self._status = self._alerts = self._path = False
        self._sessions: dict[str, View] = {}
        self._replies: set[str] = set()
        self._rates: View | None = None
        self._nodes: dict[str, View] = {}
        self._queue: list[View] | None = None

    # -- what the hub notes -----------------------------------------------------------------------------------------

    def note_status(self) -> None:
        """The engine's state has changed."""
        self._status = True
        self._wake.set()

    def note_alerts(self) -> None:
        """A rule says something else than before."""
        self._alerts = True
        self._wake.set()

    def note_session(self, session: View) -> None:
        """A chat is new or changed; of several changes the page gets the last."""
        self._sessions[session["id"]] = session
        self._wake.set()

    def note_shelf(self, event: View) -> None:
        """Folders, presets, a draft, a branch or the trash have changed."""
        kind = event["type"]
        if kind == "queue":
            self._queue = event["queue"]
        rest = {name: value for name, value in event.items() if name != "type"}
        self._put({"ev": kind, **rest})

    def note_path(self) -> None:
        """The shown branch has changed, and with it its block table, which is read after it."""
        self._path = True
        self._wake.set()

    def note_lost(self, message_id: str) -> None:
        """Text of a running reply was missed: fetch it again."""
        self._stamps.pop(message_id, None)
        self.note_path()

    def note_message(self, message: View) -> None:
        """A message of the shown chat is new or changed; its tree has those of all branches."""
        if message["session_id"] == self.tree:
            self._nodes[message["id"]] = node_view(message)
            self._wake.set()
        if message["id"] in self._stamps:
            self._put_message(message)
        elif message["role"] == "assistant":
            self._put({"ev": "aside", "session": message["session_id"], "aside": aside_view(message)})

    def shows(self, message_id: str) -> bool:
        """Whether it follows the text of a running reply: others of the chat may be written at once."""
        return message_id in self._blocks

    def note_reply(self, message_id: str) -> None:
        """The text of a running reply of the shown chat has grown."""
        self._replies.add(message_id)
        self._wake.set()

    def note_rates(self, rates: View) -> None:
        """Speeds of all running replies, by message."""
        self._rates = rates
        self._wake.set()

    # -- what the page asks for -------------------------------------------------------------------------------------

    def answer(self, frame: View) -> None:
        """Send the answer to a call."""
        self._put(frame)

    async def open(self, session_id: str, message_id: str | None = None) -> View:
        """Show another chat; the answer is its branch, and what waits in it. What is told from now on builds on it, so
        nothing may be awaited before it is sent.

        Args:
            message_id: a message that has to be in that branch, so that it may have to change.

        Raises:
            PagedChatError: there is no such chat or message.
        """
        async with self._lock:
            before = self.session_id
            self.session_id, self._queue = session_id, None
            try:
                queue = await self.hub.service.queue.view(session_id)
                opened = await self._opened_at(session_id, message_id)
            except PagedChatError:
                self.session_id, self._ids = before, []
                raise
            self._stamps, self._blocks, self._ids = {}, {}, []
            self._path = False
            self.panel.left()
            self.panel.note_table()
            queue = queue if self._queue is None else self._queue  # it has changed meanwhile
            return {**self._path_of(opened), "info": self.hub.client.status.info, "queue": queue}

    async def _opened_at(self, session_id: str, message_id: str | None) -> View:
        begin = partial(first_shown, message_id=message_id)
        opened = await self._read(session_id, begin)
        if message_id is None or any(one["id"] == message_id for one in opened["messages"]):
            return opened
        await self.hub.service.select(message_id, session_id)
        return await self._read(session_id, begin)

    async def _read(self, session_id: str, begin: Callable[[list[str]], int]) -> View:
        """The shown part of a branch, rendered; other pages go on meanwhile."""
        opened = await self.hub.service.open(session_id, begin)
        if await render_ahead(opened["messages"]):
            opened = await self.hub.service.open(session_id, begin)
        return opened

    def leave_session(self) -> None:
        """Show no chat."""
        self.session_id, self._stamps, self._blocks, self._ids = None, {}, {}, []
        self.panel.left()

    async def widen(self) -> None:
        """Show more of the branch."""
        async with self._lock:
            self._first = max(0, self._first - WINDOW)
            self.note_path()

    def narrow(self) -> None:
        """Where very much is shown, show the last messages alone again once there is news of the branch."""
        self._first += len(self._ids) if len(self._ids) > 2 * WINDOW else 0

    def follow_tree(self, session_id: str | None) -> None:
        """Tell of all messages of a chat, in a few words each; of none for None."""
        self.tree, self._nodes = session_id, {}

    # -- sending ----------------------------------------------------------------------------------------------------

    async def pump(self) -> None:
        """Send what there is, for as long as the page is there."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                self._gather()
                while self._out:
                    await self._send(orjson.dumps(self._out.popleft()))
        finally:
            self.panel.close()
            if self._reading is not None:
                self._reading.cancel()

    def _put(self, frame: View) -> None:
        self._out.append(frame)
        self._wake.set()

    def _gather(self) -> None:
        if self._status:
            self._status = False
            self._put({"ev": "status", "status": status_view(self.hub)})
        if self._alerts:
            self._alerts = False
            self._put({"ev": "alerts", "alerts": alerts_view(self.hub)})
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            shown = {"full": session} if session["id"] == self.session_id else {}
            self._put({"ev": "session", "session": list_item(session), **shown})
        if self._nodes:
            self._put({"ev": "nodes", "session": self.tree, "nodes": list(self._nodes.values())})
            self._nodes = {}
        if self._path and self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_path())
        replies, self._replies = self._replies, set()
        for message_id in replies:
            self._put_patch(message_id)
        if self._rates is not None:
            self._put({"ev": "rates", "rates": self._rates})
            self._rates = None
        self.panel.gather()

    async def _read_path(self) -> None:
        """Read the branch for as long as there is news of it; text of replies goes on meanwhile."""
        try:
            while self._path:
                await self._put_path()
        finally:
            self._reading = None

    async def _put_path(self) -> None:
        async with self._lock:
            if self.session_id is None:
                return
            self._path = False
            try:
                opened = await self._read(self.session_id, self._still_shown)
                self._put({"ev": "path", **self._path_of(opened)})
                self.panel.note_table()
            except PagedChatError as error:
                self._put({"ev": "gone", "session": self.session_id, "error": str(error)})

    def _still_shown(self, ids: list[str]) -> int:
        """Where the shown part of the branch begins: where it did, if enough follows."""
        return self._first if self._first <= max(0, len(ids) - WINDOW // 4) else first_shown(ids)

    def _path_of(self, opened: View) -> View:
        """The shown messages of the branch: their ``ids``, less the first ``kept``, which are those told before; and
        those messages that the page has not yet."""
        self._first, shown = opened["earlier"], opened["messages"]
        old, ids = self._ids, [message["id"] for message in shown]
        above, self._above = self._above, (quoted := opened["quoted_above"])
        self._ids = ids
        kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, ids, strict=False)))
        if kept < len(old):
            self.panel.table_anew()  # another branch: the page waits for its table, though it may be the same
        for gone in self._stamps.keys() - set(ids):
            self._stamps.pop(gone)
            self._blocks.pop(gone, None)
        views = [self._view(message) for message in shown if self._stamps.get(message["id"]) != stamp(message)]
        return {
            "session": self.hub.with_hue(opened["session"]),
            "kept": kept,
            "ids": ids[kept:],
            "earlier": self._first,
            "quoted_above": quoted if quoted != above or not old else None,
            "messages": views,
            "asides": self.hub.asides(opened["session"]["id"], ids),
        }

    def _view(self, message: View) -> View:
        """A message for the page; of a reply that it has seen growing, only what is new, in patches that go before."""
        message_id, growing = message["id"], message["status"] == "streaming"
        sent = self._blocks.pop(message_id, None)
        self._stamps[message_id] = stamp(message)
        if sent is None and not growing:
            return finished_message(message)
        blocks = self.hub.reply(message).blocks() if growing else finished_blocks(message)
        if growing:
            self._blocks[message_id] = blocks
        if sent is not None:
            self._put_patches(message_id, sent, blocks)
        return growing_message(message, None if sent else blocks) if growing else message

    def _put_message(self, message: View) -> None:
        if self._stamps.get(message["id"]) != stamp(message):
            self._put({"ev": "message", "session": message["session_id"], "message": self._view(message)})

    def _put_patch(self, message_id: str) -> None:
        reply, sent = self.hub.rendered(message_id), self._blocks.get(message_id)
        if reply is None or sent is None:
            return
        self._blocks[message_id] = blocks = reply.blocks()
        self._put_patches(message_id, sent, blocks)

    def _put_patches(self, message_id: str, sent: Blocks, blocks: Blocks) -> None:
        for part, now in blocks.items():
            change = patch(sent[part], now)
            if change is not None:
                self._put({"ev": "patch", "session": self.session_id, "id": message_id, "part": part, **change})
