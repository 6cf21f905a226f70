"""The full-text index: what it holds of messages and titles, and how it is kept in step with them.

::

    messages ──key──> message_words   content and reasoning as tokens; the tokens themselves are not kept
    sessions ──key──> session_words   the title as tokens

Every function works over an open connection, inside the transaction that writes the message or the title. A message is
in the index from its end on, hidden and deleted ones too: what a search shows is decided when it is asked. Whoever
changes or removes a message that has ended calls ``remove`` first, because tokens can only be taken out while the text
is there.

Messages that come by the thousand, with an import or a fork, would hold the writer for seconds: the transaction that
brings them only notes in ``state`` the first key from which on messages may be missing, and ``take_in`` brings them in
step by step, also after a crash. A purge of many takes them out in steps, too.

Writing a message never fails because of the index. When the index cannot be written, or this Python has no FTS5, that
is noted in the table ``state``; searches then look through the messages themselves, and the next start that can makes
the index anew. Source of the statements: SQLite's fts5.html, sections 4.4.1 and 6.
"""

from __future__ import annotations

import sqlite3
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import cache

from .connection import Connection
from .search_text import FOLDING, index_text

SIGNATURE = f"{FOLDING} {unicodedata.unidata_version}"
"""Of the folding that an index was made with; one with another is of no use."""

_STATE = "search_index"
_MISSING_FROM = "search_index_missing_from"
_STEP_S = 0.1
_STALE = "stale"
_TOKENS = "tokenize = \"ascii tokenchars '+#`:/'\""  # the tokens are made here; SQLite only has to part them
_TABLES = {
    "message_words": f"fts5(content, reasoning, content = '', {_TOKENS})",
    "session_words": f"fts5(title, {_TOKENS})",
}
_BROKEN = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CONSTRAINT)
_FILL_HASH_BYTES = 16 << 20
# As bytes: what no UTF-8 can be read from must not keep the other texts from being found.
_TEXTS = "SELECT key, CAST(content AS BLOB), CAST(reasoning AS BLOB) FROM messages WHERE status != 'streaming'"
_HELD = "EXISTS (SELECT 1 FROM message_words_docsize d WHERE d.id = messages.key)"


@cache
def has_fts5() -> bool:
    """Whether this Python's SQLite has full-text search."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(word)")
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True


def usable(connection: sqlite3.Connection) -> bool:
    """Whether the index is there and in step with the messages."""
    return has_fts5() and _state(connection) == SIGNATURE


def needs_rebuild(connection: sqlite3.Connection) -> bool:
    """Whether it can be made now, and is missing, of another folding, or has lost or kept rows it should not."""
    if not has_fts5():
        return False
    if _state(connection) != SIGNATURE:
        return True
    messages = "(SELECT count(*) FROM messages) - (SELECT count(*) FROM messages WHERE status = 'streaming')"
    titles = "(SELECT count(title) FROM sessions)"
    held = "(SELECT count(*) FROM {}_docsize)"
    query = f"SELECT {messages} = {held.format('message_words')} AND {titles} = {held.format('session_words')}"
    try:
        return not connection.execute(query).fetchone()[0]
    except sqlite3.DatabaseError as error:
        if concerns_index(error):
            return True
        raise


def is_behind(connection: sqlite3.Connection) -> bool:
    """Whether some messages may still have to be taken in."""
    return _state(connection, _MISSING_FROM) is not None


def catch_up(writer: Connection) -> None:
    """Make the index anew where it can be made and is not in step, at a start. If that fails, searches do without.

    Raises:
        StoreError: the disk or another program is in the way.
    """
    while take_in(writer):
        pass
    with writer.reading() as connection:
        if not needs_rebuild(connection):
            return
    with writer.transaction(durable=False) as connection:
        if needs_rebuild(connection):
            _attempt(connection, lambda: rebuild(connection))


def rebuild(connection: sqlite3.Connection) -> None:
    """Make the index from the messages and titles there are; without FTS5 there is none."""
    if not has_fts5():
        _set_state(connection, _STALE)
        return
    for name, definition in _TABLES.items():
        _drop(connection, name)
        connection.execute(f"CREATE VIRTUAL TABLE {name} USING {definition}")
    connection.execute("INSERT INTO message_words (message_words, rank) VALUES ('hashsize', ?)", [_FILL_HASH_BYTES])
    connection.executemany(_PUT, _rows(connection.execute(_TEXTS + " ORDER BY key")))
    connection.execute("INSERT INTO message_words (message_words, rank) VALUES ('hashsize', ?)", [1 << 20])
    connection.execute("INSERT INTO message_words (message_words) VALUES ('optimize')")  # or the next messages pay
    titles = connection.execute("SELECT key, title FROM sessions WHERE title IS NOT NULL ORDER BY key")
    connection.executemany(_PUT_TITLE, ((row[0], index_text(row[1])) for row in titles))
    _set_state(connection, SIGNATURE)
    connection.execute("DELETE FROM state WHERE key = ?", [_MISSING_FROM])


def _drop(connection: sqlite3.Connection, name: str) -> None:
    try:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    except sqlite3.DatabaseError as error:
        if not concerns_index(error):
            raise
        # FTS5 cannot open it, not even to remove it; without its own entry what it kept is ordinary tables.
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = ?", [name])
        connection.execute("PRAGMA writable_schema = RESET")
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ? ESCAPE '!'"
        for row in connection.execute(query, [name.replace("_", "!_") + "!_%"]).fetchall():
            connection.execute(f"DROP TABLE {row[0]}")


def give_up(writer: Connection) -> None:
    """Note that a search could not read the index, so that the next start makes it anew.

    Raises:
        StoreError: the disk or another program is in the way.
    """
    with writer.transaction(durable=False) as connection:
        _set_state(connection, _STALE)


def put(connection: sqlite3.Connection, message_id: str) -> None:
    """Take in a message that has ended."""
    texts = connection.execute(f"{_TEXTS} AND id = ?", [message_id])
    _keep_in_step(connection, lambda: connection.executemany(_PUT, _rows(texts)))


def remove(connection: sqlite3.Connection, message_id: str) -> None:
    """Take out a message whose text is about to change."""
    _keep_in_step(connection, lambda: _take_out(connection, "id", message_id))


def put_title(connection: sqlite3.Connection, session_id: str) -> None:
    """Take in the title that a session has now, in place of the one it had."""
    _keep_in_step(connection, lambda: _put_title(connection, session_id))


def add_sessions(connection: sqlite3.Connection, session_ids: Iterable[str]) -> None:
    """Take in the titles of sessions that were written as a whole in this transaction; their messages come later.

    See ``take_in``.
    """

    def add() -> None:
        for session_id in session_ids:
            _put_title(connection, session_id)
            query = "SELECT min(key) FROM messages WHERE session_id = ?"
            first = connection.execute(query, [session_id]).fetchone()[0]
            if first is not None:
                _note_missing(connection, first)

    _keep_in_step(connection, add)


def take_in(writer: Connection) -> bool:
    """Take in some of the messages that are missing, which takes about 0.1 s; returns whether more of them may be.

    Raises:
        StoreError: the disk or another program is in the way.
    """
    with writer.reading() as connection:
        if not (usable(connection) and is_behind(connection)):
            return False
    with writer.transaction(durable=False) as connection:
        _keep_in_step(connection, lambda: _take_in(connection, time.monotonic() + _STEP_S))
        return usable(connection) and is_behind(connection)


def _take_in(connection: sqlite3.Connection, until: float) -> None:
    first = int(_state(connection, _MISSING_FROM) or 0)
    query = f"{_TEXTS} AND key >= ? AND NOT {_HELD} ORDER BY key"
    with closing(connection.execute(query, [first])) as texts:
        for row in _rows(texts):
            connection.execute(_PUT, row)
            if time.monotonic() > until:
                _set_state(connection, str(row[0] + 1), _MISSING_FROM)
                return
    connection.execute("DELETE FROM state WHERE key = ?", [_MISSING_FROM])


def _note_missing(connection: sqlite3.Connection, key: int) -> None:
    """Messages from ``key`` on may not be in the index."""
    noted = _state(connection, _MISSING_FROM)
    if noted is None or key < int(noted):
        _set_state(connection, str(key), _MISSING_FROM)


def forget_some(connection: sqlite3.Connection, message_keys: list[int]) -> int | None:
    """Take out some messages that are about to go for ever, which takes about 0.1 s. Until then they count as missing.

    Args:
        message_keys: in ascending order.

    Returns:
        The last key that was dealt with; None if that was all.
    """
    until, last = time.monotonic() + _STEP_S, None

    def take_out() -> None:
        nonlocal last
        _note_missing(connection, message_keys[0])
        for key in message_keys[:-1]:
            _take_out(connection, "key", key)
            if time.monotonic() > until:
                last = key
                return
        _take_out(connection, "key", message_keys[-1])

    if message_keys:
        _keep_in_step(connection, take_out)
    return last


def forget(connection: sqlite3.Connection, session_keys: list[int], message_keys: list[int]) -> None:
    """Take out what is about to go for ever, and write the whole index anew, so that no word of it stays in the file.

    That takes about a second for 100,000 messages, and more for long texts that ``forget_some`` has not taken out.
    """

    def take_out() -> None:
        for key in message_keys:
            _take_out(connection, "key", key)
        connection.executemany("DELETE FROM session_words WHERE rowid = ?", [[key] for key in session_keys])
        for name in _TABLES:
            connection.execute(f"INSERT INTO {name} ({name}) VALUES ('optimize')")

    _keep_in_step(connection, take_out)


_PUT = "INSERT INTO message_words (rowid, content, reasoning) VALUES (?, ?, ?)"
_TAKE = "INSERT INTO message_words (message_words, rowid, content, reasoning) VALUES ('delete', ?, ?, ?)"
_PUT_TITLE = "INSERT INTO session_words (rowid, title) VALUES (?, ?)"
_TAKE_TITLE = "DELETE FROM session_words WHERE rowid = (SELECT key FROM sessions WHERE id = ?)"


def _take_out(connection: sqlite3.Connection, column: str, value: str | int) -> None:
    texts = connection.execute(f"{_TEXTS} AND {column} = ? AND {_HELD}", [value])
    connection.executemany(_TAKE, _rows(texts))


def _put_title(connection: sqlite3.Connection, session_id: str) -> None:
    connection.execute(_TAKE_TITLE, [session_id])
    row = connection.execute("SELECT key, title FROM sessions WHERE id = ?", [session_id]).fetchone()
    if row is not None and row[1] is not None:
        connection.execute(_PUT_TITLE, [row[0], index_text(row[1])])


def _rows(texts: sqlite3.Cursor) -> Iterator[tuple[int, str, str]]:
    for key, content, reasoning in texts:
        yield key, index_text(readable(content)), index_text(readable(reasoning))


def readable(text: bytes | None) -> str:
    """A text that was read as bytes."""
    return (text or b"").decode("utf-8", "replace")


def _keep_in_step(connection: sqlite3.Connection, work: Callable[[], object]) -> None:
    """Do ``work`` on an index that is in step; if that cannot be, note that the index is not in step any more."""
    if _state(connection) != SIGNATURE:
        return
    if has_fts5():
        _attempt(connection, work)
    else:
        _set_state(connection, _STALE)


def _attempt(connection: sqlite3.Connection, work: Callable[[], object]) -> None:
    """Do ``work``, or nothing of it and note that the index is of no use.

    Raises:
        sqlite3.Error: the disk or another program is in the way, which concerns the message, too.
    """
    connection.execute("SAVEPOINT words")
    try:
        work()
        # At an inner savepoint FTS5 writes what it gathered, and not only at the commit, where nothing could be undone.
        connection.execute("SAVEPOINT words_written")
        connection.execute("RELEASE words_written")
        connection.execute("RELEASE words")
    except sqlite3.DatabaseError as error:
        if not connection.in_transaction or not concerns_index(error):
            raise
        connection.execute("ROLLBACK TO words")
        connection.execute("RELEASE words")
        _set_state(connection, _STALE)


def concerns_index(error: sqlite3.DatabaseError) -> bool:
    """Whether it may be the index alone: it is damaged, or tables of it are missing."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN


def _state(connection: sqlite3.Connection, key: str = _STATE) -> str | None:
    row = connection.execute("SELECT value FROM state WHERE key = ?", [key]).fetchone()
    return row[0] if row else None


def _set_state(connection: sqlite3.Connection, value: str, key: str = _STATE) -> None:
    connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", [key, value])
