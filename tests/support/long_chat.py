"""A chat of very many messages, made quickly."""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from pagedchat.sessions.ids import new_id
from pagedchat.sessions.schema import open_database

WHEN = "2026-01-02T03:04:05.678Z"
REPLY = "A paragraph with **some** words and `code`.\n\n- one point\n- and another\n\n```python\nx = {0}\n```\n"


def add_long_chat(path: Path, messages: int, title: str = "Very long", seed: int = 0) -> str:
    """Id of a chat with so many messages in one branch."""
    draw = random.Random(seed)
    session_id, parent = new_id(), None
    with closing(open_database(path, busy_timeout_s=5.0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO sessions (id, title, title_by, created_at, updated_at) VALUES (?, ?, 'words', ?, ?)",
            [session_id, title, WHEN, WHEN],
        )
        for turn in range(messages):
            parent = _add(connection, session_id, parent, turn, draw)
        connection.execute("UPDATE sessions SET head_id = ? WHERE id = ?", [parent, session_id])
        connection.execute("COMMIT")
    return session_id


def _add(connection: sqlite3.Connection, session_id: str, parent: str | None, turn: int, draw: random.Random) -> str:
    message_id, role = new_id(), ("user", "assistant")[turn % 2]
    words = "word " * draw.randrange(5, 60)
    text = f"Question {turn}: {words}" if role == "user" else f"Reply {turn}. {words}\n\n{REPLY.format(turn)}"
    connection.execute(
        "INSERT INTO messages (id, session_id, parent_id, role, status, content, created_at, updated_at, shown) "
        "VALUES (?, ?, ?, ?, 'done', ?, ?, ?, ?)",
        [message_id, session_id, parent, role, text, WHEN, WHEN, time.time_ns() // 1000],
    )
    return message_id
