"""Rows on disk: the file, its sessions and its parts. What is done with messages is in ``tree_store``.

Two connections: one writes, behind a lock, with ``BEGIN IMMEDIATE``; one reads, and is never kept waiting by a writer
(WAL). Calls block; the chat service makes them from threads.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from . import new_session, search_index, turns
from .attachments import Attachments
from .backups import back_up
from .branch_tree import BranchTrees
from .connection import Connection
from .documents import Documents
from .drafts import Drafts
from .errors import SessionError, explained
from .exchange.exchange_store import ExchangeStore
from .exchange.files import FileFolder
from .library import Library, check_folder
from .outline import Outlines
from .presets import Preset, Presets
from .queued import Queue
from .rows import SESSION_COLUMNS, Session
from .schema import connect, empty_notice, memory_database, missing_notice, open_database
from .search import Search
from .trash import Trash
from .tree_store import TreeStore

_CHANGEABLE = ("title", "title_by", "system_prompt", "params", "model", "pinned", "archived", "deleted_at", "folder_id")
_LAST_SESSION = "last_session"
_STALE = "This chat was changed in another window meanwhile; it is shown as it is now, so try again."


class SessionStore(TreeStore):
    """The database of one data folder.

    Attributes:
        path: the file, mode 0600.
        notice: what the user must be told of this start; None if all is as it should be.
        search: finds messages and titles.
        trash: what was deleted.
        outlines: whole trees, in a few words a message.
        branch_trees: all branches of a chat, as prompts have them.
        library: folders.
        presets: what new chats begin with.
        drafts: what was typed and not sent.
        queue: messages that wait for the end of a reply.
        attachments: files that were sent with messages.
        documents: the texts of files.
        exchange: whole chats in and out, for files.
    """

    def __init__(self, path: str | Path, *, busy_timeout_s: float = 5.0) -> None:
        """Open ``path``, creating or migrating it as needed.

        Args:
            busy_timeout_s: how long a write waits for another program's lock.

        Raises:
            StoreError: damaged, newer, another program's, read-only, full or locked; the file is left as it was.
        """
        self.path = Path(path)
        self.notice = missing_notice(self.path)
        writer = Connection(open_database(self.path, busy_timeout_s=busy_timeout_s), self.path)
        try:
            search_index.catch_up(writer)
            with explained(self.path):
                raw = connect(self.path, busy_timeout_s=busy_timeout_s, read_only=True)
                self.notice = self.notice or empty_notice(raw, self.path)
        except BaseException:
            writer.close()
            raise
        super().__init__(writer, Connection(raw, self.path))
        self._add_parts(self.path.parent / "attachments")

    @classmethod
    def temporary(cls) -> SessionStore:
        """A store in the memory of this process, for chats that no file ever holds. It ends when it is closed."""
        store = cls.__new__(cls)
        store.path, store.notice = Path(":memory:"), None
        connection = Connection(memory_database(), store.path)
        TreeStore.__init__(store, connection, connection)
        store._add_parts(None)
        return store

    def _add_parts(self, folder: Path | None) -> None:
        self.search = Search(self._writer, self._reader)
        self.library = Library(self._writer, self._reader)
        self.presets = Presets(self._writer, self._reader)
        self.drafts = Drafts(self._writer, self._reader)
        self.queue = Queue(self._writer, self._reader)
        files = FileFolder(folder)
        self.attachments = Attachments(self._writer, self._reader, files)
        self.documents = Documents(self._writer, self._reader)
        self.trash = Trash(self._writer, self._reader, self.attachments.remove_unused)
        self.outlines = Outlines(self._reader)
        self.branch_trees = BranchTrees(self._reader)
        self.exchange = ExchangeStore(self._writer, self._reader, files)

    @property
    def commits(self) -> int:
        """Transactions committed since it was opened."""
        return self._writer.commits

    def backup(self, target: Path | None = None) -> Path:
        """A verified copy while chats go on, at ``target`` or among the backups; returns where it is.

        Raises:
            StoreError: no room, or the target exists.
        """
        return back_up(self.path, "hand", target)

    def has(self, thing_id: str) -> bool:
        """Whether a chat, a message or a file of this id is here, deleted ones too."""
        tables = ("sessions", "messages", "attachments")
        with self._reader.reading() as connection:
            query = " UNION ALL ".join(f"SELECT 1 FROM {one} WHERE id = ?1" for one in tables)
            return connection.execute(query, [thing_id]).fetchone() is not None

    def close(self) -> None:
        """Close both connections; SQLite folds the log into the file."""
        self._reader.close()
        self._writer.close()

    # -- sessions ---------------------------------------------------------------------------------------------------

    def create_session(
        self,
        system_prompt: str | None,
        params: dict[str, Any],
        model: str | None,
        preset_id: str | None = None,
        folder_id: str | None = None,
        begins_with: Preset | None = None,
    ) -> Session:
        """A new session, empty but for a preset's examples. See ``new_session.create``."""
        with self._writer.transaction(durable=True) as connection:
            session_id = new_session.create(connection, system_prompt, params, model, preset_id, folder_id, begins_with)
            return turns.session(connection, session_id)

    def begin_unused_session(self, model: str | None, besides: Collection[str]) -> Session | None:
        """See ``new_session.begin_unused``."""
        with self._writer.transaction(durable=False) as connection:
            found = new_session.begin_unused(connection, model, besides)
            return turns.session(connection, found) if found is not None else None

    def sessions(self) -> list[Session]:
        """Sessions that are not deleted: pinned ones first, then the latest."""
        with self._reader.reading() as connection:
            rows = connection.execute(
                f"SELECT {SESSION_COLUMNS} FROM sessions s WHERE deleted_at IS NULL "
                "ORDER BY pinned DESC, updated_at DESC, key DESC"
            )
            return [Session.from_row(row) for row in rows]

    def session(self, session_id: str) -> Session:
        """One session.

        Raises:
            SessionError: there is none, or it is deleted.
        """
        with self._reader.reading() as connection:
            return turns.session(connection, session_id)

    def change_session(self, session_id: str, version: int | None = None, **changes: Any) -> Session:
        """Set columns of a session, deleted ones too. A changed system prompt drops the ids that hold the old one.

        Args:
            version: of the session that the change was made for; None changes whatever there is.
            changes: by column; ``params`` may be a function of those that there are.

        Raises:
            SessionError: there is no such session, or it has changed since that version.
        """
        assert changes and set(changes) <= set(_CHANGEABLE)
        with self._writer.transaction(durable=True) as connection:
            old = turns.any_session(connection, session_id)
            if version is not None and version != old.version:
                raise SessionError(_STALE)
            if "params" in changes:
                params = changes["params"]
                changes["params"] = json.dumps(params(old.params) if callable(params) else params)
            if changes.get("folder_id") is not None:
                check_folder(connection, changes["folder_id"])
            if "system_prompt" in changes and changes["system_prompt"] != old.system_prompt:
                turns.forget_system_tokens(connection, session_id)
            columns = ", ".join(f"{name} = ?" for name in changes)
            connection.execute(
                f"UPDATE sessions SET {columns}, version = version + 1 WHERE id = ?", [*changes.values(), session_id]
            )
            if "title" in changes:
                search_index.put_title(connection, session_id)
            return turns.any_session(connection, session_id)

    def title_by_model(self, session_id: str, title: str) -> Session | None:
        """Name a chat that is still named by its first words; None, and nothing has changed, if it is not.

        Its version stays: a person's rename that was begun before is no stale one.
        """
        with self._writer.transaction(durable=True) as connection:
            done = connection.execute(
                "UPDATE sessions SET title = ?, title_by = 'model' "
                "WHERE id = ? AND title_by = 'words' AND deleted_at IS NULL",
                [title, session_id],
            )
            if not done.rowcount:
                return None
            search_index.put_title(connection, session_id)
            return turns.session(connection, session_id)

    def remember_last(self, session_id: str) -> None:
        """Note the session that is shown, for the next start."""
        if self.last_session_id() == session_id:
            return
        with self._writer.transaction(durable=False) as connection:
            connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", [_LAST_SESSION, session_id])

    def last_session_id(self) -> str | None:
        """The session shown last, else the latest one; None if there is none."""
        with self._reader.reading() as connection:
            row = connection.execute(
                "SELECT id FROM sessions LEFT JOIN state ON state.key = ? AND state.value = sessions.id "
                "WHERE deleted_at IS NULL ORDER BY state.value IS NULL, updated_at DESC, sessions.key DESC LIMIT 1",
                [_LAST_SESSION],
            ).fetchone()
            return row[0] if row else None
