"""What one page is told of KV blocks while its panel is open: a snapshot, the events after it, and the block table."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ..engine.errors import PagedChatError
from .kv_feed import GATHER_S, LONGEST_BACKLOG, KvFeed
from .kv_packing import pack_events, pack_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from .views import View


class PanelFeed:
    """The panel of one page.

    Attributes:
        on: whether it is open.
        shows_steps: whether it shows what each step of the engine runs.
    """

    def __init__(
        self, feed: KvFeed, put: Callable[[View], None], wake: Callable[[], None], session: Callable[[], str | None]
    ) -> None:
        """
        Args:
            put: sends a frame to the page.
            wake: has ``gather`` called once the page has read what it was sent.
            session: the chat that the page shows.
        """
        self.on = self.shows_steps = False
        self._feed = feed
        self._put = put
        self._wake = wake
        self._session = session
        self._end: str | None = None
        self._rows: list[View] | None = None
        self._events: list[View] = []
        self._stats: View | None = None
        self._ripe: asyncio.TimerHandle | None = None
        self._due = False
        self._snapshot = self._table = self._hold = False
        self._looking: asyncio.Task[None] | None = None

    @property
    def session_id(self) -> str | None:
        """The chat whose blocks are told of."""
        return self._session()

    @property
    def end(self) -> str | None:
        """The message that the block table ends with; None: the last of the shown branch."""
        return self._end

    # -- what the page asks for -------------------------------------------------------------------------------------

    def follow(self, on: bool) -> None:
        """Open or close the panel; opening brings a snapshot first."""
        self.on = on
        self._events, self._rows = [], None
        if not on:
            self._snapshot = self.shows_steps = False
            self._feed.unfollow(self)
            return
        self._snapshot = self._table = True
        self._feed.follow(self)
        self._look_soon()

    def end_at(self, message_id: str | None) -> None:
        """Tell the blocks of the branch that ends with a message; for None those of the shown one."""
        self._end = message_id
        self.table_anew()

    def table_anew(self) -> None:
        """The next table comes whole: the page waits for it."""
        self._rows = None
        self.note_table()

    def left(self) -> None:
        """Another chat is shown, or none."""
        self._end, self._rows = None, None

    def close(self) -> None:
        """The page has gone."""
        if self._looking is not None:
            self._looking.cancel()

    # -- what the feed notes ----------------------------------------------------------------------------------------

    def note_kv(self, events: list[View]) -> None:
        """Blocks have changed hands. A page that falls too far behind gets a snapshot instead."""
        if len(self._events) > LONGEST_BACKLOG:
            self._events, self._snapshot = [], True
        if self._snapshot:
            self._look_soon()
            return
        self._events += events
        if self._ripe is None:
            self._ripe = asyncio.get_running_loop().call_later(GATHER_S, self._ripen)

    def note_stats(self, stats: View) -> None:
        """The engine's counters."""
        self._stats = stats
        self._wake()

    def note_table(self) -> None:
        """Blocks of the shown branch may have changed."""
        self._table = self.on
        self._look_soon()

    # -- asking the engine ------------------------------------------------------------------------------------------

    def _look_soon(self) -> None:
        if (self._snapshot or self._table) and self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        """Ask the engine what the panel lacks. It answers between two steps, and nothing else may wait for that."""
        try:
            while self._snapshot or self._table:
                if self._snapshot:
                    await self._put_snapshot()
                if self._table:
                    await self._put_table()
        finally:
            self._looking = None

    async def _put_snapshot(self) -> None:
        """A snapshot, then the events that came while it was on its way."""
        self._snapshot, self._hold = False, True
        try:
            found = await self._feed.look()
            if self.on:
                self._put({"ev": "kv-snapshot", **found})
        except PagedChatError:
            self._snapshot = False  # the next status says when the engine is back; the page asks again then
        finally:
            self._hold = False
            self._wake()

    async def _put_table(self) -> None:
        self._table = False
        session_id, end = self.session_id, self._end
        if session_id is None:
            return
        try:
            table: dict[str, Any] = await self._feed.table(session_id, end)
        except PagedChatError:
            return
        if (session_id, end) != (self.session_id, self._end) or not self.on:
            return
        rows, old = table.pop("rows"), self._rows
        changed = pack_rows(rows, old)
        if old is None or changed or len(rows) != len(old):
            self._rows = rows
            self._put({"ev": "kv-table", **table, "total": len(rows), "fresh": old is None, "rows": changed})

    # -- sending ----------------------------------------------------------------------------------------------------

    def _ripen(self) -> None:
        self._ripe, self._due = None, True
        self._wake()

    def gather(self) -> None:
        """Send the events and counters that have come together."""
        if self._due and not self._hold:
            self._due = False
            events, self._events = self._events, []
            if events and self.on and not self._snapshot:
                self._put({"ev": "kv", **pack_events(events)})
        if self._stats is not None:
            self._put({"ev": "kv-stats", "stats": self._stats})
            self._stats = None
