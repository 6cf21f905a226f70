"""How a chat template lays out turns: what it writes before, between and after the messages' contents.

    <|im_start|>user\\n   CONTENT   <|im_end|>\\n   <|im_start|>assistant\\n   CONTENT   <|im_end|>\\n
    '---- header ----'             '- closing -'   '------ header -------'

Found by rendering the template with a mark in place of each content, so it holds for any template that shows every
content once, in order, whatever it does to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .chat_template import ChatTemplate, ChatTemplateError

_MARK = "\U000f0002{}\U000f0003"
_MARKS = re.compile("\U000f0002(\\d+)\U000f0003")

# Shortest chats that show what follows a turn of each role.
_SHORTEST = {"system": ("system",), "user": ("user",), "assistant": ("user", "assistant")}


@dataclass(frozen=True)
class Skeleton:
    """A template's own text for a chat.

    Attributes:
        places: indices of the messages that are shown, in order.
        gaps: text before each of them, then the text after the last.
    """

    places: list[int]
    gaps: list[str]


@dataclass(frozen=True)
class Closing:
    """What ends a turn.

    Attributes:
        text: what follows the content, up to where the next turn begins.
        isolated: a control token stands at that border, so both sides are tokenized apart.
    """

    text: str
    isolated: bool


class TurnLayout:
    """The turns of one template.

    Args:
        control: matches any control token in text that the template wrote.

    Attributes:
        control: as given.
        default_system_prompt: what the template puts into a system turn of its own when none is given; None if it
            adds none.
        preamble: all that the template writes before the first message of a chat without a system prompt.
    """

    def __init__(self, template: ChatTemplate, control: re.Pattern[str]) -> None:
        self._template = template
        self.control = control
        self._closings: dict[str, str] = {}
        self.preamble, self.default_system_prompt = self._find_default()

    def skeleton(self, roles: Sequence[str], *, add_generation_prompt: bool) -> Skeleton | None:
        """The template's own text for these roles; None where contents are shown twice or out of order.

        Raises:
            ChatTemplateError: the template does not take these roles.
        """
        chat = [{"role": role, "content": _MARK.format(place)} for place, role in enumerate(roles)]
        parts = _MARKS.split(self._template.render(chat, add_generation_prompt=add_generation_prompt))
        places = [int(place) for place in parts[1::2]]
        if places != sorted(set(places)):
            return None
        return Skeleton(places, parts[0::2])

    def closing(self, role: str, gap: str) -> Closing:
        """Split what follows a turn: its own closing, then whatever comes next.

        An assistant turn ends with its first control token, for that is what the model samples: the line break that
        templates write after it belongs to the next turn.
        """
        text = self._usual_closing(role)
        if not gap.startswith(text):
            text = ""
        ends = [match.end() for match in self.control.finditer(text)]
        if role == "assistant" and ends:
            return Closing(text[: ends[0]], True)
        if self.control.match(gap, len(text)) or (ends and ends[-1] == len(text)):
            return Closing(text, True)
        return Closing(text[: ends[-1]], True) if ends else Closing(text, False)

    def generation_text(self) -> str:
        """What follows a user turn to ask for a reply."""
        skeleton = self.skeleton(("user",), add_generation_prompt=True)
        tail = skeleton.gaps[-1] if skeleton else ""
        return tail[len(self.closing("user", tail).text) :]

    def turn_end(self) -> str | None:
        """The control token that ends a reply, or None if the template writes none."""
        match = self.control.search(self._usual_closing("assistant"))
        return match[0] if match else None

    def _usual_closing(self, role: str) -> str:
        if role not in self._closings:
            roles = _SHORTEST.get(role, ("user", "assistant", role))
            try:
                skeleton = self.skeleton(roles, add_generation_prompt=False)
            except ChatTemplateError:
                skeleton = None
            shown = skeleton is not None and skeleton.places[-1:] == [len(roles) - 1]
            self._closings[role] = skeleton.gaps[-1] if skeleton and shown else ""
        return self._closings[role]

    def _find_default(self) -> tuple[str, str | None]:
        try:
            alone = self.skeleton(("user",), add_generation_prompt=False)
        except ChatTemplateError:
            return "", None
        preamble = alone.gaps[0] if alone else ""
        try:
            given = self.skeleton(("system", "user"), add_generation_prompt=False)
        except ChatTemplateError:
            return preamble, None
        if given is None or given.places != [0, 1]:
            return preamble, None
        before, after = given.gaps[0], given.gaps[1]
        if preamble.startswith(before) and preamble.endswith(after) and len(preamble) >= len(before) + len(after):
            return preamble, preamble[len(before) : len(preamble) - len(after)]
        return preamble, None


def find_bodies(text: str, skeleton: Skeleton, contents: Sequence[str], control: re.Pattern[str]) -> list[str | None]:
    """What the template made of each content in a rendered chat; None where that cannot be told.

    A content that the template rewrote ends where a control token follows: contents hold none (theirs are marked).

    Args:
        text: the rendered chat.
        contents: of the messages at ``skeleton.places``, control tokens marked.
        control: matches any control token in text that the template wrote.
    """
    bodies: list[str | None] = [None] * len(contents)
    gaps = skeleton.gaps
    position, first = 0, 0
    while first < len(contents) and text.startswith(gaps[first], position):
        position += len(gaps[first])
        last = first + 1 == len(contents)
        body = _body_at(text, position, contents[first], gaps[first + 1], last=last)
        if body is None and control.search(gaps[first + 1]):
            body = _rewritten_body(text, position, gaps[first + 1], last=last)
        if body is None:
            break
        bodies[first] = body
        position += len(body)
        first += 1
    if first == len(contents):
        return bodies
    end, last = len(text), len(contents)
    while last > first and text.endswith(gaps[last], 0, end):
        end -= len(gaps[last])
        body = _body_before(text, end, contents[last - 1], gaps[last - 1])
        if body is None:
            break
        bodies[last - 1] = body
        end -= len(body)
        last -= 1
    return bodies


def _body_at(text: str, start: int, content: str, gap: str, *, last: bool) -> str | None:
    for body in (content, content.strip(), content.lstrip(), content.rstrip()):
        end = start + len(body)
        if text.startswith(body, start) and (text[end:] == gap if last else gap and text.startswith(gap, end)):
            return body
    return None


def _rewritten_body(text: str, start: int, gap: str, *, last: bool) -> str | None:
    end = len(text) - len(gap) if last and text.endswith(gap) else text.find(gap, start)
    return text[start:end] if end >= start else None


def _body_before(text: str, end: int, content: str, gap: str) -> str | None:
    for body in (content, content.strip(), content.lstrip(), content.rstrip()):
        if text.endswith(gap + body, 0, end):
            return body
    return None
