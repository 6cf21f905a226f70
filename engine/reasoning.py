"""Cuts a reply that streams in into the model's thinking and its answer.

    <think>plan</th|ink>Done    a tag may come in pieces; text that may be the beginning of one is held back

Thinking is what stands at the very beginning of a reply between the two tags. Everything else is answer, to the
letter: a closing tag that comes later (in a code block, say) or a ``<`` that begins no tag. Knows nothing of models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OPEN, CLOSE = "<think>", "</think>"

ReasoningState = Literal["begin", "thinking", "after", "answer"]
_AFTER_TAG: dict[str, ReasoningState] = {OPEN: "thinking", CLOSE: "after"}


@dataclass
class Parts:
    """What a piece of text added to the thinking and to the answer."""

    reasoning: str = ""
    answer: str = ""


class ReasoningSplitter:
    """Splits one reply, fed in pieces. What it gave, put together, is the reply without its two tags.

    Args:
        inside: the prompt ended with the opening tag, so the reply begins in thought.

    Attributes:
        state: ``begin`` before anything but blanks came, ``thinking``, ``after`` the closing tag and its line breaks,
            ``answer``. With ``held``, all there is to go on with after a break.
        held: text that may be the beginning of a tag.
    """

    def __init__(self, *, inside: bool = False, state: ReasoningState | None = None, held: str = "") -> None:
        self.state: ReasoningState = state or ("thinking" if inside else "begin")
        self.held = held

    def feed(self, text: str) -> Parts:
        """Take more of the reply."""
        self.held += text
        parts = Parts()
        while self._step(parts):
            pass
        return parts

    def end(self) -> Parts:
        """The reply is over: what was held back is no tag. Thinking that was never closed stays thinking."""
        held, self.held = self.held, ""
        return Parts(reasoning=held) if self.state == "thinking" else Parts(answer=held)

    def _step(self, parts: Parts) -> bool:
        """Go on by one part of the text; False when more is needed."""
        if self.state == "begin":
            return self._begin()
        if self.state == "thinking":
            return self._think(parts)
        if self.state == "after":
            self.held = self.held.lstrip("\n")
            self.state = "answer" if self.held else "after"
            return bool(self.held)
        parts.answer += self.held
        self.held = ""
        return False

    def _begin(self) -> bool:
        begun = self.held.lstrip()
        for tag, state in _AFTER_TAG.items():  # some templates open the tag in the prompt
            if begun.startswith(tag):
                self.held, self.state = begun.removeprefix(tag), state
                return True
        if begun and not any(tag.startswith(begun) for tag in (OPEN, CLOSE)):
            self.state = "answer"
            return True
        return False

    def _think(self, parts: Parts) -> bool:
        thought, tag, rest = self.held.partition(CLOSE)
        if tag:
            parts.reasoning += thought
            self.held, self.state = rest, "after"
            return True
        keep = _tail_of_tag(self.held, CLOSE)
        parts.reasoning += self.held[: len(self.held) - keep]
        self.held = self.held[len(self.held) - keep :]
        return False


def header_state(header: str) -> ReasoningState:
    """Where a reply begins that follows this header: some templates open the thinking there, some close it too."""
    opened, closed = header.rfind(OPEN), header.rfind(CLOSE)
    if opened == closed:
        return "begin"
    return "thinking" if opened > closed else "answer"


def split_reasoning(text: str, *, inside: bool = False) -> Parts:
    """Thinking and answer of a whole reply."""
    splitter = ReasoningSplitter(inside=inside)
    first, last = splitter.feed(text), splitter.end()
    return Parts(first.reasoning + last.reasoning, first.answer + last.answer)


def _tail_of_tag(text: str, tag: str) -> int:
    """Length of the longest end of ``text`` that begins ``tag``."""
    return next((count for count in range(min(len(text), len(tag) - 1), 0, -1) if text.endswith(tag[:count])), 0)
