"""What was typed and not sent yet, one text a chat. A draft that was sent or emptied keeps its version.

So a page that slept cannot bring an old text back: its version is an older one, however often the draft came and went.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from . import turns
from .connection import Connection
from .errors import SessionError
from .ids import now

UNBEGUN = ""
"""In place of a session's id: the chat that has not begun."""


@dataclass(slots=True)
class Draft:
    """A draft; of a chat without one, an empty text.

    Attributes:
        session_id: "" is the chat that has not begun.
        parent_id: the message that it would answer.
        edits_id: the message that it would replace.
        version: grows with each change; 0 where there never was one.
    """

    session_id: str
    text: str = ""
    parent_id: str | None = None
    edits_id: str | None = None
    version: int = 0
    updated_at: str | None = None


class Drafts:
    """The drafts of one store.

    Args:
        writer, reader: the store's connections.
    """

    def __init__(self, writer: Connection, reader: Connection) -> None:
        self._writer = writer
        self._reader = reader

    def draft(self, session_id: str) -> Draft:
        """A chat's draft."""
        with self._reader.reading() as connection:
            return _read(connection, session_id)

    def save(
        self, session_id: str, text: str, parent_id: str | None, edits_id: str | None, version: int | None
    ) -> Draft:
        """Keep what was typed; an empty text takes the draft away.

        It survives a killed process, but perhaps not a power cut.

        Args:
            version: of the draft that was changed; None overwrites whatever there is.

        Raises:
            SessionError: there is no such chat, or another page has changed the draft since.
        """
        with self._writer.transaction(durable=False) as connection:
            if session_id != UNBEGUN:
                turns.session(connection, session_id)
            old = _read(connection, session_id)
            if version is not None and version != old.version:
                raise SessionError("What you typed here was changed in another window; it was not overwritten.")
            if not text:
                parent_id = edits_id = None
            if (text, parent_id, edits_id) == (old.text, old.parent_id, old.edits_id):
                return old
            return _write(connection, Draft(session_id, text, parent_id, edits_id, old.version + 1, now()))


def sent(connection: sqlite3.Connection, session_id: str, edits_id: str | None = None) -> Draft | None:
    """Empty a draft that was sent: a question, or the new text of the message ``edits_id``; None if there was none."""
    draft = _read(connection, session_id)
    if not draft.text or draft.edits_id != edits_id:
        return None
    return _write(connection, Draft(session_id, version=draft.version + 1, updated_at=now()))


def add_text(connection: sqlite3.Connection, session_id: str, text: str, *, before: bool = False) -> Draft:
    """Put a text behind what a draft has, or ``before`` it; returns the draft as it is then."""
    draft = _read(connection, session_id)
    parts = [text, draft.text] if before else [draft.text, text]
    draft.text = "\n\n".join(part for part in parts if part)
    draft.version, draft.updated_at = draft.version + 1, now()
    return _write(connection, draft)


def _read(connection: sqlite3.Connection, session_id: str) -> Draft:
    columns = "session_id, text, parent_id, edits_id, version, updated_at"
    row = connection.execute(f"SELECT {columns} FROM drafts WHERE session_id = ?", [session_id]).fetchone()
    return Draft(*row) if row else Draft(session_id)


def _write(connection: sqlite3.Connection, draft: Draft) -> Draft:
    connection.execute(
        "INSERT OR REPLACE INTO drafts (session_id, text, parent_id, edits_id, version, updated_at) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        [draft.session_id, draft.text, draft.parent_id, draft.edits_id, draft.version, draft.updated_at],
    )
    return draft
