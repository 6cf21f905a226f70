"""The HTML of a reply that is still growing: closed blocks are rendered once, only the open end again and again."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

from markdown_it.common.utils import normalizeReference

from .markdown import Group, Parsed, References, parse, render_tokens
from .open_block import OpenBlock, open_block
from .undecided import shown_length
from .views import Blocks, View, finished_blocks, remember_blocks

_LABEL = re.compile(r"\[([^\[\]]{1,999})\]")


@dataclass
class ReplyRender:
    """Text of one reply and its blocks as HTML.

    ``render`` costs time for the open end only, never for what came before. A block is closed when the one after it
    has begun with a finished line: no later character can change it. The one exception is a link whose definition comes
    after its block: then all is rendered once more.

    Attributes:
        text: everything so far.
        closed: HTML of closed blocks.
        open: HTML of the blocks at the end, which may still change.
        cost_s: seconds the last render took.
        ended: nothing more is to come.
    """

    text: str = ""
    closed: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    cost_s: float = 0.0
    ended: bool = False
    _closed_end: int = 0
    _rendered: int = 0
    _references: References = field(default_factory=dict)
    _labels: set[str] = field(default_factory=set)
    _block: OpenBlock | None = None

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
        more = text[len(self.text) - offset :]
        if more and self.ended:
            self._forget()
            self.ended = False
        self.text += more
        return True

    def render(self) -> None:
        """Bring ``closed`` and ``open`` up to date with ``text``."""
        began = time.perf_counter()
        begin = self._closed_end
        self._look(self.text[: begin + shown_length(self.text[begin:])])
        self._rendered = len(self.text)
        self.cost_s = time.perf_counter() - began

    def end(self) -> None:
        """Nothing more is to come: what waited is shown, and all is as if it were rendered at once."""
        self.ended = True
        parsed = self._parse(self.text, growing=False)
        used = self._labels | (self._labels_in(self.text, len(self.text)) if self._block else set())
        if used & parsed.references.keys() - self._references.keys():
            self._forget()
            parsed = self._parse(self.text, growing=False)
        html = self._html(parsed, self.text, ended=True)
        if html is None:
            self._block = None
            parsed = self._parse(self.text, growing=False)
            html = [render_tokens(one.tokens, parsed.references) for one in parsed.groups]
        self.closed += html
        self.open, self._closed_end, self._rendered, self._block = [], len(self.text), len(self.text), None

    # -- inside -----------------------------------------------------------------------------------------------------

    def _look(self, text: str) -> None:
        parsed = self._parse(text)
        count = _num_closed(parsed, self._source(text))
        html = self._html(parsed, text, ended=count > 0)
        if html is None:  # what was kept of the open block does not hold
            self._block = None
            return self._look(text)
        self.open = html[count:]
        if not count:
            return self._keep(parsed, text)
        self.closed += html[:count]
        if not self._close(parsed, text, count):
            self._look(text)

    def _source(self, text: str) -> str:
        return self._block.context + text[self._block.at :] if self._block else text[self._closed_end :]

    def _parse(self, text: str, *, growing: bool = True) -> Parsed:
        return parse(self._source(text), self._references, growing=growing)

    def _html(self, parsed: Parsed, text: str, *, ended: bool) -> list[str] | None:
        """The HTML of all blocks that were parsed; None if what was kept of the first one does not hold.

        Args:
            ended: nothing more can become a part of the first one.
        """
        groups, first = parsed.groups, []
        if groups and self._block is not None:
            whole = self._block.html(groups[0], parsed, ended=ended)
            if whole is None:
                return None
            groups, first = groups[1:], [whole]
        return first + [render_tokens(one.tokens, parsed.references) for one in groups]

    def _close(self, parsed: Parsed, text: str, count: int) -> bool:
        """Note that the first ``count`` blocks are closed; False if what they define was used before."""
        end = parsed.groups[count - 1].end
        line, closed_end = parsed.line_starts.index(end), len(text) - len(self._source(text)) + end
        labels = self._labels_in(text, closed_end)
        defined = {
            label: one for label, one in parsed.references.items() if one["map"] is not None and one["map"][1] <= line
        }
        if (self._labels | labels if self._block else self._labels) & defined.keys():
            self._forget()
            return False
        self._labels |= labels
        self._references |= defined
        self._closed_end, self._block = closed_end, None
        return True

    def _labels_in(self, text: str, end: int) -> set[str]:
        """What stands in brackets in the open end up to ``end``, and so may be a link."""
        return {normalizeReference(one) for one in _LABEL.findall(text[self._closed_end : end])}

    def _forget(self) -> None:
        """Begin anew: links above are to be found now."""
        self.closed, self._closed_end, self._references, self._labels, self._block = [], 0, {}, set(), None

    def _keep(self, parsed: Parsed, text: str) -> None:
        """Where only one long block is open, keep its finished parts."""
        if len(parsed.groups) != 1:
            return
        group: Group = parsed.groups[0]
        if self._block is not None:
            self._block.keep(group, parsed, self._source(text))
        else:
            self._block = open_block(text, self._closed_end + group.begin, group, self._references)


def _num_closed(parsed: Parsed, source: str) -> int:
    """Blocks that no later character can change."""
    count = 0
    for group in parsed.groups[1:]:
        line_end = parsed.line_starts[parsed.line_starts.index(group.begin) + 1]
        if source[line_end - 1] not in "\r\n" or group.tokens[0].type == "math_open":
            break
        count += 1
    return count


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
        if self.answer.text and self.thoughts.text and not self.thoughts.ended:
            self.thoughts.end()
        return sum(one.cost_s for one in grown)

    def end(self, message: View) -> Blocks:
        """Nothing more is to come; ``message`` is the reply as stored. Returns the blocks of both."""
        for part, text in ((self.thoughts, message["reasoning"] or ""), (self.answer, message["content"])):
            if part.take(0, text) and part.text == text:
                part.end()
                remember_blocks(text, tuple(part.blocks))
        return finished_blocks(message)

    def blocks(self) -> Blocks:
        """The blocks of both, by their names in a page's view."""
        return {"thoughts": list(self.thoughts.blocks), "blocks": list(self.answer.blocks)}
