"""Messages that wait for the end of a reply, in their order.

::

    q1 ── r1 (being written)                    waiting for r1: "and then?", "shorter"
    q1 ── r1 ── "and then?" ── r2 (being written)               for r2: "shorter"

A message belongs to the reply it was written under, whatever branch is shown. One transaction takes it out of the queue
and makes it a message, so that it is never lost and never sent twice. What waits for a reply that is not being written
is held: nothing sends it but its reader.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from . import attachments, drafts, tree, turns
from .connection import Connection
from .drafts import Draft
from .errors import SessionError
from .ids import new_id, now
from .rows import MessageFile, Status

MOST = 20
"""Messages that may wait in one chat."""

_ROWS = """
SELECT q.id, q.session_id, q.after_id, q.text, q.files, q.created_at, m.status, m.hidden, m.parent_id,
       (SELECT finish_reason FROM generations g WHERE g.message_id = m.id ORDER BY run DESC LIMIT 1)
FROM queued q JOIN messages m ON m.id = q.after_id
WHERE q.session_id = ? ORDER BY m.key, q.place, q.key
"""


@dataclass(slots=True)
class Queued:
    """A message that waits.

    Attributes:
        after_id: the reply it waits for.
        under_id: the message to show it under: the reply, or its question where it ended without any text.
        files: ids of attachments.
        shown_files: those of them that are there.
        status: of the reply.
        finish_reason: of the reply's last run; None while there is none.
        hidden: whether the reply ended without any text.
    """

    id: str
    session_id: str
    after_id: str
    under_id: str
    text: str
    files: list[str]
    created_at: str
    status: Status
    finish_reason: str | None
    hidden: bool
    shown_files: list[MessageFile] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        """Whether the reply has come to a good end."""
        return self.status == "done" and not self.hidden and self.finish_reason != "length"


class Queue:
    """What waits in the chats of one store.

    Args:
        writer, reader: the store's connections.
    """

    def __init__(self, writer: Connection, reader: Connection) -> None:
        self._writer = writer
        self._reader = reader

    def sessions(self) -> list[str]:
        """Ids of the chats in which something waits."""
        with self._reader.reading() as connection:
            return [row[0] for row in connection.execute("SELECT DISTINCT session_id FROM queued")]

    def of_session(self, session_id: str) -> list[Queued]:
        """What waits in a chat, in the order in which it would be sent."""
        with self._reader.reading() as connection:
            return _of_session(connection, session_id)

    def find(self, session_id: str, queued_id: str) -> Queued:
        """A message that waits.

        Raises:
            SessionError: it does not wait any more.
        """
        with self._reader.reading() as connection:
            return find(connection, session_id, queued_id)

    def is_above(self, message_id: str, leaf_id: str) -> bool:
        """Whether a message is another one or above it."""
        with self._reader.reading() as connection:
            return tree.is_on_path(connection, message_id, leaf_id)

    def add(
        self,
        session_id: str,
        after_id: str,
        text: str,
        files: Sequence[str] = (),
        place: int | None = None,
        typed: bool = False,
    ) -> Queued:
        """Let a message wait for a reply; where others have followed that meanwhile, for the last of them.

        Args:
            place: its turn among those that wait for that reply, from 0; None is the last.
            typed: it was the chat's draft, which is emptied in the same step.

        Raises:
            SessionError: there is no such reply in this chat, too much waits in it, or a file goes elsewhere.
        """
        with self._writer.transaction(durable=True) as connection:
            after_id = _reply(connection, session_id, after_id)
            if len(_of_session(connection, session_id)) >= MOST:
                raise SessionError(f"{MOST} messages are waiting in this chat already; let some of them be sent first.")
            claimed = attachments.claim(connection, session_id, files)
            queued_id = _insert(connection, session_id, after_id, text, claimed)
            if typed:
                drafts.sent(connection, session_id)
            if place is not None:
                others = [one for one in _ids_after(connection, after_id) if one != queued_id]
                _number(connection, [*others[:place], queued_id, *others[place:]])
            return find(connection, session_id, queued_id)

    def remove(self, session_id: str, queued_id: str) -> Queued:
        """Take a message out of the queue with its files; returns it as it was.

        Raises:
            SessionError: it does not wait any more.
        """
        with self._writer.transaction(durable=True) as connection:
            removed = take(connection, session_id, queued_id)
            attachments.set_removed(connection, session_id, removed.files, True)
            return removed

    def take_back(self, session_id: str, queued_id: str) -> tuple[Queued, Draft]:
        """Make a message that waits the beginning of the chat's draft: (the message as it was, the draft).

        Raises:
            SessionError: it does not wait any more.
        """
        with self._writer.transaction(durable=True) as connection:
            found = take(connection, session_id, queued_id)
            return found, drafts.add_text(connection, session_id, found.text, before=True)

    def order(self, session_id: str, ids: Sequence[str]) -> None:
        """Give messages their turns; those that are not named come after these.

        Raises:
            SessionError: there is no such chat.
        """
        with self._writer.transaction(durable=True) as connection:
            turns.session(connection, session_id)
            there = [one.id for one in _of_session(connection, session_id)]
            wanted = [one for one in dict.fromkeys(ids) if one in there]
            _number(connection, [*wanted, *(one for one in there if one not in wanted)])

    def bring(self, session_id: str, queued_id: str, after_id: str) -> Queued:
        """Let a message wait for another reply, after those that do. See ``add``.

        Raises:
            SessionError: it does not wait any more, or there is no such reply in this chat.
        """
        with self._writer.transaction(durable=True) as connection:
            find(connection, session_id, queued_id)
            after_id = _reply(connection, session_id, after_id)
            place = _next_place(connection, after_id)
            change = "UPDATE queued SET after_id = ?, place = ? WHERE id = ?"
            connection.execute(change, [after_id, place, queued_id])
            return find(connection, session_id, queued_id)


def find(connection: sqlite3.Connection, session_id: str, queued_id: str) -> Queued:
    """A message that waits.

    Raises:
        SessionError: it does not wait any more.
    """
    turns.session(connection, session_id)
    for one in _of_session(connection, session_id):
        if one.id == queued_id:
            return one
    raise SessionError("This message does not wait any more: it was sent, changed or removed meanwhile.")


def take(connection: sqlite3.Connection, session_id: str, queued_id: str, after_id: str | None = None) -> Queued:
    """Take a message out of the queue. See ``Queue.remove``.

    Args:
        after_id: the reply that it was to wait for when somebody looked; None is any.

    Raises:
        SessionError: it does not wait any more, or for another reply.
    """
    found = find(connection, session_id, queued_id)
    if after_id not in (None, found.after_id):
        raise SessionError("This message waits for another reply meanwhile; it is sent when that has ended.")
    connection.execute("DELETE FROM queued WHERE id = ?", [queued_id])
    return found


def follow(connection: sqlite3.Connection, after_id: str, reply_id: str) -> None:
    """What waited for one reply waits for another."""
    connection.execute("UPDATE queued SET after_id = ? WHERE after_id = ?", [reply_id, after_id])


def other_branch(connection: sqlite3.Connection, session_id: str, parent_id: str | None) -> str | None:
    """The head of a chat, if the branch that it shows does not lead through the place under ``parent_id``."""
    head_id = turns.session(connection, session_id).head_id
    place = turns.question_place(connection, session_id, parent_id) if parent_id is not None else None
    return None if place is None or tree.is_on_path(connection, place, head_id) else head_id


def into_draft(connection: sqlite3.Connection, session_id: str, deleted_root: str) -> Draft | None:
    """What waits for replies that a deletion took away becomes the end of the chat's draft; None if nothing does."""
    rows = connection.execute(
        "SELECT q.id, q.text FROM queued q JOIN messages m ON m.id = q.after_id "
        "WHERE q.session_id = ? AND m.deleted_root = ? ORDER BY m.key, q.place, q.key",
        [session_id, deleted_root],
    ).fetchall()
    if not rows:
        return None
    connection.executemany("DELETE FROM queued WHERE id = ?", [[row[0]] for row in rows])
    return drafts.add_text(connection, session_id, "\n\n".join(row[1] for row in rows))


def _of_session(connection: sqlite3.Connection, session_id: str) -> list[Queued]:
    found = []
    for row in connection.execute(_ROWS, [session_id]):
        queued_id, session, after_id, text, files, created_at, status, hidden, parent_id, finish_reason = row
        under_id = parent_id if hidden and parent_id else after_id
        ids = json.loads(files)
        there = _files(connection, ids) if ids else []
        row = (queued_id, session, after_id, under_id, text, ids, created_at, status, finish_reason, bool(hidden))
        found.append(Queued(*row, there))
    return found


def _files(connection: sqlite3.Connection, ids: Sequence[str]) -> list[MessageFile]:
    query = (
        "SELECT a.id, a.name, a.media_type, a.size, a.sha256 FROM json_each(?) one JOIN attachments a "
        "ON a.id = one.value WHERE a.deleted_at IS NULL ORDER BY one.key"
    )
    return [MessageFile(*row) for row in connection.execute(query, [json.dumps(ids)])]


def _reply(connection: sqlite3.Connection, session_id: str, reply_id: str) -> str:
    turns.session(connection, session_id)
    reply = tree.message(connection, reply_id)
    if reply is None or reply.session_id != session_id or reply.role != "assistant" or reply.deleted_at is not None:
        raise SessionError("There is no such reply in this chat to wait for; reload the page to see it as it is.")
    if reply.status == "streaming" or reply.hidden:
        return reply_id
    last = tree.message(connection, tree.last_leaf(connection, reply))
    return last.id if last is not None and last.role == "assistant" else reply_id


def _insert(connection: sqlite3.Connection, session_id: str, after_id: str, text: str, files: Iterable[str]) -> str:
    queued_id, place = new_id(), _next_place(connection, after_id)
    connection.execute(
        "INSERT INTO queued (id, session_id, after_id, place, text, files, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [queued_id, session_id, after_id, place, text, json.dumps(list(files)), now()],
    )
    return queued_id


def _next_place(connection: sqlite3.Connection, after_id: str) -> int:
    query = "SELECT coalesce(max(place) + 1, 0) FROM queued WHERE after_id = ?"
    return connection.execute(query, [after_id]).fetchone()[0]


def _ids_after(connection: sqlite3.Connection, after_id: str) -> list[str]:
    query = "SELECT id FROM queued WHERE after_id = ? ORDER BY place, key"
    return [row[0] for row in connection.execute(query, [after_id])]


def _number(connection: sqlite3.Connection, ids: Iterable[str]) -> None:
    connection.executemany("UPDATE queued SET place = ? WHERE id = ?", [[at, one] for at, one in enumerate(ids)])
