"""Questions of the command line: which chats there are, which one is meant, and what its whole tree looks like.

Reads only; every function takes an open connection.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import Any

from .errors import SessionError, there_are
from .rows import SESSION_COLUMNS, Session
from .titles import UNTITLED

SHOWN_CANDIDATES = 5


@dataclass(slots=True)
class Listed:
    """A chat in a list.

    Attributes:
        messages: how many can be seen, on all branches.
        folder: name of its folder.
    """

    session: Session
    messages: int
    folder: str | None


@dataclass(slots=True)
class Branching:
    """One message of a whole tree, with what follows it.

    Attributes:
        model: that wrote it; None for what a person wrote.
        children: in the order they were made.
    """

    id: str
    parent_id: str | None
    role: str
    content: str
    reasoning: str | None
    status: str
    created_at: str
    error: str | None
    model: str | None
    completion_tokens: int | None
    children: list[Branching] = field(default_factory=list)


def list_sessions(
    connection: sqlite3.Connection,
    *,
    archived: bool = False,
    trash: bool = False,
    folder: str | None = None,
    limit: int | None = None,
) -> list[Listed]:
    """Chats, pinned ones first, then the latest.

    Args:
        archived, trash: those in the archive or in the trash in place of those in the list.
        folder: only those in the folder of that name.

    Raises:
        SessionError: there is no such folder.
    """
    where = ["s.deleted_at IS NOT NULL" if trash else "s.deleted_at IS NULL"]
    values: list[Any] = []
    if not trash:
        where.append(f"s.archived = {int(archived)}")
    if folder is not None:
        where.append("s.folder_id = ?")
        values.append(_folder_id(connection, folder))
    rows = connection.execute(
        f"SELECT {SESSION_COLUMNS} FROM sessions s WHERE {' AND '.join(where)} "
        "ORDER BY s.pinned DESC, s.updated_at DESC, s.key DESC LIMIT ?",
        [*values, -1 if limit is None else limit],
    ).fetchall()
    named = dict(iter(connection.execute("SELECT id, name FROM folders")))
    found = [Session.from_row(row) for row in rows]
    return [Listed(one, _count(connection, one.id), named.get(one.folder_id)) for one in found]


def find_session(connection: sqlite3.Connection, name: str, *, trash: bool = False) -> Session:
    """The chat that is meant by its id, the beginning of its id (4 characters at least), or its whole title, which of
    a chat without one is the name that it is shown by.

    Args:
        trash: one in the trash is meant.

    Raises:
        SessionError: there is none, or more than one; then they are named.
    """
    wanted = "s.deleted_at IS NOT NULL" if trash else "s.deleted_at IS NULL"
    query = f"SELECT {SESSION_COLUMNS} FROM sessions s WHERE {wanted} AND "
    whole = connection.execute(query + "s.id = ?", [name]).fetchall()
    title = " ".join(name.split())
    named = query + "coalesce(s.title, ?) = ? ORDER BY s.updated_at DESC"
    found = whole or connection.execute(named, [UNTITLED, title]).fetchall()
    if not found and len(name) >= 4 and name.isalnum():
        found = connection.execute(query + "substr(s.id, 1, ?) = ? LIMIT 50", [len(name), name.lower()]).fetchall()
    if len(found) == 1:
        return Session.from_row(found[0])
    if found:
        raise SessionError(_ambiguous(name, [Session.from_row(row) for row in found]))
    where = " in the trash" if trash else ""
    raise SessionError(
        f'There is no chat "{name}"{where}: neither an id, nor the beginning of one, nor a title; '
        f"`pagedchat sessions list{' --trash' if trash else ''}` shows them."
    )


def whole_tree(connection: sqlite3.Connection, session_id: str) -> list[Branching]:
    """The first messages of a chat, each with all that follows it; hidden and deleted ones are left out."""
    rows = connection.execute(
        "SELECT m.id, m.parent_id, m.role, m.content, m.reasoning, m.status, m.created_at, m.error, g.model, "
        "g.completion_tokens FROM messages m LEFT JOIN generations g ON g.message_id = m.id "
        "AND g.run = (SELECT max(run) FROM generations l WHERE l.message_id = m.id) "
        "WHERE m.session_id = ? AND m.hidden = 0 AND m.deleted_at IS NULL ORDER BY m.key",
        [session_id],
    )
    found = {row[0]: Branching(*row) for row in rows}
    roots = []
    for one in found.values():
        if one.parent_id is None or one.parent_id not in found:
            roots.append(one)
        else:
            found[one.parent_id].children.append(one)
    return roots


def _count(connection: sqlite3.Connection, session_id: str) -> int:
    query = "SELECT count(*) FROM messages WHERE session_id = ? AND hidden = 0 AND deleted_at IS NULL"
    return connection.execute(query, [session_id]).fetchone()[0]


def _folder_id(connection: sqlite3.Connection, name: str) -> str:
    rows = connection.execute("SELECT id, name FROM folders WHERE deleted_at IS NULL ORDER BY name").fetchall()
    for one in rows:
        if name in (one[0], one[1]):
            return one[0]
    raise SessionError(f'There is no folder "{name}"; {there_are(row[1] for row in rows)}.')


def _ambiguous(name: str, found: list[Session]) -> str:
    shown = [f"  {one.id}  {one.updated_at[:10]}  {one.title or UNTITLED}" for one in found[:SHOWN_CANDIDATES]]
    shown += [f"  and {len(found) - SHOWN_CANDIDATES} more"] if len(found) > SHOWN_CANDIDATES else []
    return "\n".join([f'"{name}" may mean {len(found)} chats; give its id, or enough of its beginning:', *shown])
