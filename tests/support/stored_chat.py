"""A chat in a store without any service: questions and replies by one call each, for tests of the store."""

from __future__ import annotations

from pathlib import Path

from pagedchat.sessions.rows import Generation, Message, ReplyTokens, pack
from pagedchat.sessions.store import SessionStore

FINGERPRINT = "stored"


class StoredChat:
    """One session of ``store``, a new one without ``session_id``.

    Attributes:
        ids: messages by a name that a test gives them.
    """

    def __init__(self, store: SessionStore, session_id: str | None = None) -> None:
        self.store = store
        self.ids: dict[str, str] = {}
        self.id = session_id or store.create_session(None, {}, "a-model").id

    @classmethod
    def at(cls, folder: Path) -> StoredChat:
        """A chat in a new store."""
        return cls(SessionStore(folder / "s.db"))

    def ask(self, text: str, parent: str | None = None, reply: str = "", ids: list[int] | None = None) -> str:
        """A question and its whole reply ("re: " and the text without another one); returns the reply's id."""
        _, question, row = self.store.add_question(self.id, parent, text)
        return self.end(row, reply or f"re: {question.content}", ids)

    def again(self, message_id: str, reply: str = "another") -> str:
        """Another whole reply; returns its id."""
        return self.end(self.store.add_reply(message_id)[1], reply)

    def end(self, reply: Message, text: str, ids: list[int] | None = None) -> str:
        """Finish a reply that is being written; returns its id."""
        tokens = ReplyTokens(FINGERPRINT, 1, pack(ids)) if ids else None
        run = Generation(reply.id, model="a-model", finish_reason="stop", started_at="2026-01-01T00:00:00.000Z")
        self.store.finish_reply(reply.id, text, "done", None, run, tokens)
        return reply.id

    def shown(self) -> list[str]:
        """Texts of the shown branch."""
        return [one.content for one in self.store.shown_branch(self.id)[1]]

    def count(self, table: str = "messages") -> int:
        """Rows of a table."""
        with self.store._reader.reading() as connection:
            return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]

    def sound(self) -> bool:
        """Whether every reference in the database leads somewhere."""
        with self.store._reader.reading() as connection:
            return connection.execute("PRAGMA foreign_key_check").fetchall() == []
