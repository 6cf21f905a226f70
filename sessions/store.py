"""Rows on disk: every session, every message of its tree, and how each reply came to be.

Two connections: one writes, behind a lock, with ``BEGIN IMMEDIATE``; one reads, and is never kept waiting by a writer
(WAL). Calls block; the chat service makes them from threads.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import drafts, forks, new_session, search_index, tree, turns
from .backups import back_up
from .connection import Connection
from .drafts import Draft, Drafts
from .errors import SessionError, explained
from .exchange.exchange_store import ExchangeStore
from .exchange.files import FileFolder
from .forks import ForkMode
from .library import Library, check_folder
from .presets import Presets
from .rows import SESSION_COLUMNS, Generation, Message, PromptPath, ReplyTokens, Session, Status, unpack
from .schema import connect, memory_database, missing_notice, open_database
from .search import Search
from .trash import Trash

_CHANGEABLE = ("title", "title_by", "system_prompt", "params", "model", "pinned", "archived", "deleted_at", "folder_id")
_LAST_SESSION = "last_session"
_STALE = "This chat was changed in another window meanwhile; it is shown as it is now, so try again."


class SessionStore:
    """The database of one data folder.

    Attributes:
        path: the file, mode 0600.
        notice: what the user must be told of this start; None if all is as it should be.
        search: finds messages and titles.
        trash: what was deleted.
        library: folders.
        presets: what new chats begin with.
        drafts: what was typed and not sent.
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
        self._writer = Connection(open_database(self.path, busy_timeout_s=busy_timeout_s), self.path)
        try:
            search_index.catch_up(self._writer)
            with explained(self.path):
                raw = connect(self.path, busy_timeout_s=busy_timeout_s, read_only=True)
        except BaseException:
            self._writer.close()
            raise
        self._reader = Connection(raw, self.path)
        self._add_parts()

    @classmethod
    def temporary(cls) -> SessionStore:
        """A store in the memory of this process, for chats that no file ever holds. It ends when it is closed."""
        store = cls.__new__(cls)
        store.path, store.notice = Path(":memory:"), None
        store._writer = store._reader = Connection(memory_database(), store.path)
        store._add_parts()
        return store

    def _add_parts(self) -> None:
        self.search = Search(self._reader)
        self.library = Library(self._writer, self._reader)
        self.presets = Presets(self._writer, self._reader)
        self.drafts = Drafts(self._writer, self._reader)
        self.trash = Trash(self._writer, self._reader, self._forget_words, self._drop_files)
        files = FileFolder(self.path.parent / "attachments")
        self.exchange = ExchangeStore(self._writer, self._reader, files, search_index.add_sessions)

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
        """Whether a chat or a message of this id is here, deleted ones too."""
        with self._reader.reading() as connection:
            query = "SELECT 1 FROM sessions WHERE id = ?1 UNION ALL SELECT 1 FROM messages WHERE id = ?1"
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
    ) -> Session:
        """A new session, empty but for a preset's examples. See ``new_session.create``."""
        with self._writer.transaction(durable=True) as connection:
            session_id = new_session.create(connection, system_prompt, params, model, preset_id, folder_id)
            return turns.session(connection, session_id)

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

    # -- reading the tree -------------------------------------------------------------------------------------------

    def message(self, message_id: str) -> Message:
        """One message, hidden ones too.

        Raises:
            SessionError: there is none.
        """
        with self._reader.reading() as connection:
            return turns.message(connection, message_id)

    def shown_branch(self, session_id: str) -> tuple[Session, list[Message]]:
        """A session and its messages from the root to the head.

        Raises:
            SessionError: there is no such session.
        """
        with self._reader.reading() as connection:
            found = turns.session(connection, session_id)
            return found, tree.path(connection, found.head_id) if found.head_id else []

    def paths(self, *message_ids: str) -> list[list[Message]]:
        """The branches that end at these messages, from the root down.

        Raises:
            SessionError: there is no such message.
        """
        with self._reader.reading() as connection:
            return [tree.path(connection, turns.message(connection, one).id) for one in message_ids]

    def prompt_path(self, message_id: str, fingerprint: str) -> PromptPath:
        """The branch that ends at ``message_id``, with the ids its messages had in prompts of that model."""
        with self._reader.reading() as connection:
            last = turns.message(connection, message_id)
            return _prompt_path(connection, turns.session(connection, last.session_id), message_id, fingerprint)

    def question_path(self, session_id: str, parent_id: str | None, fingerprint: str) -> PromptPath:
        """The branch that a question sent under ``parent_id`` would follow. See ``turns.add_question``.

        Raises:
            SessionError: there is no such session, or the parent cannot have a question under it.
        """
        with self._reader.reading() as connection:
            found = turns.session(connection, session_id)
            place = turns.question_place(connection, session_id, parent_id) if parent_id is not None else None
            return _prompt_path(connection, found, place, fingerprint)

    def branch_tokens(self, session_id: str, message_id: str | None, fingerprint: str) -> list[int]:
        """Stored ids of a branch (the shown one when ``message_id`` is None), up to the first message without ids.

        Raises:
            SessionError: there is no such session, or the message is not in it.
        """
        last_id = message_id or self.session(session_id).head_id
        if last_id is None:
            return []
        path = self.prompt_path(last_id, fingerprint)
        if path.session.id != session_id:
            raise SessionError("This message is not in this chat.")
        if path.session.system_prompt is not None and path.system_ids is None:
            return []
        tokens = list(path.system_ids or []) if path.session.system_prompt is not None else []
        for one in path.messages:
            if not one.empty and one.id not in path.token_ids:
                break
            tokens += path.token_ids.get(one.id, [])
        return tokens

    # -- writing the tree -------------------------------------------------------------------------------------------

    def add_question(self, session_id: str, parent_id: str | None, text: str) -> tuple[Session, Message, Message]:
        """A user message and the row of its reply: (session, question, reply). See ``turns.add_question``."""
        return self.send_draft(session_id, session_id, parent_id, text)[:3]

    def send_draft(
        self, draft: str, session_id: str, parent_id: str | None, text: str
    ) -> tuple[Session, Message, Message, Draft | None]:
        """As ``add_question``, and the draft that this takes away, emptied; None if there was none.

        Args:
            draft: the chat whose draft this was; "" for the chat that had not begun.
        """
        with self._writer.transaction(durable=True) as connection:
            reply_id = turns.add_question(connection, session_id, parent_id, text)
            emptied = drafts.sent(connection, draft)
            reply = turns.message(connection, reply_id)
            assert reply.parent_id is not None
            return turns.session(connection, session_id), turns.message(connection, reply.parent_id), reply, emptied

    def add_reply(self, message_id: str) -> tuple[Session, Message]:
        """The row of another reply. See ``turns.add_reply``."""
        return self._add(turns.add_reply, message_id)

    def resume_reply(self, message_id: str) -> tuple[Session, Message]:
        """Open a reply that was cut off. See ``turns.resume_reply``."""
        return self._add(turns.resume_reply, message_id)

    def add_edit(self, message_id: str, text: str) -> tuple[Session, Message, Message | None, Draft | None]:
        """A sibling with another text: (session, sibling, reply to come or None, draft that this takes away or None).

        See ``turns.add_edit``.
        """
        with self._writer.transaction(durable=True) as connection:
            edited_id, reply_id = turns.add_edit(connection, message_id, text)
            edited = turns.message(connection, edited_id)
            emptied = drafts.sent(connection, edited.session_id, message_id)
            reply = turns.message(connection, reply_id) if reply_id else None
            return turns.session(connection, edited.session_id), edited, reply, emptied

    def select(self, message_id: str) -> tuple[str, str]:
        """Show the branch through a message, down to its last-used leaf: (session id, head id).

        Raises:
            SessionError: there is no such message, or it is hidden.
        """
        with self._writer.transaction(durable=True) as connection:
            target = turns.kept_message(connection, message_id)
            if target.hidden:
                raise SessionError("This reply ended without any text, so there is nothing to show.")
            leaf = tree.last_leaf(connection, target)
            turns.move_head(connection, target.session_id, leaf)
            return target.session_id, leaf

    def fork(self, message_id: str, mode: ForkMode) -> Session:
        """A new chat with copies of messages. See ``forks.fork``."""
        with self._writer.transaction(durable=True) as connection:
            return turns.session(connection, forks.fork(connection, message_id, mode))

    def save_partial(
        self,
        reply_id: str,
        content: str,
        generation: Generation | None = None,
        tokens: ReplyTokens | None = None,
        reasoning: str | None = None,
    ) -> None:
        """What a running reply has so far; survives a killed process."""
        with self._writer.transaction(durable=False) as connection:
            turns.write_reply(connection, reply_id, content, generation, tokens, reasoning)

    def finish_reply(
        self,
        reply_id: str,
        content: str,
        status: Status,
        error: str | None = None,
        generation: Generation | None = None,
        tokens: ReplyTokens | None = None,
        reasoning: str | None = None,
    ) -> tuple[Message, str | None]:
        """Store a reply's end: (reply, the session's new head if it moved back because there is no text)."""
        with self._writer.transaction(durable=True) as connection:
            turns.write_reply(connection, reply_id, content, generation, tokens, reasoning)
            head_id = turns.end_reply(connection, reply_id, status, error)
            reply = tree.message(connection, reply_id)
            assert reply is not None
            return reply, head_id

    def interrupt_running(self) -> int:
        """Mark replies that an earlier process left running as interrupted; returns how many there were."""
        with self._reader.reading() as connection:
            if connection.execute("SELECT 1 FROM messages WHERE status = 'streaming'").fetchone() is None:
                return 0
        with self._writer.transaction(durable=True) as connection:
            return turns.interrupt_running(connection)

    def _forget_words(self, connection: sqlite3.Connection, sessions: list[int], messages: list[int]) -> None:
        """Take rows that go for ever out of the search."""
        search_index.forget(connection, sessions, messages)

    def _drop_files(self, hashes: list[str]) -> None:
        """Remove files that nothing names any more."""

    def _add(self, write: Callable[..., str], message_id: str) -> tuple[Session, Message]:
        with self._writer.transaction(durable=True) as connection:
            reply = turns.message(connection, write(connection, message_id))
            return turns.session(connection, reply.session_id), reply


def _prompt_path(connection: sqlite3.Connection, session: Session, last_id: str | None, fingerprint: str) -> PromptPath:
    known = tree.token_ids(connection, last_id, fingerprint) if last_id is not None else []
    ids = {one: unpack(blob) for one, blob in known if blob is not None}
    query = "SELECT token_ids FROM system_tokens WHERE session_id = ? AND fingerprint = ?"
    row = connection.execute(query, [session.id, fingerprint]).fetchone()
    messages = tree.branch(connection, last_id) if last_id is not None else []
    cuts = tree.kept_from(connection, last_id) if last_id is not None else {}
    return PromptPath(session, messages, ids, unpack(row[0]) if row else None, cuts)
