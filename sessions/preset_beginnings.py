"""How the prompts of a preset's chats began, from the ids that are stored for a model."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from .rows import unpack

_CHATS = """
SELECT id, created_at, system_prompt FROM sessions
WHERE preset_id = ? AND deleted_at IS NULL AND head_id IS NOT NULL ORDER BY created_at DESC, key DESC LIMIT ?
"""
_SYSTEM = "SELECT token_ids FROM system_tokens WHERE session_id = ? AND fingerprint = ?"
_NEXT = """
SELECT m.id, t.token_ids FROM messages m
LEFT JOIN message_tokens t ON t.message_id = m.id AND t.fingerprint = :fingerprint
WHERE m.session_id = :session AND m.parent_id IS :parent AND m.deleted_at IS NULL ORDER BY m.key LIMIT 1
"""


@dataclass(slots=True)
class Beginning:
    """The ids that a chat's prompts begin with, as far as they were asked for and are known."""

    session_id: str
    created_at: str
    token_ids: list[int]


def beginnings(
    connection: sqlite3.Connection, preset_id: str, fingerprint: str, messages: int, limit: int
) -> list[Beginning]:
    """Of the latest chats that began with a preset and were sent to a model, the newest first.

    Args:
        fingerprint: of that model.
        messages: how many messages after the system turn to read; the first branch counts.
        limit: how many chats to look at.
    """
    found = []
    for session_id, created_at, system_prompt in connection.execute(_CHATS, [preset_id, limit]).fetchall():
        ids = _beginning(connection, session_id, system_prompt is not None, fingerprint, messages)
        if ids:
            found.append(Beginning(session_id, created_at, ids))
    return found


def _beginning(
    connection: sqlite3.Connection, session_id: str, has_system: bool, fingerprint: str, messages: int
) -> list[int]:
    ids: list[int] = []
    if has_system:
        row = connection.execute(_SYSTEM, [session_id, fingerprint]).fetchone()
        if row is None:
            return []
        ids += unpack(row[0])
    parent = None
    for _ in range(messages):
        names = {"session": session_id, "parent": parent, "fingerprint": fingerprint}
        row = connection.execute(_NEXT, names).fetchone()
        if row is None or row[1] is None:
            break
        parent = row[0]
        ids += unpack(row[1])
    return ids
