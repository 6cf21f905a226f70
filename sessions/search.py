"""Search over all chats: the newest thousand messages and titles that fit, the best of them first.

The words go to the full-text index (see ``search_index``); what the index cannot tell is asked of the rows it names.
Without an index the newest messages are read one by one, and the answer says so.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from . import search_index
from .connection import Connection
from .errors import StoreError
from .search_filters import Condition, conditions, leaves_few, only_messages
from .search_query import Query, parse
from .search_snippet import Snippet, beginning, snippet
from .search_text import FENCE, LINK, Term, index_text, pieces

MOST = 1000
"""Hits that are counted and ranked, the newest ones."""

_INDEXED_TRAITS = {"code": FENCE, "link": LINK}
_WEIGHTS = "1.0, 0.4"  # of content and reasoning
_TITLE_WEIGHT, _TITLE_BONUS = 3.0, 1.0  # the bonus is for words that are in most titles
_RECENT_DAYS = 30.0
_MOST_TITLES = 200
_SCAN_CHARACTERS = 4_000_000
_VISIBLE = "m.hidden = 0 AND m.deleted_at IS NULL AND s.deleted_at IS NULL AND m.status != 'streaming'"
_TEXTS = "CAST(m.content AS BLOB), CAST(m.reasoning AS BLOB)"  # see search_index
_MODEL = "(SELECT g.model FROM generations g WHERE g.message_id = m.id ORDER BY g.run DESC LIMIT 1)"
_BEHIND = "Chats that came or went are still being sorted in, so some messages may not be found yet; search again soon."
_NO_FTS5 = "This Python's SQLite has no full-text search, so "
_NO_INDEX = "The search index is out of order and will be made anew at the next start; until then "


@dataclass(slots=True)
class Hit:
    """A message or a title that was found.

    Attributes:
        message_id, role: None for a title.
        model: that wrote the message, if a model did.
        created_at: of the message; for a title, when something was last written in its chat.
        part: where the words stand.
        snippet: as it was written, in order, each part with whether it was found.
    """

    session_id: str
    title: str | None
    archived: bool
    message_id: str | None
    role: str | None
    model: str | None
    created_at: str
    part: Literal["title", "content", "reasoning"]
    snippet: Snippet


@dataclass(slots=True)
class Found:
    """The answer to a search.

    Attributes:
        total: hits there are, counted up to ``MOST`` messages.
        more: there are more than were counted.
        note: what the user should know about this answer; "" if nothing.
    """

    hits: list[Hit] = field(default_factory=list)
    total: int = 0
    more: bool = False
    note: str = ""


class _Candidate(NamedTuple):
    key: int
    created_at: str
    score: float
    title: bool = False


class _IndexUnreadableError(Exception):
    """The full-text index is there, but cannot be read."""


class Search:
    """Answers searches over a reading connection; the writing one is told when the index cannot be read."""

    def __init__(self, writer: Connection, reader: Connection) -> None:
        self._writer, self._reader = writer, reader

    def find(self, text: str, limit: int = 20, offset: int = 0) -> Found:
        """The hits of what stands in the search field, from the one numbered ``offset`` on.

        Filters without words list the messages they leave, the newest first.

        Raises:
            SessionError: a filter has a value it cannot have.
        """
        query = parse(text)
        if query.empty:
            return Found(note=f"There is no letter or digit to search for in {text.strip()}." if text.strip() else "")
        try:
            return self._answer(query, limit, offset, scan=False)
        except _IndexUnreadableError:
            with contextlib.suppress(StoreError):
                search_index.give_up(self._writer)
            return self._answer(query, limit, offset, scan=True)

    def take_in(self) -> bool:
        """Bring the index on by a step; whether more is to be done. See ``search_index.take_in``."""
        return search_index.take_in(self._writer)

    def _answer(self, query: Query, limit: int, offset: int, *, scan: bool) -> Found:
        with self._reader.reading() as connection:
            if scan or not search_index.usable(connection):
                found, candidates = _scanned(connection, query)
            else:
                found = Found(note=_BEHIND if search_index.is_behind(connection) else "")
                candidates = _indexed(connection, query)
            messages = [one for one in candidates if not one.title]
            found.more = found.more or len(messages) > MOST
            ranked = sorted(messages, key=lambda one: one.created_at, reverse=True)[:MOST]
            ranked += [one for one in candidates if one.title]
            if query.wanted:
                ranked.sort(key=_rank, reverse=True)
            found.total = len(ranked)
            chosen = ranked[max(0, offset) : max(0, offset) + max(0, limit)]
            found.hits = [_hit(connection, one, query.wanted) for one in chosen]
            return found


def _rank(candidate: _Candidate) -> float:
    """How well it fits; up to twice that for the newest."""
    try:
        age = datetime.now(UTC) - datetime.fromisoformat(candidate.created_at)
        days = max(0.0, age.total_seconds() / 86400)
    except (ValueError, TypeError):
        days = 3650.0
    return candidate.score * (1 + 1 / (1 + days / _RECENT_DAYS))


# -- with the index -------------------------------------------------------------------------------------------------


def _indexed(connection: sqlite3.Connection, query: Query) -> list[_Candidate]:
    filters = conditions(connection, query)
    try:
        found = _indexed_messages(connection, query, filters)
        return found + _indexed_titles(connection, query, filters)
    except sqlite3.DatabaseError as error:
        if search_index.concerns_index(error):
            raise _IndexUnreadableError from error
        raise


def _indexed_messages(connection: sqlite3.Connection, query: Query, filters: list[Condition]) -> list[_Candidate]:
    wanted, unwanted = _expressions(query)
    first = [one for one in filters if leaves_few(connection, one)]
    then = [one for one in filters if one not in first or one.costly]
    values = [value for one in [*first, *then] for value in one.values]
    key = "+w.rowid" if wanted else "m.key"
    where = [_VISIBLE, *(f"{key} IN ({one.keys})" for one in first), *(f"({one.row})" for one in then)]
    if wanted:
        match = " AND ".join(wanted) + (f" NOT ({' OR '.join(unwanted)})" if unwanted else "")
        rows = _matches(connection, "1.0", where, [match, *values])
        if len(rows) <= MOST:  # among more than that, words say little and the newest come first
            rows = _matches(connection, f"-bm25(message_words, {_WEIGHTS})", where, [match, *values])
    else:
        if unwanted:
            where.append("m.key NOT IN (SELECT rowid FROM message_words WHERE message_words MATCH ?)")
            values.append(" OR ".join(unwanted))
        by_time = "" if first else "INDEXED BY messages_by_time"
        rows = connection.execute(
            f"SELECT m.key, m.created_at, 0.0 FROM messages m {by_time} JOIN sessions s ON s.id = m.session_id "
            f"WHERE {' AND '.join(where)} ORDER BY m.created_at DESC, m.key DESC LIMIT {MOST + 1}",
            values,
        )
    return [_Candidate(key, created_at, score) for key, created_at, score in rows]


def _matches(
    connection: sqlite3.Connection, score: str, where: list[str], values: list[str]
) -> list[tuple[int, str, float]]:
    """(key, time, score) of the newest messages that match; the first of ``values`` is what they match."""
    return connection.execute(
        f"SELECT m.key, m.created_at, {score} FROM message_words w CROSS JOIN messages m ON m.key = w.rowid "
        f"CROSS JOIN sessions s ON s.id = m.session_id WHERE message_words MATCH ? AND {' AND '.join(where)} "
        f"ORDER BY w.rowid DESC LIMIT {MOST + 1}",
        values,
    ).fetchall()


def _indexed_titles(connection: sqlite3.Connection, query: Query, filters: list[Condition]) -> list[_Candidate]:
    if not query.wanted or only_messages(query):
        return []
    match = " AND ".join(map(_phrase, query.wanted))
    match += "".join(f" NOT {_phrase(one)}" for one in query.unwanted)
    rows = connection.execute(
        f"SELECT s.key, s.updated_at, {_TITLE_BONUS} - {_TITLE_WEIGHT} * bm25(session_words) "
        "FROM session_words CROSS JOIN sessions s ON s.key = session_words.rowid "
        f"WHERE session_words MATCH ? AND {_of_titles(filters)} "
        f"ORDER BY session_words.rowid DESC LIMIT {_MOST_TITLES}",
        [match, *(value for one in filters for value in one.values)],
    )
    return [_Candidate(*row, title=True) for row in rows]


def _of_titles(filters: list[Condition]) -> str:
    rows = (one.row.replace("m.created_at", "s.updated_at") for one in filters)
    return " AND ".join(["s.deleted_at IS NULL", *(f"({row})" for row in rows)])


def _expressions(query: Query) -> tuple[list[str], list[str]]:
    """What must match and what must not, in the index's own language."""
    wanted = [_phrase(one) for one in query.wanted]
    unwanted = [_phrase(one) for one in query.unwanted]
    for negated, into in ((False, wanted), (True, unwanted)):
        into += [f'"{_INDEXED_TRAITS[one]}"' for one in query.values("has", negated=negated) if one in _INDEXED_TRAITS]
    return wanted, unwanted


def _phrase(term: Term) -> str:
    """Tokens have neither quotes nor blanks in them, so that nothing else can stand between the quotes."""
    tokens, goes_on = term.tokens()
    return f'"{" ".join(tokens)}"' + ("*" if goes_on else "")


# -- without ---------------------------------------------------------------------------------------------------------


def _scanned(connection: sqlite3.Connection, query: Query) -> tuple[Found, list[_Candidate]]:
    """What a look at the newest messages finds."""
    filters = conditions(connection, query)
    values = [value for one in filters for value in one.values]
    where = " AND ".join([_VISIBLE, *(f"({one.row})" for one in filters)])
    rows = connection.execute(
        f"SELECT m.key, m.created_at, {_TEXTS} FROM messages m INDEXED BY messages_by_time "
        f"JOIN sessions s ON s.id = m.session_id WHERE {where} ORDER BY m.created_at DESC, m.key DESC",
        values,
    )
    why = _NO_INDEX if search_index.has_fts5() else _NO_FTS5
    found = Found(note=f"{why}messages are read one by one, which takes longer.")
    candidates: list[_Candidate] = []
    seen = read = 0
    for key, created_at, *texts in rows:
        if read > _SCAN_CHARACTERS or len(candidates) > MOST:
            found.more = True
            found.note = f"{why}only the newest {seen:,} messages were searched."
            break
        content, reasoning = map(search_index.readable, texts)
        seen, read = seen + 1, read + len(content) + len(reasoning)
        if _fits(query, content, reasoning):
            candidates.append(_Candidate(key, created_at, 1.0))
    return found, candidates + list(_scanned_titles(connection, query, filters))


def _scanned_titles(connection: sqlite3.Connection, query: Query, filters: list[Condition]) -> Iterator[_Candidate]:
    if not query.wanted or only_messages(query):
        return
    rows = connection.execute(
        f"SELECT s.key, s.updated_at, s.title FROM sessions s WHERE s.title IS NOT NULL AND {_of_titles(filters)} "
        "ORDER BY s.key DESC",
        [value for one in filters for value in one.values],
    )
    for key, updated_at, title in rows:
        if _fits(query, title):
            yield _Candidate(key, updated_at, 1.0 + _TITLE_BONUS, title=True)


def _fits(query: Query, *texts: str) -> bool:
    """What the index would say of a message with these texts."""
    held = [f" {' '.join(index_text(one).split())} " for one in texts]

    def holds(term: Term) -> bool:
        tokens, goes_on = term.tokens()
        wanted = f" {' '.join(tokens)}" + ("" if goes_on else " ")
        return any(wanted in one for one in held)

    for negated in (False, True):
        signs = [_INDEXED_TRAITS[one] for one in query.values("has", negated=negated) if one in _INDEXED_TRAITS]
        if any(holds(Term(tuple(pieces(one)))) == negated for one in signs):
            return False
    return all(map(holds, query.wanted)) and not any(map(holds, query.unwanted))


# -- hits ------------------------------------------------------------------------------------------------------------


def _hit(connection: sqlite3.Connection, candidate: _Candidate, wanted: tuple[Term, ...]) -> Hit:
    if candidate.title:
        session_id, title, archived = connection.execute(
            "SELECT id, title, archived FROM sessions WHERE key = ?", [candidate.key]
        ).fetchone()
        shown = snippet(title, wanted) or beginning(title)
        return Hit(session_id, title, bool(archived), None, None, None, candidate.created_at, "title", shown)
    session_id, title, archived, message_id, role, *texts, model = connection.execute(
        f"SELECT s.id, s.title, s.archived, m.id, m.role, {_TEXTS}, {_MODEL} "
        "FROM messages m JOIN sessions s ON s.id = m.session_id WHERE m.key = ?",
        [candidate.key],
    ).fetchone()
    content, reasoning = map(search_index.readable, texts)
    part: Literal["content", "reasoning"] = "content"
    shown = snippet(content, wanted)
    if shown is None and reasoning:
        shown = snippet(reasoning, wanted)
        part = "reasoning" if shown or not content else "content"
    shown = shown or beginning(content or reasoning)
    return Hit(session_id, title, bool(archived), message_id, role, model, candidate.created_at, part, shown)
