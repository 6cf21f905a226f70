"""The texts of files and where their passages lie: rows by the SHA-256 of the bytes, once however often a file is sent.

The rows of a file go with the last attachment that has its bytes, in the same purge.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .attachments import is_named
from .connection import Connection
from .ids import now
from .passages import Passage


@dataclass(slots=True)
class Document:
    """A file as a model reads it.

    Attributes:
        text: None if it cannot be read.
        problem: why not, in a sentence.
    """

    sha256: str
    text: str | None
    problem: str | None


class Documents:
    """The documents of one store. ``session_id`` says which store is meant where there are two.

    Args:
        writer, reader: the store's connections.
    """

    def __init__(self, writer: Connection, reader: Connection) -> None:
        self._writer = writer
        self._reader = reader

    def document(self, session_id: str, sha256: str) -> Document | None:
        """What is known of the content of a file; None where nobody has read it yet."""
        with self._reader.reading() as connection:
            row = connection.execute(
                "SELECT sha256, text, problem FROM documents WHERE sha256 = ?", [sha256]
            ).fetchone()
            return Document(*row) if row else None

    def passages(self, session_id: str, sha256: str) -> list[Passage]:
        """The passages of a document, in order."""
        query = 'SELECT start, "end" FROM passages WHERE sha256 = ? ORDER BY number'
        with self._reader.reading() as connection:
            return [Passage(*row) for row in connection.execute(query, [sha256])]

    def keep(self, session_id: str, document: Document, passages: Sequence[Passage]) -> Document:
        """Put down what came of reading a file, and its passages; what was there before stays.

        Nothing is put down of a file that is gone meanwhile.
        """
        sha256 = document.sha256
        with self._writer.transaction(durable=False) as connection:
            if is_named(connection, sha256):
                done = connection.execute(
                    "INSERT INTO documents (sha256, text, problem, made_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                    [sha256, document.text, document.problem, now()],
                )
                if done.rowcount:
                    rows = ((sha256, number, *one) for number, one in enumerate(passages, 1))
                    statement = 'INSERT INTO passages (sha256, number, start, "end") VALUES (?, ?, ?, ?)'
                    connection.executemany(statement, rows)
        return document


def remove_unused(connection: sqlite3.Connection, hashes: Iterable[str]) -> None:
    """Remove the documents of those contents that no attachment has any more, inside an open transaction."""
    for sha256 in set(hashes):
        if not is_named(connection, sha256):
            connection.execute("DELETE FROM passages WHERE sha256 = ?", [sha256])
            connection.execute("DELETE FROM documents WHERE sha256 = ?", [sha256])
