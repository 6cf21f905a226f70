"""How a terminal reaches the chats, whether or not a server runs on their folder: one writer, in either case.

    open_link ── lock is free ──> ChatsHere    the store (and, when a reply is wanted, an engine) in this process
              └─ a server has it ─> ServerChats  its socket (`chat_socket`)

Both block and belong to the thread that uses them; what runs meanwhile has threads of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, Protocol

from ..engine.errors import PagedChatError
from .chat_calls import Events, run_call
from .folders import Folders
from .instance import InstanceLock
from .terminal import say

OTHER_START_S = 30.0
"""How long another start may take to come up."""
CLOSE_S = 4.0
BACKUP_S = 0.5
"""How long the end waits for a copy that is due and being made; the next start makes it otherwise."""


class ChatLink(Protocol):
    """The chats, wherever they are open.

    Attributes:
        url: of the server that has them; None where they are open in this process.
        lost: whether they are gone, so that nothing more can be asked.
    """

    url: str | None

    @property
    def lost(self) -> bool: ...

    def call(self, method: str, **arguments: Any) -> Any:
        """Call a method of the chat service (see `chat_calls`) and wait for its end.

        Raises:
            PagedChatError: it cannot be done, or the server is gone.
        """
        ...

    def events(self) -> Any:
        """A context that yields ``Events`` of all chats."""
        ...

    def import_file(self, name: str, data: bytes, skip_seen: bool) -> dict[str, Any]:
        """Bring the chats of a file in; the report.

        Raises:
            PagedChatError: it is no file of chats, or cannot be stored; nothing was imported.
        """
        ...

    def close(self) -> None:
        """Let go; a second call does nothing. Replies that run here are saved as interrupted, those of a server go
        on."""
        ...


def open_link(folders: Folders, titles: Literal["words", "model"] = "words") -> ChatLink:
    """Reach the chats of a data folder, which is made where it is missing.

    Args:
        titles: who names chats, if they are opened here.

    Raises:
        PagedChatError: the folder or its database cannot be used, or another program holds it and does not answer.
    """
    folders.create_data()
    lock = InstanceLock(folders.data)
    running = lock.take(OTHER_START_S)
    if running is not None:
        from .chat_remote import ServerChats

        return ServerChats(running)
    try:
        lock.publish(0, "")
        return ChatsHere(folders, lock, titles)
    except BaseException:
        lock.release()
        raise


class ChatsHere:
    """The store, open in this process, in an event loop of its own thread.

    Attributes:
        warnings_of: what to tell of an engine that says so of itself, beside its own warnings.
    """

    url: str | None = None

    def __init__(self, folders: Folders, lock: InstanceLock, titles: Literal["words", "model"]) -> None:
        """
        Args:
            lock: held; released by ``close``.
            titles: see `open_link`.

        Raises:
            PagedChatError: the database cannot be used.
        """
        from ..engine.client import EngineClient
        from ..sessions.chat_service import ChatService
        from ..sessions.store import SessionStore
        from .backup_watch import BackupWatch
        from .folders import can_write
        from .log import start_log

        self._end_log = start_log(folders.logs)
        self.warnings_of: Callable[[dict[str, Any]], list[str]] = lambda info: []
        self._lock = lock
        self._closed = False
        log_path = folders.logs / "engine.log" if can_write(folders.logs) else Path(os.devnull)
        try:
            store = SessionStore(folders.database)
        except BaseException:
            self._end_log()
            raise
        try:
            self.client = EngineClient(log_path=log_path)
            self.service = ChatService(store, self.client, titles=titles)
        except BaseException:
            store.close()
            self._end_log()
            raise
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chats", daemon=True)
        self._thread.start()
        if store.notice:
            say(f"pagedchat: {store.notice}", sys.stderr)
        self._backup = asyncio.run_coroutine_threadsafe(BackupWatch(folders.database).look(), self._loop)

    @property
    def lost(self) -> bool:
        """See `ChatLink`."""
        return self._closed

    def call(self, method: str, **arguments: Any) -> Any:
        """See `ChatLink`."""
        found = self.run(run_call(self.service, self.client, method, arguments))
        if method == "status":
            found["warnings"] += self.warnings_of(self.client.status.info)
        return found

    def run(self, work: Any, timeout_s: float | None = None) -> Any:
        """Run a coroutine where the chats live, and wait for it."""
        if self._closed:
            work.close()
            raise PagedChatError("The chats are closed; start again.")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    @contextmanager
    def events(self) -> Iterator[Events]:
        """See `ChatLink`."""
        events: Events = SimpleQueue()
        unsubscribe = self.run(_now(lambda: self.service.subscribe(events.put)))
        try:
            yield events
        finally:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(unsubscribe)

    def import_file(self, name: str, data: bytes, skip_seen: bool) -> dict[str, Any]:
        """See `ChatLink`."""
        report = self.run(self.service.library.import_file(name, data, skip_seen=skip_seen))
        while self.run(self.service.core.write(self.service.store.search.take_in)):
            pass  # or the next start would have to do it
        return report

    def start_engine(self, config: Any) -> None:
        """Begin to load the model; ``call("status")`` tells how far it is, and why it failed.

        Args:
            config: an ``EngineConfig``.
        """
        asyncio.run_coroutine_threadsafe(self._load(config), self._loop)

    async def _load(self, config: Any) -> None:
        try:
            await self.client.start(config)
            await self.client.wait_ready()
        except PagedChatError as error:
            if self.client.status.state != "failed":
                self.client.set_failed(str(error))

    def close(self) -> None:
        """See `ChatLink`."""
        if self._closed:
            return
        try:
            with suppress(TimeoutError):
                self._backup.result(BACKUP_S)
            with suppress(TimeoutError):
                self.run(self._close(), CLOSE_S)
        finally:
            self._closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(1)
            self._end_log()
            self._lock.release()

    async def _close(self) -> None:
        await self.service.close()
        await self.client.close()


async def _now(function: Callable[[], Any]) -> Any:
    return function()
