"""The part of a text that a search found, as it was written, with the found words marked."""

from __future__ import annotations

from itertools import islice

from .search_text import Places, Term, finder, fold

Snippet = list[tuple[str, bool]]
"""Text in order, and whether it was found."""

WIDTH = 220
"""Characters of a snippet, about."""

_LEAD = 60  # characters before the first mark
_STEP = 2000  # characters looked at at once
_MATCHES = 30
_ELLIPSIS = "…"


def snippet(text: str, terms: tuple[Term, ...]) -> Snippet | None:
    """The part of ``text`` where most of ``terms`` stand close together, of the first parts that have any.

    Returns:
        None if none of them is in it.
    """
    if not terms:
        return None
    looking = finder(terms)
    likely = max(0, looking.likely(text) - _LEAD)
    for start in (*range(likely, len(text), _STEP), *range(0, likely, _STEP)):
        # A little more on both sides: a word may lie across the border.
        low, high = max(0, start - WIDTH), min(len(text), start + _STEP + WIDTH)
        found = list(islice(looking.find(fold(text[low:high])), _MATCHES))
        if found:
            first = max(found, key=lambda one: (_names_near(found, one[0]), -one[0]))[0]
            places = Places(text[low:high])
            near = [one for one in found if first <= one[0] <= first + WIDTH]
            return _marked(text, [(low + places.original(one[0]), low + places.original(one[1])) for one in near])
    return None


def beginning(text: str) -> Snippet:
    """The first words of ``text``, nothing marked."""
    return _marked(text, [])


def _marked(text: str, found: list[tuple[int, int]]) -> Snippet:
    first, end_of_first = found[0] if found else (0, 0)
    start = _word_start(text, max(0, first - _LEAD), first)
    end = _word_end(text, max(end_of_first, min(len(text), start + WIDTH)))
    parts: Snippet = [(_ELLIPSIS, False)] if start else []
    place = start
    for low, high in found:
        if place <= low < high <= end:
            parts += [(text[place:low], False), (text[low:high], True)]
            place = high
    parts.append((text[place:end] + (_ELLIPSIS if end < len(text) else ""), False))
    return [one for one in parts if one[0]]


def _names_near(found: list[tuple[int, int, str | None]], start: int) -> int:
    return len({name for low, high, name in found if low >= start and high <= start + WIDTH - _LEAD})


def _word_start(text: str, place: int, most: int) -> int:
    """The first beginning of a word at or after ``place``, if there is one before ``most``."""
    if place == 0:
        return 0
    for at in range(place, min(most, place + _LEAD // 2)):
        if text[at - 1].isspace():
            return at
    return place


def _word_end(text: str, place: int) -> int:
    for at in range(place, max(place - _LEAD // 2, 1), -1):
        if at == len(text) or text[at].isspace():
            return at
    return place
