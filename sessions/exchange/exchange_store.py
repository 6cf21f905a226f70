"""Chats between rows and trees: one chat read whole, any number written in one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import search_index, turns
from ..connection import Connection
from ..rows import GENERATION_COLUMNS, Generation, Session
from ..titles import UNTITLED
from .files import FileFolder
from .ours import FORMAT
from .report import ImportedChat, Report
from .tree import Attached, ChatTree, Draft, Node, NodeTokens, Preset, Shelf, content_name
from .writing import NODE_FIELDS, PRESET_FIELDS, Writing

if TYPE_CHECKING:
    from .reading import Reading


class ExchangeStore:
    """Whole chats in and out of the database."""

    def __init__(self, writer: Connection, reader: Connection, files: FileFolder) -> None:
        self._writer, self._reader, self._files = writer, reader, files

    def read_tree(self, session_id: str) -> ChatTree:
        """One chat with everything in it, deleted or not.

        Raises:
            SessionError: there is none.
        """
        with self._reader.reading() as connection:
            return _read(connection, session_id, self._files)

    def shelf(self) -> Shelf:
        """All presets and folders that are not deleted."""
        with self._reader.reading() as connection:
            presets = connection.execute(f"SELECT {', '.join(PRESET_FIELDS)} FROM presets WHERE deleted_at IS NULL")
            folders = connection.execute("SELECT name FROM folders WHERE deleted_at IS NULL ORDER BY key")
            return Shelf([*map(_preset_of, presets)], [row[0] for row in folders])

    def sessions(self, ids: list[str]) -> list[Session]:
        """Sessions by their ids, deleted ones too, in that order."""
        with self._reader.reading() as connection:
            return [turns.any_session(connection, one) for one in ids]

    def write_trees(self, reading: Reading, *, skip_seen: bool = False) -> Report:
        """Store what was read, with new ids, in one transaction: all of it or nothing.

        Args:
            skip_seen: leave out chats that were imported before, or are the ones that were exported.

        Raises:
            StoreError: the database cannot be written; nothing was stored.
        """
        report = reading.report
        hashes = {id(one): self._files.keep(data) for one, data in _contents(reading)}
        with self._writer.transaction(durable=True) as connection:
            connection.execute("PRAGMA defer_foreign_keys = ON")
            writing = Writing(connection, report, self._files, hashes)
            chosen = []
            known = _known(connection)
            for tree, repairs in reading.trees:
                tree.id = tree.id or content_name(tree)
                seen = (tree.origin, tree.id) in known
                if seen and skip_seen:
                    report.skip(tree.title or UNTITLED, "It had been imported before.")
                else:
                    chosen.append((tree, repairs, seen))
            writing.add_shelf(reading.shelf, [tree for tree, _ in reading.trees])
            writing.name_all([tree for tree, _, _ in chosen])
            for tree, repairs, seen in chosen:
                session_id = writing.write(tree)
                shown = tree.title or UNTITLED
                report.chats.append(ImportedChat(session_id, shown, len(tree.nodes), seen, repairs))
            report.new_presets = writing.new_presets
            search_index.add_sessions(connection, [one.id for one in report.chats])
        return report


def _contents(reading: Reading) -> Iterable[tuple[Attached, bytes]]:
    for tree, _ in reading.trees:
        for attached in (tree.loose, *(node.attachments for node in tree.nodes)):
            yield from ((one, one.data) for one in attached if one.data is not None)


def _known(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """(format, id there) of every chat that was imported, and of our own."""
    known = {(FORMAT, row[0]) for row in connection.execute("SELECT id FROM sessions")}
    for row in connection.execute("SELECT source FROM sessions WHERE source IS NOT NULL"):
        source = _source(row[0]) or {}
        known.add((str(source.get("format")), str(source.get("id"))))
    return known


def _source(text: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(text or "null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


# -- reading ------------------------------------------------------------------------------------------------------


def _read(connection: sqlite3.Connection, session_id: str, files: FileFolder) -> ChatTree:
    session = turns.any_session(connection, session_id)
    tree = ChatTree(
        session.id,
        session.title,
        session.title_by,
        session.head_id,
        session.system_prompt,
        session.model,
        session.params,
        session.created_at,
        session.updated_at,
        session.begun_at,
        session.pinned,
        session.archived,
        session.deleted_at,
        session.forked_from,
        exact=True,
    )
    tree.source = _source(session.source)
    tree.folder = _folder_name(connection, session.folder_id)
    tree.preset = _read_preset(connection, session.preset_id)
    tree.draft = _read_draft(connection, session_id)
    tree.system_tokens = dict(
        connection.execute("SELECT fingerprint, token_ids FROM system_tokens WHERE session_id = ?", [session_id])
    )
    columns = ", ".join(NODE_FIELDS)
    for row in connection.execute(f"SELECT {columns} FROM messages WHERE session_id = ? ORDER BY key", [session_id]):
        node = Node(**dict(row))
        node.hidden = bool(node.hidden)
        tree.nodes.append(node)
    _add_parts(connection, tree, files)
    return tree


def _add_parts(connection: sqlite3.Connection, tree: ChatTree, files: FileFolder) -> None:
    """Runs, token ids and attachments."""
    nodes = tree.by_id()
    of_session = "JOIN messages m ON m.id = x.message_id WHERE m.session_id = ?"
    runs = GENERATION_COLUMNS.replace("g.", "x.")
    for row in connection.execute(f"SELECT {runs} FROM generations x {of_session} ORDER BY x.run", [tree.id]):
        run = Generation.from_row(row)
        nodes[run.message_id].runs.append(run)
    query = f"SELECT x.message_id, fingerprint, header_tokens, token_ids FROM message_tokens x {of_session}"
    for message_id, *rest in connection.execute(query, [tree.id]):
        nodes[message_id].tokens.append(NodeTokens(*rest))
    query = (
        "SELECT message_id, name, media_type, sha256, created_at, deleted_at FROM attachments "
        "WHERE session_id = ? ORDER BY key"
    )
    for message_id, name, media_type, sha256, created_at, deleted_at in connection.execute(query, [tree.id]):
        found = Attached(name, media_type, files.read(sha256), created_at, deleted_at)
        (nodes[message_id].attachments if message_id else tree.loose).append(found)


def _folder_name(connection: sqlite3.Connection, folder_id: str | None) -> str | None:
    query = "SELECT name FROM folders WHERE id = ? AND deleted_at IS NULL"
    row = connection.execute(query, [folder_id]).fetchone()
    return row[0] if row else None


def _read_preset(connection: sqlite3.Connection, preset_id: str | None) -> Preset | None:
    query = f"SELECT {', '.join(PRESET_FIELDS)} FROM presets WHERE id = ?"
    row = connection.execute(query, [preset_id]).fetchone()
    return _preset_of(row) if row else None


def _preset_of(row: sqlite3.Row) -> Preset:
    return Preset(**{**dict(row), "params": json.loads(row["params"])})


def _read_draft(connection: sqlite3.Connection, session_id: str) -> Draft | None:
    query = "SELECT text, parent_id, edits_id, updated_at FROM drafts WHERE session_id = ?"
    row = connection.execute(query, [session_id]).fetchone()
    return Draft(*row) if row and row["text"] else None
