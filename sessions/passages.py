"""A document in passages of about the same length, each of whole paragraphs, lines or sentences where that can be.

::

    ├────── 1 ──────┤                   about 200 tokens each; the last words of one are the first
               ├────── 2 ──────┤        of the next, so that what a border would part is whole in one of them
                          ├──── 3 ────┤

Knows texts only. Lengths are estimated, because the same passages must come whatever model is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

TARGET = 200
"""Tokens of a passage, as estimated."""
OVERLAP = 30
"""Tokens that a passage has in common with the one before it, at most."""

_FULL = 0.6
"""A passage that is so full ends with a paragraph where one ends."""
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_LINE = re.compile(r"\n+")
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？；])")
_WORD = re.compile(r"\s+")
_WIDE = re.compile("[^\x00-\u02ff]")


class Passage(NamedTuple):
    """A part of a text, in characters."""

    start: int
    end: int


class _Unit(NamedTuple):
    start: int
    end: int
    weight: float
    blanks: float  # what lies before it, in tokens
    ends_paragraph: bool


def estimate(text: str) -> float:
    """About how many tokens a text has: four Latin letters, or one of another script."""
    wide = 0 if text.isascii() else len(_WIDE.findall(text))
    return (len(text) - wide) / 4 + wide


def split(text: str) -> list[Passage]:
    """The passages of a text, in order; none of a text of blanks. Together they have all of it but blanks."""
    units = list(_units(text))
    found: list[Passage] = []
    first = 0
    while first < len(units):
        end, weight, full = first, 0.0, first
        while end < len(units) and (end == first or weight + units[end].blanks + units[end].weight <= TARGET):
            weight += units[end].weight + (units[end].blanks if end > first else 0)
            end += 1
            if units[end - 1].ends_paragraph and weight >= _FULL * TARGET:
                full = end
        if end < len(units) and full > first:
            end = full
        found.append(Passage(units[first].start, units[end - 1].end))
        if end == len(units):
            break
        first = _back(units, first, end)
    return found


def _back(units: list[_Unit], first: int, end: int) -> int:
    """Where the next passage begins: a little before ``end``, but after ``first``."""
    begin, weight = end, 0.0
    while begin - 1 > first and weight + units[begin - 1].weight <= OVERLAP:
        begin -= 1
        weight += units[begin].weight + units[begin].blanks
    return begin


def _units(text: str) -> Iterator[_Unit]:
    """The sentences and lines of a text, none longer than half a passage."""
    before = 0
    for start, end in _parts(text, 0, len(text), _PARAGRAPH):
        small = list(_small(text, start, end, (_LINE, _SENTENCE, _WORD)))
        for place, (begin, stop) in enumerate(small):
            blanks = estimate(text[before:begin])
            yield _Unit(begin, stop, estimate(text[begin:stop]), blanks, place == len(small) - 1)
            before = stop


def _small(text: str, start: int, end: int, borders: tuple[re.Pattern[str], ...]) -> Iterator[tuple[int, int]]:
    """Parts of a text of at most half a passage, cut at the first kind of border that makes them small enough."""
    if estimate(text[start:end]) <= TARGET / 2:
        yield start, end
    elif not borders:
        step = TARGET // 2  # at most so many tokens, whatever the letters are
        yield from ((at, min(at + step, end)) for at in range(start, end, step))
    elif borders[0] is _WORD:
        yield from _gathered(text, start, end)
    else:
        for begin, stop in _parts(text, start, end, borders[0]):
            yield from _small(text, begin, stop, borders[1:])


def _gathered(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Runs of words of about a third of a passage."""
    begin = last = None
    for word_start, word_end in _parts(text, start, end, _WORD):
        if begin is not None and last is not None and estimate(text[begin:word_end]) > TARGET / 3:
            yield from _small(text, begin, last, ())
            begin = None
        begin = word_start if begin is None else begin
        last = word_end
    if begin is not None and last is not None:
        yield from _small(text, begin, last, ())


def _parts(text: str, start: int, end: int, border: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """What lies between the borders, without the blanks around it."""
    at = start
    for found in border.finditer(text, start, end):
        yield from _trimmed(text, at, found.start())
        at = found.end()
    yield from _trimmed(text, at, end)


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end and text[start].isspace() and text[start] not in " \t":
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if text[start:end].strip():
        yield start, end
