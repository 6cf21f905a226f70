"""Makes the rows that a salvage brought together a sound set of trees: nothing dangles, every message has its place."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

RESCUED = "Rescued chat"
_ORPHAN = """
parent_id IS NOT NULL AND NOT EXISTS
    (SELECT 1 FROM messages p WHERE p.session_id = messages.session_id AND p.id = messages.parent_id)
"""
_HEADLESS = """
head_id IS NULL OR NOT EXISTS
    (SELECT 1 FROM messages m WHERE m.session_id = sessions.id AND m.id = sessions.head_id)
"""
_LEAF = """
SELECT id FROM messages m WHERE m.session_id = sessions.id AND hidden = 0 AND deleted_at IS NULL AND NOT EXISTS
    (SELECT 1 FROM messages c WHERE c.session_id = m.session_id AND c.parent_id = m.id
     AND c.hidden = 0 AND c.deleted_at IS NULL)
ORDER BY shown DESC, key DESC LIMIT 1
"""
_NAMED = """
SELECT parent_id AS id FROM messages UNION SELECT head_id FROM sessions
UNION SELECT message_id FROM generations UNION SELECT message_id FROM message_tokens
UNION SELECT message_id FROM attachments
"""


@dataclass
class Mended:
    """What had to be mended.

    Attributes:
        lost: ids that others name, but that are not there.
        roots: session id -> messages whose parent is lost; each begins a branch of its own now.
        rescued: ids of chats that are lost but for their messages.
        heads: ids of chats that lost their last message.
    """

    lost: int = 0
    roots: dict[str, int] = field(default_factory=dict)
    rescued: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)


def mend(connection: sqlite3.Connection) -> Mended:
    """Mend what dangles; call it inside a transaction with foreign keys off."""
    done = Mended()
    done.lost = connection.execute(
        f"SELECT count(*) FROM ({_NAMED}) WHERE id IS NOT NULL AND id NOT IN (SELECT id FROM messages)"
    ).fetchone()[0]
    done.rescued = _rescue_chats(connection)
    done.roots = dict(
        connection.execute(f"SELECT session_id, count(*) FROM messages WHERE {_ORPHAN} GROUP BY session_id").fetchall()
    )
    connection.execute(f"UPDATE messages SET parent_id = NULL WHERE {_ORPHAN}")
    # Token ids of a branch whose beginning is lost would send a prompt without its beginning.
    for session_id in done.roots:
        connection.execute(
            "DELETE FROM message_tokens WHERE message_id IN (SELECT id FROM messages WHERE session_id = ?)",
            [session_id],
        )
    headless = f"SELECT id, head_id FROM sessions WHERE {_HEADLESS}"
    done.heads = [row[0] for row in connection.execute(headless) if row[1] is not None]
    connection.execute(f"UPDATE sessions SET head_id = ({_LEAF}) WHERE {_HEADLESS}")
    _drop_dangling(connection)
    return done


def _rescue_chats(connection: sqlite3.Connection) -> list[str]:
    """A row for each chat of which only messages are left."""
    lost = connection.execute(
        "SELECT session_id, min(created_at), max(updated_at) FROM messages "
        "WHERE session_id NOT IN (SELECT id FROM sessions) GROUP BY session_id"
    ).fetchall()
    for session_id, begun, changed in lost:
        connection.execute(
            "INSERT INTO sessions (id, title, title_by, created_at, updated_at) VALUES (?, ?, 'words', ?, ?)",
            [session_id, RESCUED, begun, changed],
        )
    return [row[0] for row in lost]


def _drop_dangling(connection: sqlite3.Connection) -> None:
    for statement in (
        "DELETE FROM generations WHERE message_id NOT IN (SELECT id FROM messages)",
        "DELETE FROM message_tokens WHERE message_id NOT IN (SELECT id FROM messages)",
        "DELETE FROM system_tokens WHERE session_id NOT IN (SELECT id FROM sessions)",
        "UPDATE sessions SET folder_id = NULL WHERE folder_id NOT IN (SELECT id FROM folders)",
        "UPDATE attachments SET message_id = NULL WHERE message_id NOT IN (SELECT id FROM messages)",
        "DELETE FROM attachments WHERE session_id NOT IN (SELECT id FROM sessions)",
    ):
        connection.execute(statement)
    # What later versions add: a row that names one that is lost goes, too.
    for table, rowid, *_ in connection.execute("PRAGMA foreign_key_check").fetchall():
        if rowid is not None:
            connection.execute(f'DELETE FROM "{table}" WHERE rowid = ?', [rowid])
