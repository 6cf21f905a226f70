"""What was deleted and may come back: whole chats, and branches of chats.

::

    question ── reply ── question ── reply      deleting "a": a, b, c get deleted_root = a
        └────── a ────── b                      deleting "d" before that: d keeps deleted_root = d,
                └─────── c ── d                 so restoring a leaves d where it is

Nothing leaves the trash by itself: only ``purge`` removes rows, for ever.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from . import documents, queued, search_index, tree, turns
from .connection import Connection
from .drafts import Draft
from .errors import SessionError
from .ids import now
from .rows import SESSION_COLUMNS, Message, Session

EXCERPT = 200
"""Characters of a deleted message that the trash shows."""

_BELOW = """
WITH RECURSIVE below (id) AS (
    SELECT :id
    UNION ALL
    SELECT m.id FROM below JOIN messages m ON m.session_id = :session AND m.parent_id = below.id {where}
)
"""
_KEPT_BELOW = _BELOW.format(where="WHERE m.deleted_at IS NULL")
_ALL_BELOW = _BELOW.format(where="")
_BRANCHES = f"""
SELECT r.id, r.session_id, s.title, r.role, substr(r.content, 1, {EXCERPT}), r.deleted_at,
       (SELECT count(*) FROM messages m WHERE m.deleted_root = r.id AND m.hidden = 0), above.deleted_root
FROM messages r JOIN sessions s ON s.id = r.session_id LEFT JOIN messages above ON above.id = r.parent_id
WHERE r.deleted_root IS NOT NULL AND r.deleted_root = r.id AND s.deleted_at IS NULL
ORDER BY r.deleted_at DESC, r.key DESC
"""


@dataclass(slots=True)
class DeletedBranch:
    """A branch in the trash.

    Attributes:
        id: of the message that was deleted; restores the branch.
        text: its first characters.
        messages: how many were deleted with it, itself included.
        within: id of the deleted branch that the message above is in, which has to be restored first; None if none.
    """

    id: str
    session_id: str
    title: str | None
    role: str
    text: str
    deleted_at: str
    messages: int
    within: str | None


@dataclass(slots=True)
class Deletion:
    """What deleting or restoring a branch did.

    Attributes:
        root: the message that was deleted or restored.
        head_id: last message of the branch that is shown now; None if the chat is empty.
        messages: how many messages it concerned, hidden ones left out.
        draft: the chat's draft, if a message that waited in the branch became a part of it.
    """

    root: Message
    head_id: str | None
    messages: int
    draft: Draft | None = None


class Trash:
    """The trash of one store.

    Args:
        writer, reader: the store's connections.
        unused: called after a purge with hashes of files that the removed rows named.
    """

    def __init__(
        self,
        writer: Connection,
        reader: Connection,
        unused: Callable[[list[str]], None],
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._unused = unused

    # -- branches ---------------------------------------------------------------------------------------------------

    def running_below(self, message_id: str) -> list[str]:
        """Ids of the replies at or below a message that are being written."""
        with self._reader.reading() as connection:
            return _running(connection, turns.message(connection, message_id))

    def delete_branch(self, message_id: str) -> Deletion:
        """Put a message and all below it into the trash.

        If the shown branch goes with it, the head moves to the branch beside it that was used last, else to the
        message above, else to nothing. Messages that waited for its replies go back into the draft.

        Raises:
            SessionError: there is no such message, it is in the trash, or a reply in it is being written.
        """
        with self._writer.transaction(durable=True) as connection:
            root = turns.kept_message(connection, message_id)
            if root.hidden:
                raise SessionError("This reply ended without any text, so there is nothing to delete.")
            if _running(connection, root):
                raise SessionError("A reply in this branch is still being written; stop it before deleting the branch.")
            place = {"id": root.id, "session": root.session_id}
            head_id = turns.session(connection, root.session_id).head_id
            within = head_id is not None and tree.is_on_path(connection, root.id, head_id)
            connection.execute(
                _KEPT_BELOW + "UPDATE messages SET deleted_at = :now, deleted_root = :id WHERE id IN below",
                {**place, "now": now()},
            )
            if within:
                head_id = tree.nearest(connection, root)
                turns.move_head(connection, root.session_id, head_id)
            draft = queued.into_draft(connection, root.session_id, root.id)
            deleted = tree.message(connection, root.id)
            assert deleted is not None
            return Deletion(deleted, head_id, _size(connection, root.id), draft)

    def restore_branch(self, root_id: str) -> Deletion:
        """Bring back exactly what a deletion took away, and show it.

        Raises:
            SessionError: there is no such deletion, or what is above is in the trash too.
        """
        with self._writer.transaction(durable=True) as connection:
            root = turns.message(connection, root_id)
            if root.deleted_root != root.id:
                raise SessionError("This branch is not in the trash; reload the page to see the chat as it is.")
            if root.parent_id is not None and not tree.is_visible(connection, root.parent_id):
                raise SessionError("The message above this branch is in the trash too; restore it first.")
            messages = _size(connection, root.id)
            connection.execute(
                "UPDATE messages SET deleted_at = NULL, deleted_root = NULL WHERE deleted_root = ?", [root.id]
            )
            leaf = tree.last_leaf(connection, root)
            turns.move_head(connection, root.session_id, leaf)
            restored = tree.message(connection, root.id)
            assert restored is not None
            return Deletion(restored, leaf, messages)

    # -- the list ---------------------------------------------------------------------------------------------------

    def branches(self) -> list[DeletedBranch]:
        """Branches in the trash whose chats are not, the latest first."""
        with self._reader.reading() as connection:
            return [DeletedBranch(*row) for row in connection.execute(_BRANCHES)]

    def sessions(self) -> list[Session]:
        """Chats in the trash, the latest first."""
        with self._reader.reading() as connection:
            rows = connection.execute(
                f"SELECT {SESSION_COLUMNS} FROM sessions s WHERE deleted_at IS NOT NULL "
                "ORDER BY deleted_at DESC, key DESC"
            )
            return [Session.from_row(row) for row in rows]

    # -- for ever ---------------------------------------------------------------------------------------------------

    def forget_words(self, ids: Iterable[str], after: int = 0) -> int | None:
        """Take some of what is to be purged out of the search, so that the purge need not hold the writer for that.

        Args:
            after: what the call before returned, to go on from there.

        Returns:
            None if nothing is left to be taken out.

        Raises:
            SessionError: see ``purge``.
        """
        with self._writer.transaction(durable=False) as connection, _overwriting(connection):
            keys = _message_keys(connection, *_in_trash(connection, list(dict.fromkeys(ids))))
            return search_index.forget_some(connection, [one for one in keys if one > after])

    def purge(self, ids: Iterable[str]) -> int:
        """Remove chats and branches that are in the trash, for ever; returns how many of ``ids`` there were.

        Everything of them goes in one transaction: messages with what is deleted below them, token ids, runs, drafts,
        words of the search, and files that nobody else names. Their bytes are overwritten in the database and its
        log. Copies in backups stay until the backups go.

        Raises:
            SessionError: one of them is not in the trash, or still being written; then none is removed.
        """
        wanted = list(dict.fromkeys(ids))
        with self._writer.transaction(durable=True) as connection, _overwriting(connection):
            sessions, branches = _in_trash(connection, wanted)
            keys = _message_keys(connection, sessions, branches)
            search_index.forget(connection, [one.key for one in sessions], keys)
            hashes = [one for root in branches for one in _purge_branch(connection, root)]
            hashes += [one for session in sessions for one in _purge_session(connection, session.id)]
            documents.remove_unused(connection, hashes)
        self._writer.shorten_log()
        self._unused(hashes)
        return len(wanted)


@contextmanager
def _overwriting(connection: sqlite3.Connection) -> Iterator[None]:
    """What is removed inside is overwritten with zeros."""
    usual = ("OFF", "ON", "FAST")[connection.execute("PRAGMA secure_delete").fetchone()[0]]
    connection.execute("PRAGMA secure_delete = ON")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA secure_delete = {usual}")


@dataclass(slots=True)
class _Gone:
    key: int
    id: str


def _in_trash(connection: sqlite3.Connection, names: list[str]) -> tuple[list[_Gone], list[Message]]:
    """The chats, and the branches of other chats, that ``names`` names.

    Raises:
        SessionError: one of them is not in the trash, or still being written.
    """
    sessions: list[_Gone] = []
    branches: list[Message] = []
    for name in names:
        row = connection.execute("SELECT key, deleted_at FROM sessions WHERE id = ?", [name]).fetchone()
        root = None if row else tree.message(connection, name)
        if row is not None and row[1] is not None:
            sessions.append(_Gone(row[0], name))
        elif root is not None and root.deleted_root == root.id:
            branches.append(root)
        else:
            raise SessionError(
                "Only what is in the trash can be deleted for ever; reload the page to see what is there."
            )
    for session in sessions:
        query = "SELECT 1 FROM messages WHERE session_id = ? AND status = 'streaming'"
        if connection.execute(query, [session.id]).fetchone():
            raise SessionError("A reply in this chat is still being written; try again in a moment.")
    chats = {one.id for one in sessions}
    return sessions, [one for one in branches if one.session_id not in chats]


def _message_keys(connection: sqlite3.Connection, sessions: list[_Gone], branches: list[Message]) -> list[int]:
    keys: set[int] = set()
    for session in sessions:
        keys.update(row[0] for row in connection.execute("SELECT key FROM messages WHERE session_id = ?", [session.id]))
    for root in branches:
        below = _ALL_BELOW + "SELECT m.key FROM below JOIN messages m ON m.id = below.id"
        keys.update(row[0] for row in connection.execute(below, {"id": root.id, "session": root.session_id}))
    return sorted(keys)


def _purge_session(connection: sqlite3.Connection, session_id: str) -> list[str]:
    """Remove a chat; returns the hashes of its files."""
    place = {"session": session_id}
    hashes = _remove_parts(connection, "SELECT id FROM messages WHERE session_id = :session", place)
    rows = connection.execute("DELETE FROM attachments WHERE session_id = :session RETURNING sha256", place)
    hashes += [row[0] for row in rows]
    for statement in (
        "DELETE FROM system_tokens WHERE session_id = :session",
        "DELETE FROM drafts WHERE session_id = :session",
        "DELETE FROM queued WHERE session_id = :session",
        "UPDATE sessions SET head_id = NULL WHERE id = :session",
        "DELETE FROM messages WHERE session_id = :session",
        "DELETE FROM sessions WHERE id = :session",
        "DELETE FROM state WHERE key = 'last_session' AND value = :session",
    ):
        connection.execute(statement, place)
    return hashes


def _purge_branch(connection: sqlite3.Connection, root: Message) -> list[str]:
    """Remove a branch and all below it; returns the hashes of its files."""
    place = {"id": root.id, "session": root.session_id}
    hashes = _remove_parts(connection, _ALL_BELOW + "SELECT id FROM below", place)
    connection.execute(
        _ALL_BELOW + "UPDATE drafts SET parent_id = NULL, edits_id = NULL "
        "WHERE session_id = :session AND (parent_id IN below OR edits_id IN below)",
        place,
    )
    connection.execute(_ALL_BELOW + "DELETE FROM messages WHERE id IN below", place)
    return hashes


def _running(connection: sqlite3.Connection, root: Message) -> list[str]:
    rows = connection.execute(
        _KEPT_BELOW + "SELECT m.id FROM below JOIN messages m ON m.id = below.id WHERE m.status = 'streaming'",
        {"id": root.id, "session": root.session_id},
    )
    return [row[0] for row in rows]


def _size(connection: sqlite3.Connection, root_id: str) -> int:
    query = "SELECT count(*) FROM messages WHERE deleted_root = ? AND hidden = 0"
    return connection.execute(query, [root_id]).fetchone()[0]


def _remove_parts(connection: sqlite3.Connection, selection: str, place: dict[str, Any]) -> list[str]:
    """Remove what belongs to the messages of ``selection``; returns the hashes of their files."""
    for table in ("generations", "message_tokens"):
        connection.execute(f"DELETE FROM {table} WHERE message_id IN ({selection})", place)
    connection.execute(f"DELETE FROM queued WHERE after_id IN ({selection})", place)
    rows = connection.execute(f"DELETE FROM attachments WHERE message_id IN ({selection}) RETURNING sha256", place)
    return [row[0] for row in rows]
