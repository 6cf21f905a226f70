"""What a chat shows: the reply on stdout, everything else on stderr."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any, TextIO

from ...sessions.wording import counted

DIM, PLAIN = "\x1b[2m", "\x1b[0m"
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Screen:
    """Writes a chat.

    Attributes:
        people: whether somebody reads it, as opposed to a file or a pipe.
    """

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out, self._err = out, err
        self.people = out.isatty()
        self._colour = err.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self._thoughts = err.isatty()
        self._part = ""
        self._last = "\n"
        self._said: set[str] = set()
        for stream in (out, err):
            if hasattr(stream, "reconfigure"):  # a terminal of another encoding: better a sign than no reply
                stream.reconfigure(errors="replace")  # type: ignore[union-attr]

    def text(self, kind: str, text: str) -> None:
        """More of a reply: ``kind`` is "delta" for its answer, "reasoning" for its thoughts.

        Raises:
            BrokenPipeError: nobody reads stdout any more.
        """
        if kind == "reasoning" and not self._thoughts:
            return
        if kind != self._part:
            self._begin(kind)
        stream = self._err if kind == "reasoning" else self._out
        stream.write(printable(text) if stream.isatty() else text)
        stream.flush()
        self._last = text[-1:] or self._last

    def _begin(self, kind: str) -> None:
        if self._part == "reasoning":
            self._err.write((PLAIN if self._colour else "") + ("" if self._last == "\n" else "\n") + "\n")
            self._err.flush()
        if kind == "reasoning" and self._colour:
            self._err.write(DIM)
        self._part = kind

    def end(self) -> None:
        """The reply has ended: what follows begins on a line of its own.

        Raises:
            BrokenPipeError: nobody reads stdout any more.
        """
        if self._part == "reasoning":
            self._begin("")
        elif self._part and self._last != "\n":
            self._out.write("\n")
            self._out.flush()
        self._part, self._last = "", "\n"

    def say(self, line: str = "") -> None:
        """A line that is no reply; that nobody reads it is no reason to stop."""
        with suppress(OSError, ValueError):
            print(printable(line) if self._err.isatty() else line, file=self._err, flush=True)

    def once(self, line: str) -> None:
        """A line that is said only the first time."""
        if line not in self._said:
            self._said.add(line)
            self.hint(line)

    def hint(self, line: str) -> None:
        """A line that is less important."""
        if not self._colour:
            self.say(line)
            return
        with suppress(OSError, ValueError):
            print(f"{DIM}{printable(line)}{PLAIN}", file=self._err, flush=True)


def printable(text: str) -> str:
    """``text`` without what would steer a terminal: control characters but line ends and tabs become a sign."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def stats_line(message: dict[str, Any]) -> str:
    """How a reply came to be, in numbers."""
    made = message.get("generation") or {}
    parts = []
    if made.get("prompt_tokens") is not None:
        cached, computed = made.get("cached_tokens"), made.get("computed_tokens")
        parts.append(
            f"{counted(made['prompt_tokens'], 'prompt token')} ({_number(cached)} cached, {_number(computed)} computed)"
        )
    if made.get("ttft_s") is not None:
        parts.append(f"first token after {made['ttft_s']:.2f} s")
    if made.get("completion_tokens") is not None:
        speed = made.get("tokens_per_second")
        parts.append(
            counted(made["completion_tokens"], "token") + (f" at {speed:,.1f} tokens/s" if speed is not None else "")
        )
    return "; ".join(parts) or "nothing was measured"


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"
