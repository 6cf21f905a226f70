"""The chats of a server that runs, over its socket: the terminal's side of `chat_socket`."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlencode, urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import connect

from .. import __version__
from ..engine.errors import PagedChatError
from .chat_calls import GOING_AWAY, LARGEST_FRAME, LOST, PATH, Events
from .instance import RunningServer, ask_json

CONNECT_S = 10.0
IMPORT_S = 600.0


class ServerChats:
    """A connection to the server that has the chats."""

    def __init__(self, server: RunningServer) -> None:
        """
        Raises:
            PagedChatError: it cannot be reached, or is of another version.
        """
        self.url: str | None = server.url
        self._server = server
        self._waiting: dict[int, Future[Any]] = {}
        self._followers: list[Events] = []
        self._lock = threading.Lock()
        self._number = 0
        self._lost: str | None = None
        self._stack = ExitStack()
        try:
            self._connection = self._connect(server)
            threading.Thread(target=self._read, name="chats", daemon=True).start()
            self.call("hello", version=__version__)
        except BaseException:
            self._stack.close()
            raise

    @property
    def lost(self) -> bool:
        """See `ChatLink`."""
        return self._lost is not None

    def _connect(self, server: RunningServer) -> Any:
        host = urlsplit(server.url).hostname or "127.0.0.1"
        try:  # a socket of our own: no proxy that the environment names stands between
            plain = self._stack.enter_context(socket.create_connection((host, server.port), CONNECT_S))
            return self._stack.enter_context(
                connect(
                    server.url.replace("http", "ws", 1) + PATH,
                    sock=plain,
                    compression=None,
                    max_size=None,
                    open_timeout=CONNECT_S,
                    close_timeout=1,
                )
            )
        except InvalidStatus as error:
            raise PagedChatError(
                f"The pagedchat at {server.url} lets no terminal in ({error}); it may be of another version: end it "
                "and start it again."
            ) from error
        except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
            raise PagedChatError(f"pagedchat at {server.url} did not answer ({type(error).__name__}).") from error

    def call(self, method: str, **arguments: Any) -> Any:
        """See `ChatLink`."""
        future: Future[Any] = Future()
        with self._lock:
            if self._lost is not None:
                raise PagedChatError(self._lost)
            self._number += 1
            number = self._number
            self._waiting[number] = future
        frame = json.dumps({"id": number, "call": method, "with": arguments}, ensure_ascii=False)
        try:
            if len(frame) > LARGEST_FRAME:
                raise PagedChatError(f"This is too much for one message ({len(frame):,} bytes); make it shorter.")
            with suppress(ConnectionClosed):  # the reader tells why
                self._connection.send(frame)
            return future.result()
        finally:
            self._waiting.pop(number, None)

    @contextmanager
    def events(self) -> Iterator[Events]:
        """See `ChatLink`."""
        events: Events = SimpleQueue()
        with self._lock:
            self._followers.append(events)
        try:
            self.call("follow", on=True)
            yield events
        finally:
            with self._lock:
                self._followers.remove(events)
            if not self._followers:
                with suppress(PagedChatError):
                    self.call("follow", on=False)

    def import_file(self, name: str, data: bytes, skip_seen: bool) -> dict[str, Any]:
        """See `ChatLink`. Files are too large for a frame: they go over HTTP."""
        path = "/api/sessions/import?" + urlencode({"name": name, "skip_seen": str(skip_seen).lower()})
        status, found = ask_json(self._server, "POST", path, data, IMPORT_S)
        if status != HTTPStatus.OK:
            raise PagedChatError(found["error"]["message"])
        return found

    def close(self) -> None:
        """See `ChatLink`."""
        self._lose("The chats are closed; start again.")
        self._stack.close()

    # -- the reader's thread ----------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            for data in self._connection:
                self._take(json.loads(data, object_hook=_bytes_back))
            sentence = f"The server at {self.url} has closed the connection."
        except Exception as error:
            sentence = f"The connection to pagedchat at {self.url} broke ({type(error).__name__})."
        if getattr(self._connection, "close_code", None) == GOING_AWAY:
            sentence = "The server has ended; everything is saved."
        self._lose(sentence)

    def _take(self, frame: dict[str, Any]) -> None:
        if "event" in frame:
            with self._lock:
                for follower in self._followers:
                    follower.put(frame["event"])
            return
        future = self._waiting.get(frame.get("re", -1))
        if future is None or future.done():
            return
        if "error" in frame:
            future.set_exception(PagedChatError(frame["error"]))
        else:
            future.set_result(frame["ok"])

    def _lose(self, sentence: str) -> None:
        with self._lock:
            if self._lost is not None:
                return
            self._lost = sentence
            waiting = list(self._waiting.values())
            for follower in self._followers:
                follower.put({"type": LOST, "message": sentence})
        for future in waiting:
            if not future.done():
                future.set_exception(PagedChatError(sentence))


def _bytes_back(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["base64"]) if value.keys() == {"base64"} else value
