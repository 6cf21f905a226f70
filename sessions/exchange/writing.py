"""Inserts trees as rows, inside an open transaction. Every id is a new one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from typing import Any

from ..attachments import clean_name, media_type_of
from ..ids import new_id, now
from ..rows import GENERATION_FIELDS
from ..titles import title_from
from .files import FileFolder
from .report import Report
from .tree import Attached, ChatTree, Draft, Node, Preset, Shelf

_PARTS = ("order", "runs", "tokens", "attachments")
NODE_FIELDS = tuple(one.name for one in fields(Node) if one.name not in _PARTS)
"""Columns of a message that a tree has."""

PRESET_FIELDS = tuple(one.name for one in fields(Preset))
"""Columns of a preset that a file has."""

_PRESET_CONTENT = ("name", "system_prompt", "policy", "tools", "retrieval", "model")
_SAME_COLUMNS = (
    "title",
    "title_by",
    "system_prompt",
    "model",
    "created_at",
    "updated_at",
    "begun_at",
    "pinned",
    "archived",
    "deleted_at",
)


class Writing:
    """One import.

    Args:
        report: gets the folders that are made.
        hashes: ``id()`` of an attachment -> the hash under which its content is kept.
    """

    def __init__(
        self, connection: sqlite3.Connection, report: Report, files: FileFolder, hashes: dict[int, str]
    ) -> None:
        self._connection, self._report, self._files, self._hashes = connection, report, files, hashes
        rows = connection.execute("SELECT name, id FROM folders WHERE deleted_at IS NULL")
        self._folders: dict[str, str] = {name.casefold(): folder_id for name, folder_id in rows}
        self._presets: dict[str, str] = {}
        self.new_presets = 0
        self._everyone: dict[str, str] = {}
        self._names: dict[int, dict[str, str]] = {}
        self._now = now()

    def add_shelf(self, shelf: Shelf, trees: list[ChatTree]) -> None:
        """Presets and folders of the file that are not here already. A preset of a chat comes with that chat."""
        with_chats = {one.preset.id for one in trees if one.preset}
        for preset in shelf.presets:
            if preset.id not in with_chats:
                self._preset(preset)
        for name in shelf.folders:
            self._folder(name)

    def name_all(self, trees: list[ChatTree]) -> None:
        """New ids for all messages, before any is written: chats may point to one another."""
        for tree in trees:
            self._names[id(tree)] = {one.id: new_id() for one in tree.nodes}
            for old, new in self._names[id(tree)].items():
                self._everyone.setdefault(old, new)

    def write(self, tree: ChatTree) -> str:
        """Insert one chat that has been named; returns its id."""
        names = self._names[id(tree)]
        session_id = self._put_session(tree)
        self._put_all("messages", ("session_id", *NODE_FIELDS), self._node_rows(session_id, tree, names))
        head = [names.get(tree.head_id or ""), session_id]
        self._connection.execute("UPDATE sessions SET head_id = ? WHERE id = ?", head)
        self._put_all("generations", GENERATION_FIELDS, self._run_rows(tree, names))
        tokens = ("fingerprint", "header_tokens", "token_ids")
        rows = ((names[one.id], *(getattr(ids, name) for name in tokens)) for one in tree.nodes for ids in one.tokens)
        self._put_all("message_tokens", ("message_id", *tokens), rows)
        system = ((session_id, fingerprint, ids) for fingerprint, ids in tree.system_tokens.items())
        self._put_all("system_tokens", ("session_id", "fingerprint", "token_ids"), system)
        self._attach(session_id, None, tree.loose)
        for one in tree.nodes:
            self._attach(session_id, names[one.id], one.attachments)
        self._put_draft(session_id, tree.draft, names)
        return session_id

    def _put_session(self, tree: ChatTree) -> str:
        session_id = new_id()
        if tree.title is None and not tree.exact:
            first = next((one.content for one in tree.nodes if one.role == "user" and one.content.strip()), "")
            tree.title, tree.title_by = title_from(first), "words"
        elif tree.title is not None:
            tree.title_by = tree.title_by or "user"
        source: dict[str, Any] = {"format": tree.origin, "id": tree.id, "file": self._report.file}
        source["imported_at"] = self._now
        if tree.source:
            source["before"] = tree.source
        self._put(
            "sessions",
            {
                "id": session_id,
                **{name: getattr(tree, name) for name in _SAME_COLUMNS},
                "preset_id": self._preset(tree.preset),
                "params": json.dumps(tree.params),
                "forked_from": self._everyone.get(tree.forked_from or "", tree.forked_from),
                "folder_id": self._folder(tree.folder),
                "source": json.dumps(source, ensure_ascii=False),
            },
        )
        return session_id

    def _node_rows(self, session_id: str, tree: ChatTree, names: dict[str, str]) -> Iterator[list[Any]]:
        for node in tree.nodes:
            row = {name: getattr(node, name) for name in NODE_FIELDS}
            for name in ("id", "parent_id", "replaces_id", "deleted_root"):
                row[name] = names.get(row[name] or "")
            row["copied_from"] = self._everyone.get(node.copied_from or "", node.copied_from)
            yield [session_id, *row.values()]

    def _run_rows(self, tree: ChatTree, names: dict[str, str]) -> Iterator[list[Any]]:
        for node in tree.nodes:
            for run in node.runs:
                row = {name: getattr(run, name) for name in GENERATION_FIELDS}
                row["message_id"] = names[node.id]
                row["params"] = json.dumps(run.params)
                row["started_at"] = run.started_at or node.created_at
                row["kept_from"] = names.get(run.kept_from or "", run.kept_from)
                yield list(row.values())

    def _attach(self, session_id: str, message_id: str | None, attached: list[Attached]) -> None:
        for one in attached:
            if one.data is None:
                continue
            name, sha256 = clean_name(one.name), self._hashes[id(one)]
            if not self._files.has(sha256):  # a purge has removed it since
                self._files.keep(one.data)
            self._put(
                "attachments",
                {
                    "id": new_id(),
                    "session_id": session_id,
                    "message_id": message_id,
                    "name": name,
                    "media_type": media_type_of(name, one.media_type),
                    "size": len(one.data),
                    "sha256": sha256,
                    "created_at": one.created_at or self._now,
                    "deleted_at": one.deleted_at,
                },
            )

    def _put_draft(self, session_id: str, draft: Draft | None, names: dict[str, str]) -> None:
        if draft is not None:
            place = {"parent_id": names.get(draft.parent_id or ""), "edits_id": names.get(draft.edits_id or "")}
            times = {"updated_at": draft.updated_at or self._now}
            self._put("drafts", {"session_id": session_id, "text": draft.text, **place, **times})

    def _folder(self, name: str | None) -> str | None:
        """The folder of that name; made if there is none."""
        if name is None:
            return None
        key = name.casefold()  # as the library compares names; SQLite knows the case of ASCII letters only
        if key not in self._folders:
            self._folders[key] = self._put_folder(name)
        return self._folders[key]

    def _put_folder(self, name: str) -> str:
        folder_id = new_id()
        self._put("folders", {"id": folder_id, "name": name, "created_at": self._now})
        self._report.folders.append(name)
        return folder_id

    def _preset(self, preset: Preset | None) -> str | None:
        """A preset that says the same; made if there is none."""
        if preset is None:
            return None
        if preset.id not in self._presets:
            self._presets[preset.id] = self._same_preset(preset) or self._put_preset(preset)
        return self._presets[preset.id]

    def _same_preset(self, preset: Preset) -> str | None:
        same = " AND ".join(f"{name} IS ?" for name in _PRESET_CONTENT)
        query = f"SELECT id, examples, params FROM presets WHERE {same} AND (deleted_at IS NULL) = ?"
        content = [*(getattr(preset, name) for name in _PRESET_CONTENT), int(preset.deleted_at is None)]
        for found_id, examples, params in self._connection.execute(query, content):
            if json.loads(examples) == json.loads(preset.examples) and json.loads(params) == preset.params:
                return found_id
        return None

    def _put_preset(self, preset: Preset) -> str:
        preset_id = new_id()
        self.new_presets += 1
        self._put("presets", {**asdict(preset), "id": preset_id, "params": json.dumps(preset.params)})
        return preset_id

    def _put(self, table: str, values: dict[str, Any]) -> None:
        self._put_all(table, values, [[*values.values()]])

    def _put_all(self, table: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
        names = list(columns)
        statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        self._connection.executemany(statement, rows)  # pyright: ignore[reportArgumentType]
