"""One server a data folder: a lock that its process holds, and a note by which others find and ask it."""

from __future__ import annotations

import http.client
import json
import os
import time
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from ..engine.errors import PagedChatError
from .folders import reason_of

ANSWER_S = 30.0
PAGE_ANSWER_S = 2.0
LOOK_AGAIN_S = 0.2
TERMINAL_S = 2.0
"""How long a terminal that has the folder is waited for: most are soon done, a chat goes on for hours."""


@dataclass(frozen=True)
class RunningServer:
    """What holds the lock of a data folder: a server, and where its page is; or a terminal, without port and page."""

    pid: int
    port: int
    url: str

    @property
    def is_terminal(self) -> bool:
        """Whether it is a command in a terminal, which has no page."""
        return self.port == 0


class InstanceLock:
    """The right to serve one data folder; it ends with the process, however that ends."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._lock = FileLock(data / "instance.lock", thread_local=False)

    def take(self, patience_s: float) -> RunningServer | None:
        """Take the lock, or find the page of the server that holds it.

        Returns:
            None when the lock is ours, else the server whose page answers.

        Raises:
            PagedChatError: if another start holds the lock and its page does not answer within ``patience_s``.
        """
        began = time.monotonic()
        while True:
            if self._try():
                return None
            running = read_note(self._data)
            if running is not None and page_answers(running):
                return running
            waited = time.monotonic() - began
            if running is not None and running.is_terminal and waited > min(patience_s, TERMINAL_S):
                raise PagedChatError(
                    f"A pagedchat in a terminal (process {running.pid}) uses the data folder {self._data}; end it "
                    "first, or choose another folder with --data-dir. (Beside `pagedchat serve` any number of "
                    "terminals can chat.)"
                )
            if waited > patience_s:
                who = f"process {running.pid}" if running else "another process"
                raise PagedChatError(
                    f"Another pagedchat ({who}) uses the data folder {self._data}, and its page does not answer; "
                    "end it, or choose another folder with --data-dir."
                )
            time.sleep(LOOK_AGAIN_S)

    def _try(self) -> bool:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        except OSError as error:
            raise PagedChatError(
                f"{self._lock.lock_file} cannot be locked ({reason_of(error)}); "
                "make it yours, or choose another folder with --data-dir."
            ) from error
        return True

    def publish(self, port: int, url: str) -> None:
        """Tell later starts where the page is; port 0 says that a terminal has the folder.

        Raises:
            PagedChatError: if the note cannot be written.
        """
        part = _note(self._data).with_suffix(".part")
        try:
            part.write_text(json.dumps(asdict(RunningServer(os.getpid(), port, url))), encoding="utf-8")
            os.replace(part, _note(self._data))
        except OSError as error:
            raise PagedChatError(
                f"{part} cannot be written ({reason_of(error)}); make room, then start again."
            ) from error

    def release(self) -> None:
        """Give the folder back; does nothing when the lock is not held."""
        if self._lock.is_locked:
            with suppress(OSError):
                _note(self._data).unlink(missing_ok=True)
            self._lock.release()


def read_note(data: Path) -> RunningServer | None:
    """What the last server of the folder published; it may be gone."""
    try:
        return RunningServer(**json.loads(_note(data).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def running_server(data: Path) -> RunningServer | None:
    """The server that serves this data folder, if its page answers.

    A note that a crash left behind counts for nothing: another folder's server may answer at its address by now.
    """
    server = read_note(data)
    return server if server and _is_held(data) and page_answers(server) else None


def _is_held(data: Path) -> bool:
    """Whether a process holds the folder, or nobody can say."""
    lock = FileLock(data / "instance.lock", thread_local=False)
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        return True
    lock.release()
    return False


def page_answers(server: RunningServer) -> bool:
    """Whether a pagedchat answers at the server's address, ready or still loading."""
    if server.is_terminal:
        return False
    with suppress(PagedChatError):
        answer = ask_json(server, "GET", "/health", timeout_s=PAGE_ANSWER_S)[1]
        return isinstance(answer, dict) and "status" in answer
    return False


def ask(
    server: RunningServer, method: str, path: str, body: Any = None, timeout_s: float = ANSWER_S
) -> tuple[int, bytes]:
    """One request to a server of ours, bytes as they are and all else as JSON; status and content of the answer.

    Raises:
        PagedChatError: it did not answer.
    """
    host = urlsplit(server.url).hostname or "127.0.0.1"
    data = body if body is None or isinstance(body, bytes) else json.dumps(body)
    kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
    try:
        with closing(http.client.HTTPConnection(host, server.port, timeout=timeout_s)) as connection:
            connection.request(method, path, data, {"content-type": kind})
            answer = connection.getresponse()
            return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise _no_answer(server, error) from error


def ask_json(
    server: RunningServer, method: str, path: str, body: Any = None, timeout_s: float = ANSWER_S
) -> tuple[int, Any]:
    """`ask` for a JSON answer; status and value.

    Raises:
        PagedChatError: it did not answer, or not with JSON.
    """
    status, content = ask(server, method, path, body, timeout_s)
    try:
        return status, json.loads(content or b"null")
    except ValueError as error:
        raise _no_answer(server, error) from error


def _no_answer(server: RunningServer, error: Exception) -> PagedChatError:
    return PagedChatError(f"pagedchat at {server.url} did not answer ({type(error).__name__}).")


def _note(data: Path) -> Path:
    return data / "instance.json"
