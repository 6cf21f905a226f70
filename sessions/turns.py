"""Writes to the message tree. Every function runs inside an open transaction and names session and message.

Rows are only ever added or completed, never removed: an edit and a regenerated reply are siblings of what they
replace. The head moves to a reply when its row is made; a reply that ends without any text is hidden, and the head
goes back to where it was.
"""

from __future__ import annotations

import sqlite3
import time

from . import search_index, tree
from .errors import SessionError
from .ids import new_id, now
from .rows import (
    GENERATION_FIELDS,
    INTERRUPTED,
    SESSION_COLUMNS,
    Message,
    Role,
    Session,
    Status,
)
from .summaries import SUMMARY
from .titles import title_from

REFUSED = "refused"
"""Finish reason of a reply whose prompt the engine would not take."""

_NO_SESSION = "This chat does not exist any more; open another one from the list."
_SESSION_DELETED = "This chat is in the trash; restore it to go on."
_MESSAGE_DELETED = "This message is in the trash; restore it to go on from there."
_WAIT_FOR_THIS = (
    "UPDATE queued SET after_id = ?1 WHERE session_id = ?2 AND after_id IN "
    "(SELECT id FROM messages WHERE session_id = ?2 AND parent_id = ?3 AND hidden = 1)"
)
"""What waited for replies to a question that ended without any text waits for the next one."""
COPY_TOKENS = (
    "INSERT INTO message_tokens (message_id, fingerprint, header_tokens, token_ids) "
    "SELECT ?, fingerprint, header_tokens, token_ids FROM message_tokens"
)
"""What a copy of a message needs to be sent as the same ids; the copy's id, then a WHERE."""
COPY_RUNS = (
    f"INSERT INTO generations ({', '.join(GENERATION_FIELDS)}) "
    f"SELECT ?, {', '.join(GENERATION_FIELDS[1:])} FROM generations"
)
"""How a copy came to be, like its original."""


def any_session(connection: sqlite3.Connection, session_id: str) -> Session:
    """A session, deleted or not.

    Raises:
        SessionError: if there is none.
    """
    row = connection.execute(f"SELECT {SESSION_COLUMNS} FROM sessions s WHERE id = ?", [session_id]).fetchone()
    if row is None:
        raise SessionError(_NO_SESSION)
    return Session.from_row(row)


def session(connection: sqlite3.Connection, session_id: str) -> Session:
    """A session that is not deleted.

    Raises:
        SessionError: if there is none.
    """
    found = any_session(connection, session_id)
    if found.deleted_at is not None:
        raise SessionError(_SESSION_DELETED)
    return found


def message(connection: sqlite3.Connection, message_id: str) -> Message:
    """A message of a session that is not deleted.

    Raises:
        SessionError: if there is none.
    """
    found = tree.message(connection, message_id)
    if found is None:
        raise SessionError("This message does not exist; reload the page to see the chat as it is.")
    session(connection, found.session_id)
    return found


def kept_message(connection: sqlite3.Connection, message_id: str) -> Message:
    """A message that is not in the trash either.

    Raises:
        SessionError: there is none.
    """
    found = message(connection, message_id)
    if found.deleted_at is not None:
        raise SessionError(_MESSAGE_DELETED)
    return found


def add_question(connection: sqlite3.Connection, session_id: str, parent_id: str | None, text: str) -> str:
    """A user message under ``parent_id`` (None: a first message) and an empty reply under it; returns the reply's id.

    A reply without text is no parent: the message goes where that reply's question is, or, if the engine refused
    that question, takes its place beside it.

    Raises:
        SessionError: the parent is of another session or still being written.
    """
    chat = session(connection, session_id)
    if parent_id is not None:
        parent_id = _usable_parent(connection, session_id, parent_id)
    user_id = _insert(connection, session_id, parent_id, "user", text, "done")
    if chat.title is None:
        connection.execute(
            "UPDATE sessions SET title = ?, title_by = 'words' WHERE id = ?", [title_from(text), session_id]
        )
        search_index.put_title(connection, session_id)
    return start_reply(connection, session_id, user_id, None)


def add_written(connection: sqlite3.Connection, session_id: str, parent_id: str | None, role: Role, text: str) -> str:
    """A message that is there from the beginning, and that no model writes; returns its id."""
    return _insert(connection, session_id, parent_id, role, text, "done")


def question_place(connection: sqlite3.Connection, session_id: str, parent_id: str) -> str | None:
    """The parent that a question under ``parent_id`` gets, None for a first message. See ``add_question``.

    Raises:
        SessionError: the parent is of another session or still being written.
    """
    parent = tree.message(connection, parent_id)
    if parent is None or parent.session_id != session_id:
        raise SessionError("The message this one answers is not in this chat; reload the page to see it as it is.")
    if parent.deleted_at is not None:
        raise SessionError(_MESSAGE_DELETED)
    if parent.status == "streaming":
        raise SessionError("The reply above is still being written; wait for its end or stop it, then send again.")
    if not _is_empty(parent):
        return parent.id
    refused = parent.generation is not None and parent.generation.finish_reason == REFUSED
    question = tree.message(connection, parent.parent_id) if refused and parent.parent_id else None
    return question.parent_id if question else parent.parent_id


def add_replies(connection: sqlite3.Connection, message_id: str, count: int = 1) -> list[str]:
    """So many replies: beside ``message_id`` if that is a reply, under it if it is a question; returns their ids.

    The first one is shown.

    Raises:
        SessionError: there is no question to answer.
    """
    target = kept_message(connection, message_id)
    question = target.id if target.role == "user" else target.parent_id
    if question is None or target.role not in ("user", "assistant"):
        raise SessionError("There is no question above this message to reply to.")
    replaced = shown_at(connection, target)
    if _is_empty(target):
        _hide(connection, target.id)
        replaced = None
    place = (connection, target.session_id, question, replaced, target.kind)
    return [start_reply(*place), *(_insert_reply(*place) for _ in range(count - 1))]


def add_edit(connection: sqlite3.Connection, message_id: str, text: str) -> tuple[str, str | None]:
    """A sibling with another text; under an edited question also a reply to come. Returns (sibling, reply or None).

    Raises:
        SessionError: the message is still being written.
    """
    target = kept_message(connection, message_id)
    if target.status == "streaming":
        raise SessionError("This reply is still being written; stop it before editing it.")
    edited = _insert(connection, target.session_id, target.parent_id, target.role, text, "done", target.kind)
    if _is_empty(target):
        _hide(connection, target.id)
    if target.role == "user":
        return edited, start_reply(connection, target.session_id, edited, None)
    move_head(connection, target.session_id, edited)
    _touch(connection, target.session_id)
    return edited, None


def resume_reply(connection: sqlite3.Connection, message_id: str) -> str:
    """Open a reply that was cut off, or that a person wrote, to be written further; returns its id.

    If messages follow it, they stay under it as it is, and a copy beside it is continued.

    Raises:
        SessionError: the reply is a model's and complete, or it is empty or still being written.
    """
    target = kept_message(connection, message_id)
    unfinished = (
        target.status in ("stopped", "interrupted", "error")
        or target.generation is None
        or target.generation.finish_reason == "length"
    )
    if target.role != "assistant" or target.status == "streaming" or not unfinished or target.empty:
        raise SessionError("Only a reply that was cut off can be continued; regenerate it for another one.")
    if tree.has_children(connection, target):
        replaced = shown_at(connection, target)
        copy = _insert_reply(
            connection, target.session_id, target.parent_id, replaced, target.kind, target.content, target.id
        )
        connection.execute("UPDATE messages SET reasoning = ? WHERE id = ?", [target.reasoning, copy])
        for statement in (COPY_TOKENS, COPY_RUNS):
            connection.execute(f"{statement} WHERE message_id = ?", [copy, target.id])
    else:
        copy = target.id
        search_index.remove(connection, copy)
        connection.execute("UPDATE messages SET status = 'streaming', error = NULL WHERE id = ?", [copy])
    move_head(connection, target.session_id, copy)
    _touch(connection, target.session_id)
    return copy


def end_reply(connection: sqlite3.Connection, reply_id: str, status: Status, error: str | None) -> str | None:
    """Close a running reply; returns the session's new head if it moved because the reply has no text."""
    reply = tree.message(connection, reply_id)
    if reply is None or reply.status != "streaming":
        return None
    connection.execute(
        "UPDATE messages SET status = ?, error = ?, updated_at = ? WHERE id = ?", [status, error, now(), reply_id]
    )
    search_index.put(connection, reply_id)
    explains_itself = status == "error" and error is not None and reply.replaces_id is None
    if not _given_up(reply, status) and (not reply.empty or explains_itself):
        return None
    _hide(connection, reply_id)
    head_id = connection.execute("SELECT head_id FROM sessions WHERE id = ?", [reply.session_id]).fetchone()[0]
    if head_id != reply_id:
        return None
    back = reply.replaces_id or reply.parent_id
    place = tree.message(connection, back) if back is not None and tree.is_visible(connection, back) else None
    # What it replaced may have been answered meanwhile: the head is always the last message of its branch.
    back = tree.nearest(connection, reply) if place is None else tree.last_leaf(connection, place)
    if back is not None:
        move_head(connection, reply.session_id, back)
    return back


def _given_up(reply: Message, status: Status) -> bool:
    """Whether it is a new summary that did not come to its end: later turns must not go on from half of one."""
    first_run = reply.generation is None or reply.generation.run == 1
    return reply.kind == SUMMARY and status != "done" and reply.replaces_id is not None and first_run


def interrupt_running(connection: sqlite3.Connection) -> int:
    """Close every reply that a process which is gone left running; returns how many there were."""
    running = [row[0] for row in connection.execute("SELECT id FROM messages WHERE status = 'streaming'")]
    for reply_id in running:
        end_reply(connection, reply_id, "interrupted", INTERRUPTED)
    return len(running)


def move_head(connection: sqlite3.Connection, session_id: str, message_id: str | None) -> None:
    """Show the branch that ends at ``message_id``; None shows an empty chat."""
    shown = connection.execute(
        "SELECT m.shown FROM sessions s JOIN messages m ON m.id = s.head_id WHERE s.id = ?", [session_id]
    ).fetchone()
    latest = max(time.time_ns() // 1000, shown[0] + 1 if shown else 0)
    connection.execute("UPDATE sessions SET head_id = ? WHERE id = ?", [message_id, session_id])
    connection.execute("UPDATE messages SET shown = ? WHERE id = ?", [latest, message_id])


def forget_system_tokens(connection: sqlite3.Connection, session_id: str) -> None:
    """Drop the ids that hold a system turn: its own, and those of messages that begin a prompt, at the root or behind a
    summary (a template's default is in them)."""
    connection.execute("DELETE FROM system_tokens WHERE session_id = ?", [session_id])
    connection.execute(
        "DELETE FROM message_tokens WHERE message_id IN "
        "(SELECT id FROM messages WHERE session_id = ?1 AND parent_id IS NULL UNION ALL "
        "SELECT m.id FROM messages s JOIN messages m ON m.session_id = ?1 AND m.parent_id = s.id "
        "WHERE s.session_id = ?1 AND s.kind = 'summary')",
        [session_id],
    )


def start_reply(
    connection: sqlite3.Connection,
    session_id: str,
    parent_id: str | None,
    replaced: str | None,
    kind: str | None = None,
    content: str = "",
    copied_from: str | None = None,
) -> str:
    """The row of a reply that is about to be written, which is shown from now on; returns its id.

    Args:
        replaced: the leaf to go back to if it ends without any text.
        content: what it begins with.
        copied_from: the message that this is from.
    """
    reply_id = _insert_reply(connection, session_id, parent_id, replaced, kind, content, copied_from)
    connection.execute(_WAIT_FOR_THIS, [reply_id, session_id, parent_id])
    move_head(connection, session_id, reply_id)
    _touch(connection, session_id)
    return reply_id


def _insert_reply(
    connection: sqlite3.Connection,
    session_id: str,
    parent_id: str | None,
    replaced: str | None,
    kind: str | None = None,
    content: str = "",
    copied_from: str | None = None,
) -> str:
    reply_id = _insert(connection, session_id, parent_id, "assistant", content, "streaming", kind)
    links = "UPDATE messages SET replaces_id = ?, copied_from = ? WHERE id = ?"
    connection.execute(links, [replaced, copied_from, reply_id])
    return reply_id


def _insert(
    connection: sqlite3.Connection,
    session_id: str,
    parent_id: str | None,
    role: Role,
    content: str,
    status: Status,
    kind: str | None = None,
) -> str:
    message_id, time_now = new_id(), now()
    connection.execute(
        "INSERT INTO messages (id, session_id, parent_id, role, content, status, created_at, updated_at, kind) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [message_id, session_id, parent_id, role, content, status, time_now, time_now, kind],
    )
    if status != "streaming":
        search_index.put(connection, message_id)
    return message_id


def _usable_parent(connection: sqlite3.Connection, session_id: str, parent_id: str) -> str | None:
    place = question_place(connection, session_id, parent_id)
    if place != parent_id:
        _hide(connection, parent_id)
    return place


def shown_at(connection: sqlite3.Connection, target: Message) -> str | None:
    """The leaf that shows ``target``'s branch now, to return to; None if nothing lies there yet."""
    head_id = connection.execute("SELECT head_id FROM sessions WHERE id = ?", [target.session_id]).fetchone()[0]
    on_path = head_id is not None and tree.is_on_path(connection, target.id, head_id)
    leaf = head_id if on_path else tree.last_leaf(connection, target)
    return None if leaf == target.id and target.role == "user" else leaf


def _is_empty(reply: Message) -> bool:
    return reply.role == "assistant" and reply.empty and reply.status != "streaming"


def _hide(connection: sqlite3.Connection, message_id: str) -> None:
    connection.execute("UPDATE messages SET hidden = 1 WHERE id = ?", [message_id])


def _touch(connection: sqlite3.Connection, session_id: str) -> None:
    connection.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", [now(), session_id])
