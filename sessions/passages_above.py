"""The passages that a page has to know of messages which it does not show: replies further down name them by number."""

from __future__ import annotations

import sqlite3
from typing import Any

from . import tree
from .sent_files import read_sources

_HAS_FILES = "SELECT 1 FROM attachments WHERE session_id = ? LIMIT 1"
_SOURCES = "SELECT id, sources FROM messages WHERE session_id = ? AND sources IS NOT NULL"


def passages_above(connection: sqlite3.Connection, session_id: str, message_id: str) -> list[dict[str, Any]]:
    """What the questions from the root down to ``message_id`` quote, in order: {"n", "question", "name"}."""
    if connection.execute(_HAS_FILES, [session_id]).fetchone() is None:
        return []
    sources = dict(connection.execute(_SOURCES, [session_id]).fetchall())
    if not sources:
        return []
    return [
        {"n": passage.n, "question": question, "name": source.name}
        for question in tree.path_ids(connection, message_id)
        if question in sources
        for source in read_sources(sources[question])
        for passage in source.passages
    ]
