"""The text of one reply while it grows, with the model's thinking apart from its answer.

    "<think>plan</th" | "ink>Done"   ->   reasoning "plan", content "Done"

What may be the beginning of a tag is held back: it is shown when more has come, or when the model has ended the reply
itself. A reply that was cut off within a tag ends before it; the engine tells how to go on (see `RequestStarted`).
"""

from __future__ import annotations

from ..engine.generate_request import RequestStarted
from ..engine.reasoning import Parts, ReasoningSplitter


class GrowingText:
    """A text that is added to often and read seldom: adding costs the same however long it is."""

    def __init__(self, text: str) -> None:
        self._parts = [text] if text else []
        self.length = len(text)

    def add(self, text: str) -> int:
        """Returns the character at which ``text`` begins."""
        offset = self.length
        self._parts.append(text)
        self.length += len(text)
        return offset

    def __str__(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""


class ReplyText:
    """Both texts of a reply.

    Args:
        reasoning, content: what is stored of it.
    """

    def __init__(self, reasoning: str, content: str) -> None:
        self.reasoning = GrowingText(reasoning)
        self.content = GrowingText(content)
        self._splitter: ReasoningSplitter | None = None

    @property
    def empty(self) -> bool:
        """Whether there is no text at all."""
        return not self.reasoning.length and not self.content.length

    def begin(self, started: RequestStarted) -> None:
        """Learn where the text to come begins. An answer that has begun stays the answer."""
        if started.reasoning_state is not None and not self.content.length:
            self._splitter = ReasoningSplitter(state=started.reasoning_state, held=started.reasoning_held)

    def split(self, text: str, *, ended: bool) -> Parts:
        """What more text brings to each part; add it to them.

        Args:
            ended: the model ended the reply, so nothing is held back any more.
        """
        if self._splitter is None:
            return Parts(answer=text)
        parts = self._splitter.feed(text)
        if ended:
            rest = self._splitter.end()
            parts = Parts(parts.reasoning + rest.reasoning, parts.answer + rest.answer)
        return parts
