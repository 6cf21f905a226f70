"""How chats are used, in numbers: lengths, turns, pauses, and how many ran at once. Reads no text but its lengths."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from .errors import StoreError, explained
from .schema import check_versions, connect
from .versions import MIGRATION_NAMES

BYTES_PER_TOKEN = 4
"""What a token of English is about, for messages that were never sent to a model."""
ONE_SITTING_S = 1800.0
"""A longer pause is not a pause in a chat but a return to it."""

_MESSAGES = """
SELECT m.session_id, m.role, m.created_at, length(CAST(m.content AS BLOB)) AS size,
       (SELECT length(t.token_ids) / 4 FROM message_tokens t WHERE t.message_id = m.id LIMIT 1) AS tokens
FROM messages m JOIN sessions s ON s.id = m.session_id
WHERE s.deleted_at IS NULL AND m.deleted_at IS NULL AND m.hidden = 0 AND m.role IN ('user', 'assistant')
  AND m.copied_from IS NULL
ORDER BY m.session_id, m.created_at, m.key
"""
_RUNS = """
SELECT g.message_id, m.session_id, g.started_at, g.finished_at, g.prompt_tokens, g.cached_tokens, g.completion_tokens
FROM generations g JOIN messages m ON m.id = g.message_id JOIN sessions s ON s.id = m.session_id
WHERE s.deleted_at IS NULL AND m.deleted_at IS NULL AND g.completion_tokens IS NOT NULL
  AND NOT EXISTS (  -- a copy's run is its original's
    SELECT 1 FROM generations o
    WHERE o.message_id = m.copied_from AND o.run = g.run AND o.started_at = g.started_at
  )
ORDER BY g.started_at
"""
_SYSTEM = """
SELECT length(t.token_ids) / 4 FROM system_tokens t JOIN sessions s ON s.id = t.session_id WHERE s.deleted_at IS NULL
"""


@dataclass
class Usage:
    """What was found. Lengths are tokens; a value for each question, reply, chat or pause.

    Attributes:
        turns: questions of each chat.
        gap_s: seconds from a reply's end to the next question, half an hour at most.
        at_once: replies that ran in the same moment, at most.
        prompt_tokens, cached_tokens: of all replies, as the engine counted them.
    """

    chats: int = 0
    question_tokens: list[int] = field(default_factory=list)
    reply_tokens: list[int] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    gap_s: list[float] = field(default_factory=list)
    system_tokens: list[int] = field(default_factory=list)
    at_once: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0


def read_usage(path: Path) -> Usage:
    """The usage of all chats that are not deleted. Changes nothing; a server may be writing.

    Raises:
        StoreError: there is no such file, or it cannot be read.
    """
    usage = Usage()
    with _reading(path) as database:
        messages = database.execute(_MESSAGES).fetchall()
        runs = database.execute(_RUNS).fetchall()
        usage.system_tokens = [row[0] for row in database.execute(_SYSTEM)]
    ended = _add_runs(usage, runs)
    for rows in _by_session(messages):
        questions = [row for row in rows if row["role"] == "user"]
        if not questions:
            continue
        usage.chats += 1
        usage.turns.append(len(questions))
        usage.question_tokens += [row["tokens"] or max(1, row["size"] // BYTES_PER_TOKEN) for row in questions]
        usage.gap_s += _gaps(questions, ended.get(rows[0]["session_id"], []))
    return usage


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise StoreError(f"There are no chats yet: {path} does not exist.", "unreachable")
    with explained(path), closing(connect(path, busy_timeout_s=5.0, read_only=True)) as connection:
        connection.execute("BEGIN")
        applied = check_versions(connection, path)
        if not applied:
            raise StoreError(f"There are no chats yet: {path} is empty.", "unreachable")
        if len(applied) < len(MIGRATION_NAMES):
            raise StoreError(f"{path} was written by an older pagedchat; start pagedchat once, which brings it up.")
        yield connection


def _add_runs(usage: Usage, runs: Sequence[sqlite3.Row]) -> dict[str, list[float]]:
    """Take in the replies; when they ended, by session."""
    ended: dict[str, list[float]] = {}
    changes: list[tuple[float, int]] = []
    for row in runs:
        usage.reply_tokens.append(row["completion_tokens"])
        usage.prompt_tokens += row["prompt_tokens"] or 0
        usage.cached_tokens += row["cached_tokens"] or 0
        if row["started_at"] and row["finished_at"]:
            begin, end = _seconds(row["started_at"]), _seconds(row["finished_at"])
            changes += [(begin, 1), (end, -1)]
            ended.setdefault(row["session_id"], []).append(end)
    running = 0
    for _, change in sorted(changes):  # an end comes before a beginning in the same moment
        running += change
        usage.at_once = max(usage.at_once, running)
    return ended


def _gaps(questions: Sequence[sqlite3.Row], ended: Sequence[float]) -> list[float]:
    gaps = []
    for row in questions:
        asked = _seconds(row["created_at"])
        before = [end for end in ended if end <= asked]
        if before and asked - max(before) <= ONE_SITTING_S:
            gaps.append(asked - max(before))
    return gaps


def _by_session(rows: Sequence[sqlite3.Row]) -> Iterator[list[sqlite3.Row]]:
    group: list[sqlite3.Row] = []
    for row in rows:
        if group and row["session_id"] != group[0]["session_id"]:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
