"""A store to search in: short ways to fill it and to ask."""

from __future__ import annotations

from pathlib import Path

from pagedchat.sessions.search import Found
from pagedchat.sessions.store import SessionStore


class Shelf:
    """A store, and what was put into it.

    Attributes:
        store: to be closed by whoever made it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = SessionStore(path)
        self._sessions: dict[str, str] = {}

    def ask(self, question: str, answer: str = "ok", *, title: str | None = None, parent: str | None = None) -> str:
        """A question and its reply, in a new session unless it has a parent; returns the reply's id."""
        session_id = self.store.message(parent).session_id if parent else self.store.create_session(None, {}, None).id
        _, _, reply = self.store.add_question(session_id, parent, question)
        self.store.finish_reply(reply.id, answer, "done")
        self._sessions[reply.id] = session_id
        if title is not None:
            self.store.change_session(session_id, title=title, title_by="user")
        return reply.id

    def session_of(self, message_id: str) -> str:
        """Id of the session of a reply that ``ask`` made."""
        return self._sessions[message_id]

    def find(self, query: str, limit: int = 50) -> Found:
        """What a search finds."""
        return self.store.search.find(query, limit)

    def texts(self, query: str) -> set[str]:
        """The snippets of the messages that a search finds, marks taken away."""
        return {text_of(hit.snippet) for hit in self.find(query).hits if hit.message_id is not None}


def text_of(snippet: list[tuple[str, bool]]) -> str:
    """A snippet as text."""
    return "".join(text for text, _ in snippet)


def marks_of(snippet: list[tuple[str, bool]]) -> list[str]:
    """What is marked in a snippet."""
    return [text for text, found in snippet if found]


def index_of(store: SessionStore) -> dict[str, list[tuple]]:
    """All that the full-text index holds: every token of every row with its place, and the rows' lengths."""
    with store._writer.transaction(durable=False) as connection:
        found: dict[str, list[tuple]] = {}
        for table in ("message_words", "session_words"):
            connection.execute(f"CREATE VIRTUAL TABLE temp.{table}_tokens USING fts5vocab(main, {table}, instance)")
            rows = connection.execute(f'SELECT term, doc, col, "offset" FROM temp.{table}_tokens')
            found[table] = sorted(tuple(row) for row in rows)
            connection.execute(f"DROP TABLE temp.{table}_tokens")
            found[table] += sorted(tuple(row) for row in connection.execute(f"SELECT id, sz FROM {table}_docsize"))
    return found
