"""Text as the search index holds it, and where words stand in the text as it was written.

Knows characters, no database and no query language. A text becomes tokens::

    "Crème Brûlée, C++: 我爱北京"  ->  creme brulee c ++ 我爱 爱北 北京 京

Case, accents, ligatures and widths are folded away on both sides. Scripts that are written without spaces become
overlapping pairs of characters and the last one alone, so that a word of one, two or more characters is found inside
a run. Three groups of signs are tokens, too, because names and filters need them: ``+`` and ``#`` after a letter,
the fence of a code block, and the ``://`` of a link.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

FOLDING = 1
"""Grows when the same text would give other tokens: an index made with another number is built anew."""

_SLICE = 64
LONGEST = 64
"""Characters of a word that count; what follows (encoded files, hashes) is not looked at."""

FENCE, LINK = "```", "://"
_SYMBOLS = rf"`{{3}}|{LINK}"
_NAMED_SIGNS = "+#"

# Letters that Unicode does not take apart.
_WHOLE_LETTERS = {"ł": "l", "ø": "o", "đ": "d", "ħ": "h", "ŧ": "t", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"}
_WHOLE_LETTERS |= {"ƀ": "b", "ɓ": "b", "ɖ": "d", "ɗ": "d", "ɨ": "i", "ŋ": "n", "ƶ": "z", "ɛ": "e", "ɔ": "o", "ə": "e"}
_WHOLE_TABLE = str.maketrans(_WHOLE_LETTERS)
_WHOLE_LETTER = re.compile(f"[{''.join(_WHOLE_LETTERS)}]")
# Dashes, quotes, dots, arrows: with them gone most text is ASCII.
_TYPOGRAPHY = re.compile("[\u00a0\u2010-\u2029\u2190-\u21ff]")
# Accents of Latin, Greek, Cyrillic, Hebrew and Arabic; tatweel; joiners, soft hyphens, variation selectors.
_DROPPED = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
    "\u0640\u00ad\u200c-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufe00-\ufe0f"
)
_DROPPED_BEYOND = "\U000e0100-\U000e01ef"  # apart: one character beyond the basic plane makes a class ten times slower
_DROPPED_RUN = re.compile(f"[{_DROPPED}]+")
_DROPPED_BEYOND_RUN = re.compile(f"[{_DROPPED_BEYOND}]+")
# Han, kana, bopomofo, Hangul, Thai, Lao, Myanmar, Khmer.
_SPACELESS = (
    "\u4e00-\u9fff\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\uf900-\ufaff\U00020000-\U0003ffff"
    "\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf"
    "\u1000-\u103f\u1050-\u109f\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f\u1780-\u17d3\u17d7\u17dc\u17dd"
)
_SPACELESS_CHARACTER = re.compile(f"[{_SPACELESS}]")
_SPACELESS_RUN = re.compile(f"[{_SPACELESS}]+")
_SCRIPTS = re.compile(f"[{_SPACELESS}]+|[^{_SPACELESS}]+")
_EMOJI = "\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
# Blocks of the basic plane that have marks (vowel signs of Indic scripts and the like).
_MARK_BLOCKS = ((0x300, 0x3100), (0xA600, 0xAC00), (0xFB00, 0xFE30))

_ASCII_TOKEN = re.compile(rf"[a-z0-9]+|(?<=[a-z0-9])[{_NAMED_SIGNS}]+(?![a-z0-9])|{_SYMBOLS}")


class Piece(NamedTuple):
    """A part of a text that the index holds: a word, a run without spaces, a sign or an emoji."""

    text: str
    spaceless: bool


def fold(text: str) -> str:
    """``text`` without case, accents and other differences that a search does not look at."""
    text = text if text.isascii() else _TYPOGRAPHY.sub(" ", text)
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKD", text).casefold()
    if not unicodedata.is_normalized("NFKD", text):  # folding case can bring marks (İ) and letters with marks
        text = unicodedata.normalize("NFKD", text)
    text = _DROPPED_BEYOND_RUN.sub("", _DROPPED_RUN.sub("", text))
    if _WHOLE_LETTER.search(text):
        text = text.translate(_WHOLE_TABLE)
    return unicodedata.normalize("NFC", text)


def pieces(text: str) -> list[Piece]:
    """The words, runs, signs and emoji of a text, folded, in order."""
    found: list[Piece] = []
    for one in _words(fold(text)):
        parts = [one] if one.isascii() else _SCRIPTS.findall(one)
        found += [Piece(part, _SPACELESS_CHARACTER.match(part) is not None) for part in parts]
    return found


def index_text(text: str) -> str:
    """All tokens of ``text``, with blanks between them."""
    words = _words(fold(text))
    if max(map(len, words), default=0) > LONGEST:
        return " ".join([token for one in words for token in _tokens(one)])
    joined = " ".join(words)
    return joined if joined.isascii() else _SPACELESS_RUN.sub(_pairs, joined)


def _tokens(word: str) -> list[str]:
    parts = [word] if word.isascii() else _SCRIPTS.findall(word)
    return [
        token for one in parts for token in (run_tokens(one) if _SPACELESS_CHARACTER.match(one) else [one[:LONGEST]])
    ]


def _pairs(run: re.Match[str]) -> str:
    return f" {' '.join(run_tokens(run.group()))} "


def _words(folded: str) -> list[str]:
    pattern = _ASCII_TOKEN if folded.isascii() else _patterns().token
    return pattern.findall(folded.replace("_", " "))


def run_tokens(run: str) -> list[str]:
    """Pairs of neighbours and the last character alone."""
    return [run[at : at + 2] for at in range(len(run))]


class Term(NamedTuple):
    """What has to stand in a text, one piece after the other with nothing but blanks and signs between.

    Attributes:
        pieces: folded, at least one.
        prefix: whether the last word was still being written.
    """

    pieces: tuple[Piece, ...]
    prefix: bool = False

    @property
    def open_end(self) -> bool:
        """Whether the last word may go on; one letter is too little to say which word it begins."""
        return self.prefix and sum(len(one.text) for one in self.pieces) > 1

    def tokens(self) -> tuple[list[str], bool]:
        """The tokens of the phrase, and whether the last of them may go on."""
        tokens: list[str] = []
        for one in self.pieces[:-1]:
            tokens += run_tokens(one.text) if one.spaceless else [one.text[:LONGEST]]
        last = self.pieces[-1]
        if not last.spaceless:
            return [*tokens, last.text[:LONGEST]], self.open_end
        if len(last.text) == 1:
            return [*tokens, last.text], True
        return [*tokens, *run_tokens(last.text)[:-1]], False


class Finder:
    """Finds terms in folded texts.

    A quick look for how each term begins says where to look closely: most texts are long and most places are nothing.
    """

    def __init__(self, terms: tuple[Term, ...]) -> None:
        longest_first = sorted(terms, key=lambda one: -sum(len(part.text) for part in one.pieces))
        begins = "|".join(re.escape(one.pieces[0].text[:LONGEST]) for one in longest_first)
        self._quick, self._unfolded = re.compile(begins), re.compile(begins, re.IGNORECASE)
        groups = [f"(?P<term{at}>{_term_pattern(one)})" for at, one in enumerate(longest_first)]
        self._terms = re.compile("|".join(groups), re.DOTALL)

    def likely(self, text: str) -> int:
        """A place in a text as it was written where it is worth to begin; 0 where there is none."""
        found = self._unfolded.search(text)
        return found.start() if found else 0

    def find(self, folded: str) -> Iterator[tuple[int, int, str | None]]:
        """(start, end, name of the term) in order; they may overlap."""
        for place in self._quick.finditer(folded):
            found = self._terms.match(folded, place.start())
            if found is not None:
                yield found.start(), found.end(), found.lastgroup


@lru_cache(64)
def finder(terms: tuple[Term, ...]) -> Finder:
    """What finds any of ``terms``, at least one."""
    return Finder(terms)


def _term_pattern(term: Term) -> str:
    table = _patterns()
    parts: list[str] = []
    for at, one in enumerate(term.pieces):
        inner, open_end = at < len(term.pieces) - 1, at == len(term.pieces) - 1 and term.open_end
        if one.spaceless:
            before = f"(?<![{_SPACELESS}])" if at else ""
            after = f"(?![{_SPACELESS}])" if inner else ""
        elif table.inside.match(one.text):
            before = f"(?:(?<!{table.letter})|(?<=[_{_SPACELESS}]))"
            after = "" if open_end else f"(?:(?!{table.letter})|(?=[_{_SPACELESS}]))"
            if len(one.text) > LONGEST:
                after = f"(?:(?![_{_SPACELESS}]){table.letter})*"
        else:
            before, after = "", "" if open_end or one.text[0] not in _NAMED_SIGNS else f"(?![{_NAMED_SIGNS}])"
        text = one.text if one.spaceless else one.text[:LONGEST]
        parts.append(before + re.escape(text) + after)
    return rf"(?:(?!{_SYMBOLS}|{table.letter}|[{_EMOJI}]).|_)*?".join(parts)


class Places:
    """Where the characters of a folded text stand in the text as it was written.

    Works out only the parts that are asked for: a text is folded in slices, and one slice letter by letter.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._ascii = text.isascii()
        self._starts, self._lengths = [0], [0]  # of each slice: in the text, and of all folded text before it

    def original(self, place: int) -> int:
        """The place in the text of the character at ``place`` of the folded text, or of its end."""
        if self._ascii:
            return place
        while self._lengths[-1] <= place and self._starts[-1] < len(self._text):
            end = _after_marks(self._text, self._starts[-1] + _SLICE)
            self._lengths.append(self._lengths[-1] + len(fold(self._text[self._starts[-1] : end])))
            self._starts.append(end)
        at = bisect_right(self._lengths, place) - 1
        start, left = self._starts[at], place - self._lengths[at]
        while start < len(self._text):
            end = _after_marks(self._text, start + 1)
            length = len(fold(self._text[start:end]))
            if left < length:
                break
            start, left = end, left - length
        return start


def _after_marks(text: str, place: int) -> int:
    """The first place from ``place`` on that does not cut a character from its marks."""
    follows = _patterns().follows
    while place < len(text) and follows.match(text, place):
        place += 1
    return min(place, len(text))


class _Patterns(NamedTuple):
    letter: str
    """A character class: letters, digits and marks of all scripts, and the underscore."""
    inside: re.Pattern[str]
    token: re.Pattern[str]
    follows: re.Pattern[str]
    """A mark, or what else belongs to the character before it."""


@cache
def _patterns() -> _Patterns:
    """Made when the first text needs them: Unicode's tables take some milliseconds to read."""
    marks = _marks()
    letter = f"[\\w{marks}]"
    signs = f"(?<={letter})[{_NAMED_SIGNS}]+(?!{letter})"
    return _Patterns(
        letter=letter,
        inside=re.compile(letter),
        token=re.compile(f"{letter}+|{signs}|{_SYMBOLS}|[{_EMOJI}]"),
        follows=re.compile(f"[{marks}{_DROPPED}{_DROPPED_BEYOND}\u1160-\u11ff\uff9e\uff9f]"),
    )


def _marks() -> str:
    """The characters that modify the one before them, as ranges for a character class."""
    ranges: list[str] = []
    for start, end in _MARK_BLOCKS:
        first = None
        for code in range(start, end + 1):
            mark = code < end and unicodedata.category(chr(code))[0] == "M"
            if mark and first is None:
                first = code
            elif not mark and first is not None:
                ranges.append(f"{chr(first)}-{chr(code - 1)}")
                first = None
    return "".join(ranges)
