"""The passages that a page has to know of messages which it does not show: replies further down name them by number."""

from __future__ import annotations

import sqlite3
from typing import Any

from .quoted_before import sources_down_to
from .sent_files import read_sources

_HAS_FILES = "SELECT 1 FROM attachments WHERE session_id = ? LIMIT 1"


def passages_above(connection: sqlite3.Connection, session_id: str, message_id: str) -> list[dict[str, Any]]:
    """What the questions from the root down to ``message_id`` quote, in order: {"n", "question", "name"}."""
    if connection.execute(_HAS_FILES, [session_id]).fetchone() is None:
        return []
    return [
        {"n": passage.n, "question": question, "name": source.name}
        for question, _, sources in sources_down_to(connection, message_id)
        for source in read_sources(sources)
        for passage in source.passages
    ]
