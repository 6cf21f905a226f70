"""What is stored about one message beside its text: the runs that made it, and its token ids."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from . import turns
from .rows import GENERATION_COLUMNS, Generation, Message, unpack

_RUNS = f"SELECT {GENERATION_COLUMNS} FROM generations g WHERE message_id = ? ORDER BY run"
_IDS = "SELECT header_tokens, token_ids FROM message_tokens WHERE message_id = ? AND fingerprint = ?"


@dataclass
class StoredFacts:
    """A message, its runs, oldest first, and its ids for one model; None if it was never sent to that one."""

    message: Message
    runs: list[Generation]
    token_ids: list[int] | None


def read_facts(connection: sqlite3.Connection, message_id: str, fingerprint: str) -> StoredFacts:
    """All that is stored about a message.

    Raises:
        SessionError: there is none.
    """
    found = turns.message(connection, message_id)
    ids = ids_of(connection, message_id, fingerprint)[1]
    return StoredFacts(found, runs_of(connection, message_id), ids or None)


def runs_of(connection: sqlite3.Connection, message_id: str) -> list[Generation]:
    """All runs that made a message, oldest first."""
    return [Generation.from_row(row) for row in connection.execute(_RUNS, [message_id])]


def ids_of(connection: sqlite3.Connection, message_id: str, fingerprint: str) -> tuple[int, list[int]]:
    """How many ids are a reply's header, and all ids that a message has for one model; 0 and none if it has none."""
    row = connection.execute(_IDS, [message_id, fingerprint]).fetchone()
    return (row[0], unpack(row[1])) if row else (0, [])
