"""How chats are used, in numbers: lengths, turns, pauses, and how many ran at once. Reads no text but its lengths."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from .reading import reading

BYTES_PER_TOKEN = 4
"""What a token of English is about, for messages that were never sent to a model."""
ONE_SITTING_S = 1800.0
"""A longer pause is not a pause in a chat but a return to it."""

_TOKENS = "(SELECT length(t.token_ids) / 4 FROM message_tokens t WHERE t.message_id = {name}.id LIMIT 1)"
_SIZE = "length(CAST({name}.content AS BLOB))"
_EARLIER = (
    "EXISTS (SELECT 1 FROM messages e WHERE e.session_id = m.session_id AND e.parent_id IS m.parent_id "
    "AND e.role = m.role AND e.key < m.key{more})"
)
_MESSAGES = f"""
SELECT m.session_id, m.role, m.created_at, {_SIZE.format(name="m")} AS size, {_TOKENS.format(name="m")} AS tokens,
       {_EARLIER.format(more="")} AS again
FROM messages m JOIN sessions s ON s.id = m.session_id
WHERE s.deleted_at IS NULL AND m.hidden = 0 AND m.role IN ('user', 'assistant') AND m.copied_from IS NULL
ORDER BY m.session_id, m.created_at, m.key
"""
_RUNS = f"""
SELECT g.message_id, m.session_id, g.run, g.started_at, g.finished_at, g.prompt_tokens, g.cached_tokens,
       g.completion_tokens, {_TOKENS.format(name="q")} AS question_tokens, {_SIZE.format(name="q")} AS question_size,
       {_EARLIER.format(more=" AND EXISTS (SELECT 1 FROM generations r WHERE r.message_id = e.id)")} AS again
FROM generations g JOIN messages m ON m.id = g.message_id JOIN sessions s ON s.id = m.session_id
LEFT JOIN messages q ON q.id = m.parent_id
WHERE s.deleted_at IS NULL AND g.completion_tokens IS NOT NULL
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
        history_tokens: what stood before each question in its prompt, the system turn too.
        turns: questions of each chat.
        gap_s: seconds from a reply's end to the next question, half an hour at most.
        at_once: replies that ran in the same moment, at most.
        prompt_tokens, cached_tokens: of all replies, as the engine counted them.
        regenerated: replies that were made in place of another one.
        branched: questions that were asked beside another one, in other words or from an earlier place.
    """

    chats: int = 0
    question_tokens: list[int] = field(default_factory=list)
    history_tokens: list[int] = field(default_factory=list)
    reply_tokens: list[int] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    gap_s: list[float] = field(default_factory=list)
    system_tokens: list[int] = field(default_factory=list)
    at_once: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    regenerated: int = 0
    branched: int = 0


def read_usage(path: Path) -> Usage:
    """The usage of all chats that are not deleted; branches that were deleted have been used too. Changes nothing; a
    server may be writing.

    Raises:
        StoreError: there is no such file, or it cannot be read.
    """
    usage = Usage()
    with reading(path) as database:
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
        usage.question_tokens += [_length(row["tokens"], row["size"]) for row in questions]
        usage.branched += sum(row["again"] for row in questions)
        usage.gap_s += _gaps(questions, ended.get(rows[0]["session_id"], []))
    return usage


def _add_runs(usage: Usage, runs: Sequence[sqlite3.Row]) -> dict[str, list[float]]:
    """Take in the replies; when they ended, by session."""
    ended: dict[str, list[float]] = {}
    changes: list[tuple[float, int]] = []
    for row in runs:
        usage.reply_tokens.append(row["completion_tokens"])
        usage.prompt_tokens += row["prompt_tokens"] or 0
        usage.cached_tokens += row["cached_tokens"] or 0
        if row["run"] == 1:
            usage.regenerated += row["again"]
            if row["prompt_tokens"] and row["question_size"] is not None:
                question = _length(row["question_tokens"], row["question_size"])
                usage.history_tokens.append(max(0, row["prompt_tokens"] - question))
        if row["started_at"] and row["finished_at"]:
            begin, end = _seconds(row["started_at"]), _seconds(row["finished_at"])
            changes += [(begin, 1), (end, -1)]
            ended.setdefault(row["session_id"], []).append(end)
    running = 0
    for _, change in sorted(changes):  # an end comes before a beginning in the same moment
        running += change
        usage.at_once = max(usage.at_once, running)
    return ended


def _length(tokens: int | None, size: int) -> int:
    return tokens or max(1, size // BYTES_PER_TOKEN)


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
