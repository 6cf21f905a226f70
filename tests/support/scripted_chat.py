"""``pagedchat chat`` with the scripted engine: with pipes, and in a terminal of its own (a pseudo-terminal)."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import psutil

TESTS = Path(__file__).resolve().parent.parent
CTRL_C, CTRL_D = "\x03", "\x04"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]")


def command(*arguments: str, program: str = "chat") -> list[str]:
    """The command line of a scripted ``pagedchat``."""
    return [sys.executable, "-P", "-m", "support.scripted_server", program, *arguments]


def environment(**more: str) -> dict[str, str]:
    """The test's own environment, with the support modules."""
    return {**os.environ, "PYTHONPATH": str(TESTS), "TERM": "xterm", **more}


def piped(*arguments: str, data: bytes | str = b"", **more: str) -> subprocess.CompletedProcess[str]:
    """Run ``chat`` with ``data`` on stdin, to its end."""
    sent = data.encode() if isinstance(data, str) else data
    done = subprocess.run(command(*arguments), input=sent, capture_output=True, timeout=120, env=environment(**more))
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


class TerminalChat:
    """``chat`` at a terminal. ``with TerminalChat(...) as chat: chat.type("hello"); chat.expect("HELLO")``.

    Attributes:
        screen: everything that was written so far, without escape sequences.
    """

    def __init__(self, *arguments: str, **more: str) -> None:
        ours, theirs = pty.openpty()
        self._terminal = ours
        self.raw = self.screen = ""
        self._seen = 0
        self.process = subprocess.Popen(
            command(*arguments),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env=environment(**more),
        )
        os.close(theirs)

    def type(self, text: str, end: str = "\r") -> None:
        """Type a text and Enter."""
        os.write(self._terminal, (text + end).encode())

    def expect(self, wanted: str, timeout_s: float = 120.0) -> str:
        """Wait until ``wanted`` is written after what was expected last; what came up to its end."""
        deadline = time.monotonic() + timeout_s
        while wanted not in self.screen[self._seen :]:
            self._read(deadline, wanted)
        begin = self._seen
        self._seen = self.screen.index(wanted, begin) + len(wanted)
        return self.screen[begin : self._seen]

    def prompt(self, timeout_s: float = 120.0) -> None:
        """Wait until nothing but the prompt stands after what was expected last, or at the end of what came since."""
        deadline = time.monotonic() + timeout_s
        while not (self.screen.endswith("> ") and len(self.screen) > self._seen):
            self._read(deadline, "the prompt")
        self._seen = len(self.screen)

    def wait_idle(self, timeout_s: float = 120.0) -> None:
        """Wait until its main thread waits for a key."""
        thread, deadline = psutil.Process(self.process.pid), time.monotonic() + timeout_s
        while thread.status() != psutil.STATUS_SLEEPING:
            assert time.monotonic() < deadline, f"busy for {timeout_s} s: {self.screen[-2000:]!r}"
            time.sleep(0.01)

    def wait_end(self, timeout_s: float = 60.0) -> int:
        """Wait for its end; the exit code."""
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None:
            self._read(deadline, "its end", 0.05)
        return self.process.returncode

    def _read(self, deadline: float, wanted: str, pause_s: float = 0.5) -> None:
        if time.monotonic() > deadline:
            raise AssertionError(f"{wanted!r} did not come: {self.screen[-2000:]!r}")
        if select.select([self._terminal], [], [], pause_s)[0]:
            try:
                self.raw += os.read(self._terminal, 65536).decode(errors="replace")
            except OSError as error:  # nobody has the other end any more
                if pause_s >= 0.5 and self.process.poll() is not None:
                    raise AssertionError(f"{wanted!r} did not come before the end: {self.screen[-2000:]!r}") from error
                time.sleep(pause_s / 10)
            self.screen = _ESCAPES.sub("", self.raw).replace("\r\n", "\n").replace("\r", "\n")
        elif self.process.poll() is not None and pause_s >= 0.5:
            raise AssertionError(f"{wanted!r} did not come before the end: {self.screen[-2000:]!r}")

    def __enter__(self) -> TerminalChat:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.wait_end()
            except AssertionError:
                self.process.kill()
                raise
        os.close(self._terminal)
