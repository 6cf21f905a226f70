"""What all open pages share: one subscription to the chat service, and the HTML of replies that are being written.

A reply is rendered once however many pages follow it, at most ``RENDERS_PER_S`` times a second, less often when one
render takes long. With no page open nothing is subscribed and nothing is kept.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

from ..engine.status import EngineStatus
from .kv_feed import KvFeed
from .panel_feed import PanelFeed
from .reply_rate import ReplyRate
from .reply_render import RunningReply
from .views import View, list_item

RATES_EVERY_S = 1.0
RENDERS_PER_S = 30
COST_SHARE = 3
"""A reply whose render takes t seconds is rendered every ``COST_SHARE`` t seconds at most."""
NUM_HUES = 6
TEMPORARY_WAITS_S = 30.0
"""How long a temporary chat waits for its page to come back."""

SHELF_EVENTS = ("folders", "presets", "branch", "purged")
"""Events about the shelf of chats that every page gets as they are."""


class Page(Protocol):
    """What the hub tells an open page."""

    session_id: str | None
    panel: PanelFeed

    def note_status(self) -> None: ...
    def note_alerts(self) -> None: ...
    def note_session(self, session: View) -> None: ...
    def note_shelf(self, event: View) -> None: ...
    def note_path(self) -> None: ...
    def note_lost(self, message_id: str) -> None: ...
    def note_message(self, message: View) -> None: ...
    def shows(self, message_id: str) -> bool: ...
    def note_reply(self, message_id: str) -> None: ...
    def note_rates(self, rates: View) -> None: ...


class Hub:
    """Passes what happens to the connections that show it.

    Attributes:
        service, client: the chat service and the engine client.
        recovery, alerts, installation: see ``ui_router``.
        kv: KV events and counters for the panels.
    """

    def __init__(
        self, service: Any, client: Any, recovery: Any = None, alerts: Any = None, installation: Any = None
    ) -> None:
        self.service = service
        self.client = client
        self.recovery = recovery
        self.alerts = alerts
        self.installation = installation
        if recovery is not None:
            recovery.watch(lambda: self._on_status(client.status))
        self.kv = KvFeed(client, service)
        self._connections: set[Page] = set()
        self._replies: dict[str, RunningReply] = {}
        self._session_of: dict[str, str] = {}
        self._rates: dict[str, ReplyRate] = {}
        self._rates_told = 0.0
        self._hues: dict[str, int] = {}
        self._unsubscribe: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None

    # -- connections ------------------------------------------------------------------------------------------------

    def join(self, connection: Page) -> None:
        """A page has connected."""
        self._connections.add(connection)
        if not self._unsubscribe:
            self._unsubscribe = [
                self.service.subscribe(self._on_event),
                self.client.watch_status(self._on_status),
            ]
            if self.alerts is not None:
                self._unsubscribe.append(self.alerts.watch(self._on_alerts))

    def leave(self, connection: Page) -> None:
        """A page has gone."""
        self._connections.discard(connection)
        self.kv.unfollow(connection.panel)
        self._leave_temporary(connection.session_id)
        if self._connections:
            return
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe = []
        for kept in (self._replies, self._session_of, self._rates):
            kept.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _leave_temporary(self, session_id: str | None) -> None:
        """A temporary chat that no page shows ends, unless one comes back to it: a page that is loaded again does."""
        if session_id is None or not self.service.core.is_temporary(session_id):
            return

        def end() -> None:
            if not any(one.session_id == session_id for one in self._connections):
                self.service.core.background(self.service.end_temporary(session_id))

        asyncio.get_running_loop().call_later(TEMPORARY_WAITS_S, end)

    # -- what a page asks for ---------------------------------------------------------------------------------------

    async def sessions(self) -> list[View]:
        """All chats as the list shows them, each with the hue of its blocks."""
        sessions = await self.service.list_sessions()
        for one in sorted(sessions, key=lambda session: session["created_at"]):
            self.hue(one["id"])
        return [list_item(self.with_hue(one)) for one in sessions]

    def shown_elsewhere(self, connection: Page) -> set[str]:
        """Ids of the chats that other pages show."""
        return {one.session_id for one in self._connections if one is not connection and one.session_id is not None}

    def asides(self, session_id: str, shown: list[str]) -> list[View]:
        """The replies of a chat that are being written and are not ``shown``; see ``aside_view``."""
        running = [job.message for job in self.service.core.running(session_id) if job.message.id not in shown]
        return [{"id": one.id, "parent_id": one.parent_id, "status": one.status, "tokens": None} for one in running]

    def with_hue(self, session: View) -> View:
        """A session's view with its ``hue``."""
        return {**session, "hue": self.hue(session["id"])}

    def hue(self, session_id: str) -> int:
        """0 to 5: the colour of a session's blocks, the same in every page; neighbours in time differ."""
        return self._hues.setdefault(session_id, len(self._hues) % NUM_HUES)

    def reply(self, message: View) -> RunningReply:
        """The render of a running reply, which has at least the text of ``message``."""
        reply = self._replies.get(message["id"])
        if reply is None:
            reply = self._replies[message["id"]] = RunningReply()
        self._session_of[message["id"]] = message["session_id"]
        reply.catch_up(message)
        if reply.stale:
            reply.render()
        return reply

    def rendered(self, message_id: str) -> RunningReply | None:
        """A running reply as rendered last."""
        return self._replies.get(message_id)

    # -- events -----------------------------------------------------------------------------------------------------

    def _on_status(self, status: EngineStatus) -> None:
        for connection in self._connections:
            connection.note_status()

    def _on_alerts(self) -> None:
        for connection in self._connections:
            connection.note_alerts()

    def _on_event(self, event: View) -> None:
        kind = event["type"]
        if kind in ("delta", "reasoning"):
            self._on_delta(event)
        elif kind == "message":
            self._on_message(event["message"])
        elif kind == "head":
            self._followers(event["session_id"], lambda one: one.note_path())
        elif kind == "session":
            view = self.with_hue(event["session"])
            for connection in self._connections:
                connection.note_session(view)
        elif kind == "draft":
            self._followers(event["draft"]["session_id"] or None, lambda one: one.note_shelf(event))
        elif kind == "queue":
            self._followers(event["session_id"], lambda one: one.note_shelf(event))
        elif kind == "attachments":
            news = {"type": "files", "session": event["session_id"]}
            self._followers(event["session_id"], lambda one: one.note_shelf(news))
        elif kind in SHELF_EVENTS:
            for connection in self._connections:
                connection.note_shelf(event)

    def _on_message(self, message: View) -> None:
        if message["status"] == "streaming":
            self.reply(message)
        else:
            reply = self._replies.pop(message["id"], None)
            if reply is not None and any(one.shows(message["id"]) for one in self._connections):
                reply.end(message)
            for kept in (self._session_of, self._rates):
                kept.pop(message["id"], None)
        self._followers(message["session_id"], lambda one: one.note_message(message))

    def _on_delta(self, event: View) -> None:
        message_id = event["message_id"]
        reply = self._replies.get(message_id)
        first = reply is None or reply.empty
        if reply is None and event["offset"] == 0:
            reply = self._replies[message_id] = RunningReply()
        if reply is None or not reply.part(event["type"]).take(event["offset"], event["text"]):
            self._replies.pop(message_id, None)
            self._followers(event["session_id"], lambda one: one.note_lost(message_id))
            return
        self._session_of[message_id] = event["session_id"]
        self._rates.setdefault(message_id, ReplyRate()).take(event["tokens"])
        if first:  # with the first token the engine has told how much of the prompt it reused
            self._followers(event["session_id"], lambda one: one.note_path())
        if self._timer is None:
            self._wake_in(0.0)

    # -- rendering --------------------------------------------------------------------------------------------------

    def _wake_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._render)

    def _render(self) -> None:
        """Render what has grown for pages that show it. The next look comes when the pause is over, if it is needed."""
        self._timer = None
        cost = 0.0
        for message_id, reply in self._replies.items():
            followers = [one for one in self._connections if one.shows(message_id)] if reply.stale else []
            if not followers:
                continue
            cost += reply.render()
            for connection in followers:
                connection.note_reply(message_id)
        self._tell_rates()
        if cost:
            self._wake_in(max(1 / RENDERS_PER_S, COST_SHARE * cost))

    def _tell_rates(self) -> None:
        """Speeds of all running replies to all pages, once a second at most."""
        now = time.monotonic()
        if now - self._rates_told < RATES_EVERY_S:
            return
        self._rates_told = now
        rates = {
            message_id: {"session": self._session_of[message_id], "rate": rate.per_second}
            for message_id, rate in self._rates.items()
            if rate.per_second is not None
        }
        for connection in self._connections:
            connection.note_rates(rates)

    def _followers(self, session_id: str | None, note: Callable[[Page], None]) -> None:
        for connection in self._connections:
            if connection.session_id == session_id:
                note(connection)
