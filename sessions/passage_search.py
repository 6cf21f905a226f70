"""The passages of one document that fit a question best, by BM25.

The words are folded as in the search over chats, and parted likewise for scripts without spaces. The index is SQLite's
FTS5 in memory, made when a document is first asked for: nothing of a file's words is on disk but its text, and how rare
a word is counts within the document alone. Where SQLite has no FTS5, the same formula runs over the words themselves.
Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009; SQLite's fts5.html, 5.1.1.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter, OrderedDict
from collections.abc import Collection, Sequence
from math import log
from typing import Protocol

from .passages import Passage
from .search_index import has_fts5
from .search_text import index_text

MOST_WORDS = 200
"""Different words of a question that count."""

_KEPT = 4
_K1, _B = 1.2, 0.75
_NOTHING = 1e-3
"""A score that only words bring which are almost everywhere."""


class Ranker(Protocol):
    """Finds passages."""

    def best(self, words: Sequence[str], limit: int) -> list[int]:
        """Places of the passages with any of the words, the best first; those with common words only left out."""
        ...


class PassageSearch:
    """The indexes of the documents that were asked for last. May be used by several threads."""

    def __init__(self, *, fts5: bool | None = None) -> None:
        """
        Args:
            fts5: whether to use it; None where there is one.
        """
        self._make = _Index if (has_fts5() if fts5 is None else fts5) else _Words
        self._kept: OrderedDict[str, tuple[list[Passage], Ranker]] = OrderedDict()
        self._lock = threading.Lock()

    def best(
        self,
        sha256: str,
        text: str,
        passages: Sequence[Passage],
        question: str,
        limit: int,
        without: Collection[int] | None = None,
    ) -> list[int]:
        """Places among ``passages`` of those that fit best, the best first; none of none.

        Where no word of the question says anything about the document, they are spread evenly over it, from its
        beginning on: "what is this about?" is best answered from there.

        Args:
            sha256: names the document.
            limit: the most there may be.
            without: places that were found before. Then only those are found that share words with the question.
        """
        if not passages:
            return []
        words = list(dict.fromkeys(index_text(question).split()))[:MOST_WORDS]
        with self._lock:
            most = limit + len(without or ())
            found = self._ranker(sha256, text, list(passages)).best(words, most) if words else []
        if without is not None:
            return [place for place in found if place not in without][:limit]
        number = min(limit, len(passages))
        return found or [place * len(passages) // number for place in range(number)]

    def _ranker(self, sha256: str, text: str, passages: list[Passage]) -> Ranker:
        """The index of a document, made anew where it was made of other passages."""
        indexed, ranker = self._kept.pop(sha256, (None, None))
        if ranker is None or indexed != passages:
            ranker = self._make([text[one.start : one.end] for one in passages])
        self._kept[sha256] = passages, ranker
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return ranker


class _Index:
    def __init__(self, texts: Sequence[str]) -> None:
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        tokens = "porter ascii tokenchars '+#`:/'"  # the tokens are made here; English words also lose their endings
        self._connection.execute(f"CREATE VIRTUAL TABLE words USING fts5(text, tokenize = \"{tokens}\", content = '')")
        rows = ((place, index_text(text)) for place, text in enumerate(texts, 1))
        self._connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", rows)

    def best(self, words: Sequence[str], limit: int) -> list[int]:
        query = " OR ".join(f'"{one}"' for one in words)
        rows = self._connection.execute(
            "SELECT rowid, rank FROM words WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?", [query, limit]
        )
        return [row[0] - 1 for row in rows if -row[1] > _NOTHING]


class _Words:
    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = [Counter(index_text(one).split()) for one in texts]
        self._lengths = [sum(one.values()) for one in self._counts]
        self._held = Counter(word for one in self._counts for word in one)

    def best(self, words: Sequence[str], limit: int) -> list[int]:
        number = len(self._counts)
        average = sum(self._lengths) / max(number, 1) or 1.0
        weights = {one: log((number - self._held[one] + 0.5) / (self._held[one] + 0.5)) for one in words}
        weights = {one: max(weight, 1e-6) for one, weight in weights.items() if self._held[one]}
        scores = []
        for place, counts in enumerate(self._counts):
            norm = _K1 * (1 - _B + _B * self._lengths[place] / average)
            score = sum(
                weight * counts[one] * (_K1 + 1) / (counts[one] + norm)
                for one, weight in weights.items()
                if counts[one]
            )
            if score > _NOTHING:
                scores.append((-score, place))
        return [place for _, place in sorted(scores)[:limit]]
