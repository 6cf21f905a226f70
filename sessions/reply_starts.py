"""Rows of replies that begin in other ways than under a question: off another one within its text, and as a summary."""

from __future__ import annotations

import sqlite3

from . import turns
from .errors import SessionError
from .summaries import SUMMARY


def add_branch(connection: sqlite3.Connection, message_id: str, content: str) -> str:
    """Another reply beside ``message_id``, which begins as that one does; returns its id.

    Args:
        content: the part of that beginning that no model generated.

    Raises:
        SessionError: the message is no reply.
    """
    target = turns.kept_message(connection, message_id)
    if target.role != "assistant" or target.status == "streaming":
        raise SessionError("Only a reply that has ended can be gone on from within its text.")
    replaced = turns.shown_at(connection, target)
    return turns.start_reply(connection, target.session_id, target.parent_id, replaced, target.kind, content, target.id)


def add_summary(connection: sqlite3.Connection, session_id: str, message_id: str | None) -> str:
    """A summary to come of the branch that ends at ``message_id`` (None: the shown one), under it; returns its id.

    Raises:
        SessionError: there is nothing to sum up, or a reply to wait for.
    """
    last_id = message_id or turns.session(connection, session_id).head_id
    if last_id is None:
        raise SessionError("This chat is empty, so there is nothing to sum up.")
    last = turns.kept_message(connection, last_id)
    if last.session_id != session_id:
        raise SessionError("This message is not in this chat.")
    if last.status == "streaming":
        raise SessionError("A reply is being written here; wait for its end or stop it, then sum up.")
    if last.kind == SUMMARY:
        raise SessionError("Nothing follows the last summary, so there is nothing to sum up.")
    if last.role != "assistant" or last.empty:
        raise SessionError("The last message has no reply; get one or delete the message, then sum up.")
    return turns.start_reply(connection, session_id, last.id, turns.shown_at(connection, last), SUMMARY)
