"""Databases full of chats, made quickly, and ways to damage them."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from pagedchat.sessions.ids import new_id
from pagedchat.sessions.pages import PAGE_SIZE
from pagedchat.sessions.schema import open_database

WHEN = "2026-01-02T03:04:05.678Z"


def add_chats(path: Path, chats: int, messages: int, seed: int = 0) -> None:
    """Chats of ``messages`` messages each, with a branch at every fifth; some texts fill several pages."""
    draw = random.Random(seed)
    with closing(open_database(path, busy_timeout_s=5.0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for number in range(chats):
            session_id = new_id()
            connection.execute(
                "INSERT INTO sessions (id, title, title_by, created_at, updated_at) VALUES (?, ?, 'words', ?, ?)",
                [session_id, f"Chat {number}", WHEN, WHEN],
            )
            parent = None
            for turn in range(messages):
                shown = _add_message(connection, session_id, parent, turn, draw)
                if turn % 5 == 4:
                    _add_message(connection, session_id, parent, turn, draw)
                parent = shown
            connection.execute("UPDATE sessions SET head_id = ? WHERE id = ?", [parent, session_id])
        connection.execute("COMMIT")


def _add_message(
    connection: sqlite3.Connection, session_id: str, parent: str | None, turn: int, draw: random.Random
) -> str:
    message_id, role = new_id(), ("user", "assistant")[turn % 2]
    text = f"{message_id} žluť 模型 " + "word " * (draw.randrange(2000) if draw.random() < 0.1 else draw.randrange(60))
    connection.execute(
        "INSERT INTO messages (id, session_id, parent_id, role, status, content, created_at, updated_at, shown) "
        "VALUES (?, ?, ?, ?, 'done', ?, ?, ?, ?)",
        [message_id, session_id, parent, role, text, WHEN, WHEN, time.time_ns() // 1000],
    )
    if role == "assistant":
        connection.execute(
            "INSERT INTO generations (message_id, run, model, params, started_at) VALUES (?, 1, 'm', '{}', ?)",
            [message_id, WHEN],
        )
        connection.execute("INSERT INTO message_tokens VALUES (?, 'f', 0, ?)", [message_id, os.urandom(80)])
    return message_id


def texts(path: Path) -> dict[str, tuple[str, str, str]]:
    """Message id -> (chat, role, text) of a database that nobody writes."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT id, session_id, role, content FROM messages").fetchall()
    return {row[0]: tuple(row[1:]) for row in rows}


def pages_of(path: Path, table: str) -> list[int]:
    """Numbers of the pages that a table or an index lies on, its root first; needs SQLite's dbstat."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT pageno FROM dbstat WHERE name = ? ORDER BY path", [table]).fetchall()
    return [row[0] for row in rows]


def overwrite(path: Path, pages: list[int], content: bytes | None = None) -> None:
    """Overwrite whole pages, with noise by default."""
    with path.open("r+b") as file:
        for number in pages:
            file.seek((number - 1) * PAGE_SIZE)
            file.write(content or random.Random(number).randbytes(PAGE_SIZE))


def copied(source: Path, target: Path) -> Path:
    """``target``, a copy of a database that nobody has open."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return target
