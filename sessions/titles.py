"""A chat's name: from the first words of its first message, or from what a model answered."""

from __future__ import annotations

import re
import unicodedata

from ..engine.reasoning import CLOSE, OPEN

UNTITLED = "New chat"
_LIMIT = 48
_MARKUP = "#*_`> \t-"
_QUOTES = "\"'“”„‟‘’‚«»‹›「」『』`*_ "
_PREFIX = re.compile(r"(chat |conversation )?title\s*[:：]\s*", re.IGNORECASE)
_JOINERS = ("\u200d", "\ufe0e", "\ufe0f")


def title_from(text: str) -> str:
    """The first words of ``text`` on one line, at most 48 characters and an ellipsis."""
    words = " ".join(text.split())
    if len(words) <= _LIMIT:
        return words or UNTITLED
    cut = words[: _LIMIT + 1]
    space = cut.rfind(" ")
    cut = cut[:space] if space >= _LIMIT // 2 else cut[:_LIMIT]
    following = words[len(cut)]
    while len(cut) > 1 and (_continues(following) or cut[-1] == "\u200d"):
        following, cut = cut[-1], cut[:-1]
    return cut.rstrip(" ,;:.-") + "…"


def title_of_answer(answer: str) -> str | None:
    """The title in a model's answer: its first line without markup, quotation marks and "Title:"; None if it is none.

    A line that ends with a colon announces it. One with a tag of thinking in it is no title.
    """
    lines = [one.strip(_MARKUP) for one in answer.splitlines() if one.strip(_MARKUP)]
    line = next((one for one in lines if not one.endswith((":", "："))), "")
    if OPEN in line or CLOSE in line:
        return None
    before = None
    while line != before:
        before = line
        line = _PREFIX.sub("", line.strip(_MARKUP), count=1) if _PREFIX.match(line.strip(_MARKUP)) else line
        line = line.strip(_QUOTES).lstrip(_MARKUP)
    line = line.removesuffix(".").strip(_QUOTES)
    return title_from(line) if any(one.isalnum() for one in line) else None


def holds_title(answer: str) -> bool:
    """Whether an answer that still grows has its title already, as a whole line."""
    return title_of_answer(answer.rpartition("\n")[0]) is not None


def _continues(character: str) -> bool:
    """Whether a character belongs to the one before it."""
    return unicodedata.combining(character) != 0 or character in _JOINERS or "\U0001f3fb" <= character <= "\U0001f3ff"
