"""A message tree drawn for a terminal. What follows without a fork goes straight down; branches are set off.

user       How do I boil an egg?                             2026-05-20 14:03
├─ assistant  Seven minutes.                                 …  stopped
└─ assistant  Put it into boiling water.                     …  SmolLM2  ◀ shown
   user       And a soft one?
"""

from __future__ import annotations

from collections.abc import Iterator

from ...sessions.lookup import Branching
from ..terminal import local_time

LONGEST = 60
HEAD = "◀ shown"


def tree_lines(roots: list[Branching], head_id: str | None, width: int = LONGEST) -> list[str]:
    """The tree, a message a line: role, beginning of its text, status where it is not done, time, model, the head."""
    return [line for line, _ in drawn(roots, head_id, width)]


def drawn(roots: list[Branching], head_id: str | None, width: int = LONGEST) -> Iterator[tuple[str, Branching]]:
    """The lines of the tree with their messages. Without recursion: a chat may be thousands of messages deep."""
    stack = [(one, "", "", len(roots) > 1, place == len(roots) - 1) for place, one in enumerate(roots)][::-1]
    while stack:
        message, first, rest, is_fork, is_last = stack.pop()
        if is_fork:
            first, rest = rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  ")
        yield first + line_of(message, head_id, width), message
        below = message.children
        forks = len(below) > 1
        last = len(below) - 1
        stack += [(one, rest, rest, forks, place == last) for place, one in enumerate(below)][::-1]


def line_of(message: Branching, head_id: str | None, width: int = LONGEST) -> str:
    """One message in a line."""
    parts = [f"{message.role:<9} {beginning(message.content, width) or '(no text)'}"]
    if message.status != "done":
        parts.append(f"[{message.status}]")
    parts.append(local_time(message.created_at))
    if message.model:
        parts.append(message.model)
    if message.id == head_id:
        parts.append(HEAD)
    return "  ".join(parts)


def beginning(text: str, width: int) -> str:
    """The first words of a text, on one line."""
    line = " ".join(text[: width * 4].split())
    return line if len(line) <= width else line[: width - 1] + "…"
