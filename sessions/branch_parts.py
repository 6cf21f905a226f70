"""Which tokens of a branch are which message's, and which characters of a message some of its tokens spell.

    branch       system │ you 1          │ reply 1        │ you 2
    tokens       0      │ 35             │ 61             │ 140
    block 3                 [48 ............... 64)             you 1 from its 13th token on, reply 1 to its 3rd

Knows nothing of stores and engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .sent_files import sent_text

Field = Literal["content", "reasoning"]
_SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class BranchPart:
    """The tokens of one message in a branch.

    Attributes:
        message_id: "" for the system turn.
        first: the place of its first token in the branch.
    """

    message_id: str
    role: str
    first: int
    token_ids: list[int]

    @property
    def end(self) -> int:
        """The place behind its last token."""
        return self.first + len(self.token_ids)


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Characters of a message's text, by their places in it."""

    field: Field
    start: int
    end: int


def parts_of(token_ids: Sequence[int], messages: Sequence[tuple[str, dict[str, Any]]]) -> list[BranchPart]:
    """The parts of a branch, as far as the ids of its messages are found in it, in order.

    A message whose ids nobody knows has all that lies before the next one whose ids are known.

    Args:
        messages: (message id, message as the prompt builder takes it) of the prompt, in order.
    """
    found: list[BranchPart] = []
    at, unknown = 0, None
    for message_id, message in messages:
        ids = message["token_ids"]
        if not ids:
            if ids is None and unknown is not None:
                return found  # two in a row: nobody can tell where one ends
            unknown = (message_id, message["role"]) if ids is None else unknown
            continue
        place = _find(token_ids, ids, at) if unknown else at if list(token_ids[at : at + len(ids)]) == ids else None
        if place is None:
            return found
        if unknown and place > at:
            found.append(BranchPart(*unknown, at, list(token_ids[at:place])))
        unknown = None
        found.append(BranchPart(message_id, message["role"], place, ids))
        at = place + len(ids)
    if unknown and at < len(token_ids):
        found.append(BranchPart(*unknown, at, list(token_ids[at:])))
    return found


def _find(token_ids: Sequence[int], wanted: list[int], start: int) -> int | None:
    for place in range(start, len(token_ids) - len(wanted) + 1):
        if token_ids[place] == wanted[0] and list(token_ids[place : place + len(wanted)]) == wanted:
            return place
    return None


def split_beginning(part: BranchPart, message: Any, spelled: Sequence[tuple[bytes, bool]]) -> list[BranchPart]:
    """A question at the beginning of a branch without the system turn that the template puts before it by itself.

    Args:
        spelled: see ``spans_of``.
    """
    data, places = b"", _places(message, b"".join(b"" if hidden else text for text, hidden in spelled))
    if not places:
        return [part]
    begins = 0
    for index, (text, hidden) in enumerate(spelled):
        if not hidden and len(data) + len(text) > places[0][1]:
            break
        data += b"" if hidden else text
        begins = index if hidden else begins
    if not begins:
        return [part]
    ids = part.token_ids
    system = BranchPart("", _SYSTEM, part.first, ids[:begins])
    return [system, BranchPart(part.message_id, part.role, part.first + begins, ids[begins:])]


def spans_of(message: Any, spelled: Sequence[tuple[bytes, bool]], first: int, end: int) -> list[TextSpan]:
    """The characters of a message that its tokens from ``first`` to ``end`` spell, half characters at the borders too.

    Args:
        message: has ``role``, ``content``, ``reasoning``, ``sent_before`` and ``sent_after``.
        spelled: of each of its tokens in the branch the bytes, and whether they are left out of visible text.
    """
    data = b"".join(b"" if hidden else text for text, hidden in spelled)
    low = sum(len(text) for text, hidden in spelled[:first] if not hidden)
    high = low + sum(len(text) for text, hidden in spelled[first:end] if not hidden)
    places = _places(message, data)
    found = [_span(field, place, text, low, high) for field, place, text in places]
    return [one for one in found if one is not None]


def _places(message: Any, data: bytes) -> list[tuple[Field, int, str]]:
    """(field, byte where it begins, text) of the texts of a message that its tokens spell. What comes before a text is
    a header or a file, and could hold the same words: the last place counts."""
    content = message.content
    whole, before = sent_text(message).encode(), (message.sent_before or "").encode()
    at = data.rfind(whole)
    at = data.rfind(content.encode()) if at < 0 else at + len(before)
    found: list[tuple[Field, int, str]] = []
    if content and at >= 0:
        found.append(("content", at, content))
    elif content.strip() and (at := data.rfind(content.strip().encode())) >= 0:  # templates may take spaces away
        lead = len(content) - len(content.lstrip())
        found.append(("content", at - len(content[:lead].encode()), content))
    if message.reasoning:
        end = at if found else len(data)
        at = data.rfind(message.reasoning.encode(), 0, max(0, end))
        if at >= 0:
            found.insert(0, ("reasoning", at, message.reasoning))
    return found


def _span(field: Field, place: int, text: str, low: int, high: int) -> TextSpan | None:
    encoded = text.encode()
    start, end = max(0, low - place), min(len(encoded), high - place)
    if start >= end:
        return None
    while start and encoded[start] & 0xC0 == 0x80:  # within a character: all of it
        start -= 1
    while end < len(encoded) and encoded[end] & 0xC0 == 0x80:
        end += 1
    begin = len(encoded[:start].decode())
    return TextSpan(field, begin, begin + len(encoded[start:end].decode()))


def part_name(role: str, number: int, kind: str | None = None) -> str:
    """What a part is called in short: "system", "you 2", "reply 2", "summary"."""
    if kind == "summary":
        return "summary"
    return _SYSTEM if role == _SYSTEM else f"{'you' if role == 'user' else 'reply'} {number}"
