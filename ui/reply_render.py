"""The HTML of a reply that is still growing: closed blocks are rendered once, only the open end again and again."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any

from .markdown import render_blocks
from .views import Blocks, View

_LINE_END = re.compile(r"\r\n?|\n")


@dataclass
class ReplyRender:
    """Text of one reply and its blocks as HTML.

    ``render`` costs time for the open end only, never for what came before. A block is closed when the one after it
    has begun with a finished line: no later character can change it.

    Attributes:
        text: everything so far.
        closed: HTML of closed blocks.
        open: HTML of the blocks at the end, which may still change.
        cost_s: seconds the last render took.
    """

    text: str = ""
    closed: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    cost_s: float = 0.0
    _closed_end: int = 0
    _rendered: int = 0
    _env: dict[str, Any] = field(default_factory=dict)

    @property
    def blocks(self) -> list[str]:
        """All blocks as rendered last."""
        return self.closed + self.open

    @property
    def stale(self) -> bool:
        """Whether there is text that was not rendered yet."""
        return self._rendered < len(self.text)

    def take(self, offset: int, text: str) -> bool:
        """Add text that begins at character ``offset``; what is known already is skipped.

        Returns:
            False if characters before ``offset`` are missing here; nothing is added then.
        """
        if offset > len(self.text):
            return False
        self.text += text[len(self.text) - offset :]
        return True

    def render(self) -> None:
        """Bring ``closed`` and ``open`` up to date with ``text``."""
        began = time.perf_counter()
        end = self.text[self._closed_end :]
        blocks = render_blocks(end, self._env, growing=True)
        line_ends = [match.end() for match in _LINE_END.finditer(end)]
        count = 0
        while count + 1 < len(blocks) and blocks[count + 1].first_line < len(line_ends):
            count += 1
        self.closed += [block.html for block in blocks[:count]]
        if count:
            self._closed_end += line_ends[blocks[count].first_line - 1]
        self.open = [block.html for block in blocks[count:]]
        self._rendered = len(self.text)
        self.cost_s = time.perf_counter() - began


@dataclass
class RunningReply:
    """Both texts of a reply that is being written: what the model thinks, and its answer."""

    thoughts: ReplyRender = field(default_factory=ReplyRender)
    answer: ReplyRender = field(default_factory=ReplyRender)

    @property
    def empty(self) -> bool:
        """Whether there is no text yet."""
        return not self.thoughts.text and not self.answer.text

    @property
    def stale(self) -> bool:
        """Whether there is text that was not rendered yet."""
        return self.thoughts.stale or self.answer.stale

    def part(self, event_type: str) -> ReplyRender:
        """The text that events of this type are about."""
        return self.thoughts if event_type == "reasoning" else self.answer

    def catch_up(self, message: View) -> None:
        """Add what ``message`` has and is not here yet."""
        self.thoughts.take(0, message["reasoning"] or "")
        self.answer.take(0, message["content"])

    def render(self) -> float:
        """Bring the blocks up to date; returns the seconds it took."""
        grown = [one for one in (self.thoughts, self.answer) if one.stale]
        for one in grown:
            one.render()
        return sum(one.cost_s for one in grown)

    def blocks(self) -> Blocks:
        """The blocks of both, by their names in a page's view."""
        return {"thoughts": list(self.thoughts.blocks), "blocks": list(self.answer.blocks)}
