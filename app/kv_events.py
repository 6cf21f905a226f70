"""KV events as server-sent events: from any number on, without gap or repetition, at the client's pace."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

import orjson

from ..engine.client import EngineClient
from ..engine.errors import PagedChatError
from ..engine.events import reset_event

KEEP_ALIVE_S = 15.0
MAX_BEHIND = 10_000


class EventFollower:
    """One client's view of the event stream. A "reset" event stands wherever events are missing."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._fresh: deque[dict[str, Any]] = deque()
        self._arrived = asyncio.Event()
        self._behind = False
        self._known = -1

    async def follow(self, start: int | None) -> AsyncGenerator[bytes, None]:
        """Events after number ``start``, then new ones for ever; for None only new ones.

        Ends when the engine cannot be asked, so that the client connects again.
        """
        unwatch = self._client.watch_events(self._take)
        try:
            yield b": following\n\n" + _lines(await self._missed(start))
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._arrived.wait(), KEEP_ALIVE_S)
                self._arrived.clear()
                yield _lines(await self._news()) or b": still here\n\n"
        except PagedChatError:
            return
        finally:
            unwatch()

    def _take(self, batch: list[dict[str, Any]]) -> None:
        self._fresh.extend(batch)
        if len(self._fresh) > MAX_BEHIND:
            self._fresh.clear()
            self._behind = True
        self._arrived.set()

    async def _missed(self, start: int | None) -> list[dict[str, Any]]:
        if start is None:
            self._known = (await self._client.snapshot())["seq"]
            return []
        events = await self._client.events_since(start)
        if events is None:
            return await self._reset()
        self._known = events[-1]["seq"] if events else start
        return events

    async def _news(self) -> list[dict[str, Any]]:
        if self._behind:
            return await self._reset()
        events = [event for event in self._fresh if event["seq"] > self._known]
        self._fresh.clear()
        if events:
            self._known = events[-1]["seq"]
        return events

    async def _reset(self) -> list[dict[str, Any]]:
        self._behind = False
        self._known = (await self._client.snapshot())["seq"]
        return [reset_event(self._known)]


def _lines(events: list[dict[str, Any]]) -> bytes:
    return b"".join(b"id: %d\ndata: %b\n\n" % (event["seq"], orjson.dumps(event)) for event in events)
