"""Copies of a chat's messages in a new chat, so that its prompts begin with the same ids and find them cached.

::

    q1 ── r1 ── q2 ── r2 ── q3            fork at r2    branch     q1 r1 q2 r2
     │     └─── q2' ── r2'                              siblings   q1 r1 r1' q2 q2' r2
     └── r1'                                            tree       all eight

What is in the trash, and replies without text, stay behind. A reply that is being written is copied as far as it is
stored, and counts as interrupted there.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection
from itertools import count
from typing import Any, Literal, get_args

from . import search_index, tree, turns
from .attachments import COPY_FILE
from .errors import SessionError
from .ids import new_id, now
from .rows import Message, Session

ForkMode = Literal["branch", "siblings", "tree"]
"""What a fork takes along: the messages down to the one it is made at; also the other versions of each of these,
without what was written below them; or the whole tree."""

RUNNING = "This reply was still being written when the chat was forked."

_VISIBLE = "hidden = 0 AND deleted_at IS NULL AND NOT (status = 'streaming' AND content = '' AND reasoning IS NULL)"
_COPY_MESSAGE = """
INSERT INTO messages (id, session_id, parent_id, role, status, error, shown, created_at, updated_at, copied_from,
                      kind, sent_before, sent_after, sources, reasoning, content)
SELECT :new, :session, :parent, role, iif(status = 'streaming', 'interrupted', status),
       iif(status = 'streaming', :running, error), shown, created_at, updated_at, id,
       kind, sent_before, sent_after, sources, reasoning, content
FROM messages WHERE id = :old
"""
_COPY_SESSION = """
INSERT INTO sessions (id, title, title_by, system_prompt, preset_id, model, params, created_at, updated_at,
                      forked_from, folder_id, begun_at)
SELECT :new, :title, title_by, system_prompt, preset_id, model, params, :now, :now, :message, folder_id,
       coalesce(begun_at, created_at)
FROM sessions WHERE id = :old
"""
_FORK = re.compile(r"^Fork(?: \d+)?: | \(fork(?: \d+)?\)$")


def fork(connection: sqlite3.Connection, message_id: str, mode: ForkMode) -> str:
    """A new chat with copies of messages, which shows the copy of ``message_id`` (the whole tree: the leaf below it
    that was used last); returns its id.

    System prompt, settings, preset, folder, model and the date in the prompt are the old chat's, as are all times of
    the messages; pins and drafts stay behind.

    Raises:
        SessionError: there is no such message, nothing of it can be seen, or the mode is none.
    """
    if mode not in get_args(ForkMode):
        raise SessionError(f"{mode}: no such way to fork; there are {', '.join(get_args(ForkMode))}.")
    target = turns.kept_message(connection, message_id)
    if target.hidden:
        raise SessionError("This reply ended without any text, so a fork cannot begin there.")
    source = turns.session(connection, target.session_id)
    session_id = _copy_session(connection, source, message_id)
    copies = _copy_messages(connection, _selected(connection, target, mode), session_id)
    _copy_files(connection, target.session_id, session_id, copies)
    connection.execute(
        "INSERT INTO system_tokens (session_id, fingerprint, token_ids) "
        "SELECT ?, fingerprint, token_ids FROM system_tokens WHERE session_id = ?",
        [session_id, source.id],
    )
    shown = copies.get(target.id) or copies.get(target.parent_id or "")  # a reply without any text yet was not copied
    if shown is not None:
        turns.move_head(connection, session_id, tree.last_leaf(connection, turns.message(connection, shown)))
    search_index.add_sessions(connection, [session_id])
    return session_id


def forked_title(title: str | None, taken: Collection[str] = ()) -> str | None:
    """The name of a fork of a chat with this name, none of ``taken``: what tells it apart comes first."""
    if title is None:
        return None
    plain = _FORK.sub("", title)
    names = (f"Fork {number}: {plain}" if number > 1 else f"Fork: {plain}" for number in count(1))
    return next(one for one in names if one not in taken)


def _copy_session(connection: sqlite3.Connection, source: Session, message_id: str) -> str:
    new = new_id()
    taken = {row[0] for row in connection.execute("SELECT title FROM sessions WHERE title GLOB 'Fork*'")}
    title = forked_title(source.title, taken)
    place = {"new": new, "old": source.id, "now": now(), "message": message_id, "title": title}
    connection.execute(_COPY_SESSION, place)
    return new


def _selected(connection: sqlite3.Connection, target: Message, mode: ForkMode) -> list[tuple[str, str | None]]:
    """(id, parent id) of the messages to copy, in the order they were made."""
    rows = connection.execute(
        f"SELECT id, parent_id FROM messages WHERE session_id = ? AND {_VISIBLE} ORDER BY key", [target.session_id]
    ).fetchall()
    if mode == "tree":
        return _connected([(row[0], row[1]) for row in rows])
    path = tree.path_ids(connection, target.id)
    parents = {None, *path[:-1]}
    wanted = set(path)
    return [(row[0], row[1]) for row in rows if row[0] in wanted or (mode == "siblings" and row[1] in parents)]


def _connected(rows: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    """The rows whose messages above are all among them."""
    while True:
        there = {None, *(one for one, _ in rows)}
        kept = [row for row in rows if row[1] in there]
        if len(kept) == len(rows):
            return kept
        rows = kept


def _copy_messages(
    connection: sqlite3.Connection, selected: list[tuple[str, str | None]], session_id: str
) -> dict[str, str]:
    """Copy messages with their token ids and runs; returns the copies' ids by the originals'."""
    copies = {old: new_id() for old, _ in selected}
    connection.execute("PRAGMA defer_foreign_keys = ON")  # an imported tree may hold a reply before its question
    rows: list[dict[str, Any]] = [
        {
            "new": copies[old],
            "old": old,
            "session": session_id,
            "parent": copies[parent] if parent else None,
            "running": RUNNING,
        }
        for old, parent in selected
    ]
    connection.executemany(_COPY_MESSAGE, rows)
    pairs = [(copies[old], old) for old, _ in selected]
    for statement in (turns.COPY_TOKENS, turns.COPY_RUNS):
        connection.executemany(f"{statement} WHERE message_id = ?", pairs)
    return copies


def _copy_files(connection: sqlite3.Connection, old: str, new: str, copies: dict[str, str]) -> None:
    rows = connection.execute(
        "SELECT id, message_id FROM attachments WHERE session_id = ? AND message_id IS NOT NULL AND deleted_at IS NULL "
        "ORDER BY key",
        [old],
    ).fetchall()
    connection.executemany(
        COPY_FILE,
        [
            {"new": new_id(), "old": row[0], "session": new, "message": copies[row[1]]}
            for row in rows
            if row[1] in copies
        ],
    )
