"""From the parts of a chat to token ids: what is known is kept, runs of new text are tokenized together and cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .prompt_parts import ChatParts, Turn

if TYPE_CHECKING:
    from .control_text import ChatEncoder


@dataclass
class PromptIds:
    """Ids of one prompt: for each shown turn by its place, then what asks for a reply."""

    segments: dict[int, list[int]] = field(default_factory=dict)
    generation_ids: list[int] = field(default_factory=list)

    def all(self) -> list[int]:
        """The whole prompt."""
        return [one for ids in (*self.segments.values(), self.generation_ids) for one in ids]


class PromptAssembler:
    """Turns one chat's parts into ids.

    Args:
        reply_header: text that asks for a reply, which every kept reply began with.
        ask: end with the header of a reply.
        continue_last: nothing closes the last turn.
    """

    def __init__(
        self, parts: ChatParts, encoder: ChatEncoder, reply_header: str, *, ask: bool, continue_last: bool
    ) -> None:
        self._parts = parts
        self._encoder = encoder
        self._reply_header = reply_header
        self._ask = ask
        self._continue_last = continue_last
        self._ids = PromptIds()
        self._run: list[Turn] = []
        self._last_known: Turn | None = None
        self._unclosed = ""
        self._closings: dict[str, list[int]] = {}

    def assemble(self) -> PromptIds:
        """Ids by turn. Known ids come first and stay; see the module docstring of `prompt`."""
        if not self._parts.placed or not (self._parts.joined or any(turn.known for turn in self._parts.turns)):
            return self._whole()
        for turn in self._parts.shown:
            if turn.known:
                self._keep(turn)
            else:
                self._run.append(turn)
        self._end()
        return self._ids

    def _whole(self) -> PromptIds:
        """All new text in one piece, for templates whose turns cannot be told apart."""
        text = self._parts.text
        ids, ends = self._encoder.encode(text, at_start=True)
        header = self._reply_header if self._ask and text.endswith(self._reply_header) else ""
        cut = sum(1 for end in ends if end <= len(text) - len(header))
        last = self._parts.turns[-1:]
        if not last:
            return PromptIds({}, ids)
        return PromptIds({last[0].place: ids[:cut]}, ids[cut:])

    def _keep(self, turn: Turn) -> None:
        is_reply = turn.role == "assistant"
        header_ids = self._encode_run(self._reply_header if is_reply else "")
        kept = None if turn.ids is None else self._without_second_closing(turn.ids)
        ids = header_ids + (turn.sampled or []) if kept is None else kept
        self._ids.segments[turn.place] = ids
        self._last_known = turn
        self._unclosed = turn.closing if is_reply and not self._is_closed(turn, ids) else ""

    def _end(self) -> None:
        shown = self._parts.shown
        if self._ask or not shown:
            self._ids.generation_ids = self._encode_run(self._parts.tail)
            return
        if not self._run:
            return
        last = self._run[-1]
        if self._continue_last:
            last.closing = ""
            self._encode_run("")
        else:
            rest = self._encode_run(self._parts.tail)
            self._ids.segments[last.place] += rest

    def _encode_run(self, follow: str) -> list[int]:
        """Tokenize the waiting turns and ``follow`` together; returns the ids of ``follow``."""
        run, self._run = self._run, []
        start = not self._ids.segments
        before = self._unclosed
        if not run:
            return self._encode_follow(before, follow)
        if not follow and run[-1].role == "system" and not run[-1].isolated and not self._continue_last:
            # The next message's own ids begin with this text: the border between them was never a token's border.
            run = run[:-1]
        ids, ends = self._encoder.encode(before + "".join(turn.text for turn in run) + follow, at_start=start)
        done, border = 0, len(before)
        for turn in run:
            border += len(turn.text)
            cut = done
            if turn.isolated or turn.role != "system":
                cut += sum(1 for end in ends[done:] if end <= border)
            self._ids.segments[turn.place] = ids[done:cut]
            done = cut
        self._unclosed = ""
        if follow:
            return ids[done:]
        if run:
            self._ids.segments[run[-1].place] += ids[done:]
        return []

    def _encode_follow(self, before: str, follow: str) -> list[int]:
        """Ids of what follows a known turn."""
        if not follow:
            return []
        known = self._last_known
        if before or known is None or known.isolated:
            return self._encoder.encode(before + follow, at_start=not self._ids.segments)[0]
        ids, ends = self._encoder.encode(known.text + follow, at_start=False)
        return [one for one, end in zip(ids, ends, strict=True) if end > len(known.text)]

    def _is_closed(self, turn: Turn, ids: Sequence[int]) -> bool:
        closing = self._closing_ids(turn)
        return not closing or list(ids[-len(closing) :]) == closing or (turn.isolated and ids[-1:] == closing[-1:])

    def _without_second_closing(self, ids: list[int]) -> list[int]:
        """A question first sent under a cut reply carries the closing that the reply, continued since, has itself."""
        reply = self._last_known
        if reply is None or reply.role != "assistant" or self._unclosed:
            return ids
        closing = self._closing_ids(reply)
        return ids[len(closing) :] if closing and ids[: len(closing)] == closing else ids

    def _closing_ids(self, turn: Turn) -> list[int]:
        if turn.closing not in self._closings:
            self._closings[turn.closing] = self._encoder.encode(turn.closing, at_start=False)[0]
        return self._closings[turn.closing]
