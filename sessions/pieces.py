"""A reply's tokens as pieces of text that a person can point at.

    ids      F0 9F │ 8E 89 │ ·the │ <end>         bytes of each
    pieces   └─── 🎉 ────┘ │ ·the │ <end>         those that are parts of one character are one piece

Knows nothing of stores and engines.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..engine.reasoning import ReasoningSplitter, ReasoningState

Part = Literal["thinking", "answer"]


@dataclass(slots=True)
class Piece:
    """Some tokens in a row that show as one text.

    Attributes:
        index: of the first of its tokens.
        count: how many tokens.
        control: it is left out of the reply's text; ``text`` is the token's name.
    """

    index: int
    count: int
    text: str
    part: Part = "answer"
    control: bool = False


def pieces_of(spelled: Sequence[tuple[bytes, bool]]) -> list[Piece]:
    """Pieces of tokens.

    Args:
        spelled: for each token its bytes, and whether it is left out of visible text.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    found: list[Piece] = []
    begin, text = 0, ""
    for index, (data, hidden) in enumerate(spelled):
        if hidden:
            if index > begin:
                found.append(Piece(begin, index - begin, text + decoder.decode(b"", final=True)))
                decoder.reset()
            found.append(Piece(index, 1, data.decode("utf-8", "replace"), control=True))
            begin, text = index + 1, ""
            continue
        text += decoder.decode(data)
        if not decoder.getstate()[0]:
            found.append(Piece(begin, index + 1 - begin, text))
            begin, text = index + 1, ""
    if len(spelled) > begin:
        found.append(Piece(begin, len(spelled) - begin, text + decoder.decode(b"", final=True)))
    return found


def mark_thinking(pieces: Iterable[Piece], state: ReasoningState) -> None:
    """Tell thinking and answer apart.

    Args:
        state: where the reply begins; see `ReasoningSplitter`.
    """
    splitter = ReasoningSplitter(state=state)
    undecided: list[Piece] = []
    for piece in pieces:
        before = splitter.state
        if not piece.control:
            splitter.feed(piece.text)
        undecided.append(piece)
        if splitter.state == "begin":
            continue
        if "thinking" in (before, splitter.state) or (before == "begin" and splitter.state == "after"):
            for one in undecided:
                one.part = "thinking"
        undecided = []


def shown_bytes(data: bytes) -> str:
    """A token's text; bytes that form no character by their numbers."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return " ".join(f"0x{byte:02X}" for byte in data)
