"""What a running reply has brought so far, written to its rows: text, how it came to be, and token ids."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict

from .ids import now
from .rows import GENERATION_FIELDS, Generation, ReplyTokens

_BEGINS_PROMPTS = (
    "SELECT parent_id IS NULL OR EXISTS (SELECT 1 FROM messages s WHERE s.session_id = m.session_id "
    "AND s.id = m.parent_id AND s.kind = 'summary') FROM messages m WHERE id = ?"
)
"""Whether a message's ids may hold a system turn."""
_UPSERT_GENERATION = (
    f"INSERT OR REPLACE INTO generations ({', '.join(GENERATION_FIELDS)}) "
    f"VALUES ({', '.join(':' + name for name in GENERATION_FIELDS)})"
)


def write_reply(
    connection: sqlite3.Connection,
    reply_id: str,
    content: str,
    generation: Generation | None,
    tokens: ReplyTokens | None,
    reasoning: str | None,
) -> None:
    """What a running reply has brought so far; replaces what was stored of it."""
    connection.execute(
        "UPDATE messages SET content = ?, reasoning = ?, updated_at = ? WHERE id = ? AND status = 'streaming'",
        [content, reasoning, now(), reply_id],
    )
    if generation is not None:
        connection.execute(_UPSERT_GENERATION, {**asdict(generation), "params": json.dumps(generation.params)})
    if tokens is not None:
        _write_tokens(connection, reply_id, tokens)


def _write_tokens(connection: sqlite3.Connection, reply_id: str, tokens: ReplyTokens) -> None:
    put = (
        "INSERT INTO message_tokens (message_id, fingerprint, header_tokens, token_ids) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET token_ids = excluded.token_ids, "
        "header_tokens = max(header_tokens, excluded.header_tokens)"
    )
    # What this run wrote is in no other model's ids.
    connection.execute(
        "DELETE FROM message_tokens WHERE message_id = ? AND fingerprint != ?", [reply_id, tokens.fingerprint]
    )
    if tokens.token_ids:
        connection.execute(put, [reply_id, tokens.fingerprint, tokens.header_tokens, tokens.token_ids])
    else:
        connection.execute(
            "DELETE FROM message_tokens WHERE message_id = ? AND fingerprint = ?", [reply_id, tokens.fingerprint]
        )
    if not tokens.segments and tokens.system_ids is None:
        return
    session_id, system_prompt = connection.execute(
        "SELECT s.id, s.system_prompt FROM messages m JOIN sessions s ON s.id = m.session_id WHERE m.id = ?", [reply_id]
    ).fetchone()
    same_system = system_prompt == tokens.system_prompt
    for message_id, token_ids in tokens.segments.items():
        if same_system or not connection.execute(_BEGINS_PROMPTS, [message_id]).fetchone()[0]:
            connection.execute(put, [message_id, tokens.fingerprint, 0, token_ids])
    if same_system and tokens.system_ids is not None:
        connection.execute(
            "INSERT OR REPLACE INTO system_tokens (session_id, fingerprint, token_ids) VALUES (?, ?, ?)",
            [session_id, tokens.fingerprint, tokens.system_ids],
        )
