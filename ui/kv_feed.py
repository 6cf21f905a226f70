"""KV events, counters and block tables for the panels that are open; nothing runs while there is none.

Events are gathered for a moment and sent together. When a burst of them is over the books are read once more, so that
the lamp shows what the engine says and not what was assumed.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from ..engine.errors import PagedChatError
from .engine_figures import EngineFigures
from .kv_packing import pack_event
from .step_packing import MOST_STEPS, pack_steps

GATHER_S = 0.1
"""Events that come within this are sent together."""
CALM_S = 0.6
"""From one look at the counters to the next while there is news."""
LONGEST_BACKLOG = 4_000
"""Events a slow page may be behind; beyond that it gets a new snapshot instead."""
_EVENT_FIELDS = ("seq", "type", "blocks", "ref_counts", "states", "num_tokens")


class Panel(Protocol):
    """What the feed tells an open panel."""

    @property
    def session_id(self) -> str | None: ...
    @property
    def shows_steps(self) -> bool: ...
    def note_kv(self, events: list[dict[str, Any]]) -> None: ...
    def note_stats(self, stats: dict[str, Any]) -> None: ...
    def note_table(self) -> None: ...


class KvFeed:
    """One subscription to the engine's events for all panels."""

    def __init__(self, client: Any, service: Any) -> None:
        """
        Args:
            client: an ``EngineClient`` or what behaves like one.
            service: the chat service.
        """
        self._client = client
        self._service = service
        self._followers: set[Panel] = set()
        self._unsubscribe: Any = None
        self._worker: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._touched: set[str] = set()
        self._figures = EngineFigures(client)
        self._last_step = 0
        self._running = 0

    def follow(self, panel: Panel) -> None:
        """A panel has opened."""
        self._followers.add(panel)
        if self._unsubscribe is None:
            self._figures.begin()
            self._unsubscribe = self._client.watch_events(self._on_events)
            self._worker = asyncio.get_running_loop().create_task(self._work())

    def unfollow(self, panel: Panel) -> None:
        """A panel has closed."""
        self._followers.discard(panel)
        if self._followers or self._unsubscribe is None:
            return
        self._unsubscribe()
        self._unsubscribe = None
        if self._worker is not None:
            self._worker.cancel()
            self._worker = None

    async def look(self) -> dict[str, Any]:
        """The pool in few bytes (see ``pool_brief``) and the counters of this moment.

        Raises:
            PagedChatError: the engine is not there.
        """
        brief = await self._client.brief()
        return {"snapshot": brief, "stats": await self._figures.look(), "info": self._client.status.info}

    async def engine_now(self) -> dict[str, Any]:
        """Counters, and the newest steps packed.

        Raises:
            PagedChatError: the engine is not there.
        """
        stats = await self._figures.look()
        return {"stats": stats, "steps": pack_steps(await self._client.steps_since(0, MOST_STEPS))}

    async def table(self, session_id: str, message_id: str | None = None) -> dict[str, Any]:
        """Block table of a session's branch that ends with a message; None: the shown one.

        Raises:
            PagedChatError: the engine is not there, or the session is gone.
        """
        ids = await self._service.branch_tokens(session_id, message_id)
        rows = await self._client.branch(ids, self._service.salt(session_id))
        info = self._client.status.info
        return {
            "session": session_id,
            "end": message_id,
            "block_size": info.get("block_size", 16),
            "rows": [_table_row(row) for row in rows],
        }

    def _on_events(self, events: list[dict[str, Any]]) -> None:
        told = [page_event(event) for event in events]
        for panel in self._followers:
            panel.note_kv(told)
        self._touched.update(event["labels"].get("session", "") for event in events if event.get("labels"))
        self._news.set()

    async def _work(self) -> None:
        """After news: counters and tables now and then; after the last of them: the books, once."""
        while True:
            await self._news.wait()
            booked = False
            while self._news.is_set() or self._steps_go_on():
                calm = not self._news.is_set()
                self._news.clear()
                await self._tell(books=calm and not booked)
                booked = calm
                await asyncio.sleep(CALM_S)
            if not booked:
                await self._tell(books=True)

    def _steps_go_on(self) -> bool:
        """Whether somebody looks at steps, and there are some: most of them move no block."""
        return self._running > 0 and self._steps_are_seen()

    def _steps_are_seen(self) -> bool:
        return any(panel.shows_steps for panel in self._followers)

    async def _new_steps(self) -> dict[str, Any] | None:
        if not self._steps_are_seen():
            return None
        rows = await self._client.steps_since(self._last_step, MOST_STEPS)
        self._last_step = rows[-1]["step"] if rows else self._last_step
        return pack_steps(rows)

    async def _tell(self, books: bool) -> None:
        touched, self._touched = self._touched, set()
        try:
            stats = await self._figures.look()
            steps = await self._new_steps()
            if books:
                stats["books"] = await self._client.books()
        except PagedChatError:
            self._running = 0
            return
        self._running = stats.get("running", 0)
        for panel in self._followers:
            panel.note_stats({**stats, "new_steps": steps} if steps and panel.shows_steps else stats)
            if books or panel.session_id in touched:
                panel.note_table()


def page_event(event: dict[str, Any]) -> dict[str, Any]:
    """An event as the page needs it; ``time`` in seconds since the epoch, to the millisecond."""
    kept = {name: event.get(name) for name in _EVENT_FIELDS}
    kept["time"] = round(event.get("time") or 0.0, 3)
    labels = event.get("labels") or {}
    return pack_event({**kept, "owner": labels.get("session") or event.get("request_id")})


def _table_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of ``Engine.branch`` under the page's names."""
    return {
        "logical": row["logical"],
        "physical": row["block"],
        "count": row["ref_count"],
        "tokens": row["num_tokens"],
        "cached": row["cached_tokens"],
        "sharers": row["sharers"],
    }
