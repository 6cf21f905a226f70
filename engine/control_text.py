"""Encoding a rendered chat so that only the template's own control tokens count.

Contents are marked before rendering: a control token spelled in them is wrapped in two private-use characters, which
no template takes for anything. After rendering, wrapped spellings are encoded as ordinary characters and the rest as
usual. The same ids as transformers' `apply_chat_template(..., sanitize_control_tokens=True)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .encoded_texts import EncodedTexts

if TYPE_CHECKING:
    from .chat_template import ChatTemplate
    from .tokenizer import Tokenizer

START, END = "\U000f0000", "\U000f0001"


def control_pattern(tokenizer: Tokenizer, template: ChatTemplate) -> re.Pattern[str]:
    """Matches what counts as a control token: the special ones, and added tokens that the template writes."""
    written = template.literal_text
    return _any_of(
        text
        for number, text in tokenizer.added_tokens.items()
        if number in tokenizer.special_ids or (text in written and not text.isspace())
    )


class ChatEncoder:
    """Marks contents and encodes rendered chats."""

    def __init__(self, tokenizer: Tokenizer, control: re.Pattern[str]) -> None:
        self._tokenizer = tokenizer
        self._control = control
        added = _any_of(tokenizer.added_tokens.values())
        self._marked = re.compile(f"{START}({added.pattern}){END}|[{START}{END}]")
        self._newline = tokenizer.encode("\n", allow_special=True)
        self._encoded = EncodedTexts()

    def mark(self, content: str) -> str:
        """Wrap every control token spelled in a content."""
        plain = content.replace(START, "").replace(END, "")
        return self._control.sub(f"{START}\\g<0>{END}", plain)

    def unmark(self, text: str) -> str:
        """A marked text as it was typed."""
        return text.replace(START, "").replace(END, "")

    def encode(self, text: str, *, at_start: bool) -> tuple[list[int], list[int]]:
        """Ids of a rendered and marked text, and for each id where in that text it ends (characters).

        Args:
            at_start: the text begins the prompt; otherwise nothing is put before its first word.
        """
        found = self._encoded.find(text, at_start)
        if found is None:
            found = self._encode_marked(text, at_start)
            self._encoded.keep(text, at_start, found)
        return found

    def forget(self) -> None:
        """Keep no text that was encoded."""
        self._encoded.forget()

    def _encode_marked(self, text: str, at_start: bool) -> tuple[list[int], list[int]]:
        ids: list[int] = []
        ends: list[int] = []
        position = 0
        for match in self._marked.finditer(text):
            self._add(ids, ends, text[position : match.start()], position, fresh=at_start and not position)
            if match[1] is not None:
                self._add_spelled(ids, ends, match[1], match.start() + 1)
                ends[-1] += 1
            position = match.end()
        self._add(ids, ends, text[position:], position, fresh=at_start and not position)
        return ids, ends

    def _add(self, ids: list[int], ends: list[int], piece: str, offset: int, *, fresh: bool) -> None:
        if not piece:
            return
        found, places = self._encode(piece, fresh=fresh, allow_special=True)
        ids += found
        ends += [offset + place for place in places]

    def _add_spelled(self, ids: list[int], ends: list[int], piece: str, offset: int) -> None:
        """A control token's name as ordinary characters, cut where the tokenizer would still see the token."""
        found, places = self._encode(piece, fresh=False, allow_special=False)
        if self._tokenizer.token_id(piece) in found and len(piece) > 1:
            self._add_spelled(ids, ends, piece[:1], offset)
            self._add_spelled(ids, ends, piece[1:], offset + 1)
            return
        ids += found
        ends += [offset + place for place in places]

    def _encode(self, piece: str, *, fresh: bool, allow_special: bool) -> tuple[list[int], list[int]]:
        # After a line break no word gets the space that SentencePiece puts before the first one.
        if not fresh:
            longer = self._tokenizer.encoding("\n" + piece, allow_special=allow_special)
            count = len(self._newline)
            if longer.ids[:count] == self._newline:
                return longer.ids[count:], [end - 1 for _, end in longer.offsets[count:]]
        alone = self._tokenizer.encoding(piece, allow_special=allow_special)
        return alone.ids, [end for _, end in alone.offsets]


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(set(texts), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
