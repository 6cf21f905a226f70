"""A chat's name from the first words of its first message, without asking a model."""

from __future__ import annotations

import unicodedata

UNTITLED = "New chat"
_LIMIT = 48
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


def _continues(character: str) -> bool:
    """Whether a character belongs to the one before it."""
    return unicodedata.combining(character) != 0 or character in _JOINERS or "\U0001f3fb" <= character <= "\U0001f3ff"
