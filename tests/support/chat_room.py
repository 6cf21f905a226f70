"""A chat service over a store on disk and a scripted engine, for tests of the session floor."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from pagedchat.sessions.chat_service import ChatService
from pagedchat.sessions.store import SessionStore
from support.fake_client import FakeEngineClient


class ChatRoom:
    """``async with ChatRoom(path) as room``: a service, its events, and short ways to play a story."""

    def __init__(self, path: Path, engine: Any = None, **store_options: Any) -> None:
        self.engine: Any = engine or FakeEngineClient()
        self.store = SessionStore(path, **store_options)
        self.service = ChatService(self.store, self.engine)
        self.events: list[dict[str, Any]] = []
        self.gapless = True
        self._views: dict[str, dict[str, Any]] = {}
        self._texts: dict[str, str] = {}
        self.service.subscribe(self._hear)

    async def __aenter__(self) -> ChatRoom:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.service.close()

    async def new(self, **options: Any) -> str:
        """Id of a new session."""
        return (await self.service.create_session(**options))["id"]

    async def ask(self, session_id: str, text: str, parent_id: str | None = None) -> dict[str, Any]:
        """Send and wait for the end: the reply's view."""
        sent = await self.service.send(session_id, parent_id, text)
        return await self.end_of(sent["reply"]["id"])

    async def end_of(self, message_id: str) -> dict[str, Any]:
        """Wait until a reply is no longer written: its view, from the events."""
        return await self.until(lambda: (view := self.last_view(message_id)) and view["status"] != "streaming" and view)

    async def begun(self, message_id: str, characters: int = 1) -> None:
        """Wait until a reply has some text."""
        await self.until(lambda: self.text_of(message_id, at_least=characters) is not None)

    def last_view(self, message_id: str) -> dict[str, Any] | None:
        """The latest message event of a message."""
        return self._views.get(message_id)

    def text_of(self, message_id: str, at_least: int = 0) -> str | None:
        """What the deltas of a message spell; None while it is shorter than ``at_least``."""
        text = self._texts.get(message_id, "")
        return text if len(text) >= at_least else None

    def _hear(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        if event["type"] == "message":
            self._views[event["message"]["id"]] = event["message"]
        elif event["type"] == "delta":
            text = self._texts.get(event["message_id"], "")
            self.gapless = self.gapless and event["offset"] == len(text)
            self._texts[event["message_id"]] = text + event["text"]

    async def shown(self, session_id: str) -> list[dict[str, Any]]:
        """Views of the branch that is shown."""
        return (await self.service.open(session_id))["messages"]

    async def texts(self, session_id: str) -> list[str]:
        """Texts of the branch that is shown."""
        return [one["content"] for one in await self.shown(session_id)]

    def count(self) -> int:
        """Messages stored, hidden ones too."""
        with self.store._reader.reading() as connection:
            return connection.execute("SELECT count(*) FROM messages").fetchone()[0]

    async def until(self, condition: Any, seconds: float = 60.0) -> Any:
        """Wait for ``condition`` to be true; returns its value."""
        async with asyncio.timeout(seconds):
            while not (value := condition()):
                await asyncio.sleep(0.002)
        return value


def play(story: Coroutine[Any, Any, Any]) -> Any:
    """Run a story to its end."""
    return asyncio.run(story)
