"""Files that were sent with messages: rows in the database, contents in a folder beside it, named by their SHA-256.

A content is whole and on disk before a row names it, and is stored once however often it is attached. It goes only when
no row names it any more: at a purge, or at a start when it has been without a row for a day.
"""

from __future__ import annotations

import mimetypes
import re
import sqlite3
import time
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, fields

from ..engine.sizes import size_in_words
from . import turns
from .checks import clean_text
from .connection import Connection
from .errors import SessionError
from .exchange.files import FileFolder
from .ids import new_id, now
from .sent_files import Sent

SIZE_LIMIT = 32 << 20
"""Bytes of one file."""
GRACE_S = 24 * 3600.0
"""A content without a row may be one whose row is about to come."""

_NAME_LIMIT = 120
_UNKNOWN = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9.+-]+")
_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Controls, marks that turn the direction of text, halves of characters, breaks of lines."""


@dataclass(slots=True)
class Attachment:
    """A file of a chat.

    Attributes:
        message_id: the message it was sent with; None for one of a draft.
        size: bytes.
    """

    id: str
    session_id: str
    message_id: str | None
    name: str
    media_type: str
    size: int
    sha256: str
    created_at: str
    deleted_at: str | None


_COLUMNS = ", ".join(one.name for one in fields(Attachment))
COPY_FILE = """
INSERT INTO attachments (id, session_id, message_id, name, media_type, size, sha256, created_at)
SELECT :new, coalesce(:session, session_id), :message, name, media_type, size, sha256, created_at
FROM attachments WHERE id = :old
"""
"""A copy for another message, of another chat if ``session`` names one."""


class Attachments:
    """The attachments of one store.

    Args:
        writer, reader: the store's connections.
        files: where the contents are.
    """

    def __init__(self, writer: Connection, reader: Connection, files: FileFolder) -> None:
        self._writer = writer
        self._reader = reader
        self._files = files

    def add(self, session_id: str, name: str, data: bytes, media_type: str = "", most: int | None = None) -> Attachment:
        """Keep a file for a message that is not sent yet.

        Args:
            name: as the user's computer calls it; folders before it are left out.
            media_type: what the browser says; else the name tells.
            most: so many files of one message; None sets no limit.

        Raises:
            SessionError: it is too large, as many files wait already, or there is no such chat.
            StoreError: the disk is full or the folder cannot be written.
        """
        name = clean_name(name)
        if len(data) > SIZE_LIMIT:
            size, limit = size_in_words(len(data)), size_in_words(SIZE_LIMIT)
            raise SessionError(f'"{name}" has {size}, but a file may have {limit}; attach a smaller one.')
        sha256 = self._files.keep(data)
        with self._writer.transaction(durable=True) as connection:
            turns.session(connection, session_id)
            if most is not None and len(_waiting(connection, session_id)) >= most:
                raise SessionError(f"A message can have {most} files; send these first, or remove one.")
            if not self._files.has(sha256):  # a purge has removed it since
                self._files.keep(data)
            found = Attachment(
                new_id(), session_id, None, name, media_type_of(name, media_type), len(data), sha256, now(), None
            )
            values = [getattr(found, one.name) for one in fields(Attachment)]
            connection.execute(f"INSERT INTO attachments ({_COLUMNS}) VALUES ({', '.join('?' * len(values))})", values)
            return found

    def find(self, attachment_id: str) -> Attachment:
        """One file, deleted or not.

        Raises:
            SessionError: there is none.
        """
        with self._reader.reading() as connection:
            return _attachment(connection, attachment_id)

    def waiting(self, session_id: str) -> list[Attachment]:
        """Files of a chat's draft, in the order they were attached: those of no message, nor of one that waits."""
        with self._reader.reading() as connection:
            return _waiting(connection, session_id)

    def of_session(self, session_id: str) -> list[Attachment]:
        """All files of a chat that are not deleted, those of its draft too, in the order they were attached."""
        query = f"SELECT {_COLUMNS} FROM attachments WHERE session_id = ? AND deleted_at IS NULL ORDER BY key"
        with self._reader.reading() as connection:
            return [Attachment(*row) for row in connection.execute(query, [session_id])]

    def read(self, attachment_id: str) -> tuple[Attachment, bytes]:
        """A file and its content.

        Raises:
            SessionError: there is no such file, or its content is missing or not what was attached.
        """
        with self._reader.reading() as connection:
            found = _attachment(connection, attachment_id)
        data = self._files.read(found.sha256)
        if data is None:
            raise SessionError(f'The content of "{found.name}" is missing in {self._files.place}; attach it again.')
        if self._files.name_of(data) != found.sha256:
            raise SessionError(f'The content of "{found.name}" is damaged on disk; attach it again.')
        return found, data

    def set_deleted(self, attachment_id: str, deleted: bool) -> Attachment:
        """Take a file away from its message or draft, or bring it back.

        Raises:
            SessionError: there is no such file, or it goes with a message that waits.
        """
        with self._writer.transaction(durable=True) as connection:
            _check_unclaimed(connection, _attachment(connection, attachment_id))
            moment = now() if deleted else None
            connection.execute("UPDATE attachments SET deleted_at = ? WHERE id = ?", [moment, attachment_id])
            return _attachment(connection, attachment_id)

    def remove_unused(self, hashes: Iterable[str]) -> None:
        """Remove those contents that no row names."""
        with self._writer.transaction(durable=False) as connection:
            for sha256 in set(hashes):
                if not is_named(connection, sha256):
                    self._files.remove(sha256)

    def sweep(self, grace_s: float = GRACE_S) -> int:
        """Remove contents that have had no row for a while, and what a killed program left half-written.

        Returns how many.

        Args:
            grace_s: seconds since a content was written.
        """
        old = self._files.older_than(time.time() - grace_s)
        if not old:
            return 0
        with self._writer.transaction(durable=False) as connection:
            unused = [name for name in old if not is_named(connection, name)]
            for name in unused:
                self._files.remove(name)
        return len(unused)


def _waiting(connection: sqlite3.Connection, session_id: str) -> list[Attachment]:
    query = (
        f"SELECT {_COLUMNS} FROM attachments WHERE session_id = ?1 AND message_id IS NULL AND deleted_at IS NULL "
        "AND id NOT IN (SELECT value FROM queued, json_each(queued.files) WHERE session_id = ?1) ORDER BY key"
    )
    return [Attachment(*row) for row in connection.execute(query, [session_id])]


def attach(connection: sqlite3.Connection, session_id: str, message_id: str, attachment_ids: Iterable[str]) -> None:
    """Give files of a draft to the message that was made of it.

    Raises:
        SessionError: one of them is not there, or belongs to another chat or message, be it one that waits.
    """
    for attachment_id in dict.fromkeys(attachment_ids):
        found = _attachment(connection, attachment_id)
        if found.session_id != session_id or found.message_id is not None or found.deleted_at is not None:
            raise SessionError(not_with_this(found))
        _check_unclaimed(connection, found)
        connection.execute("UPDATE attachments SET message_id = ? WHERE id = ?", [message_id, attachment_id])


def claim(connection: sqlite3.Connection, session_id: str, attachment_ids: Iterable[str]) -> list[str]:
    """Have files of a draft go with a message that is about to wait; those that went away with it before come back.

    Returns:
        Their ids, each once.

    Raises:
        SessionError: one of them is not there, or belongs to another chat or message, be it one that waits.
    """
    ids = list(dict.fromkeys(attachment_ids))
    for attachment_id in ids:
        found = _attachment(connection, attachment_id)
        if found.session_id != session_id or found.message_id is not None:
            raise SessionError(not_with_this(found))
        _check_unclaimed(connection, found)
    set_removed(connection, session_id, ids, False)
    return ids


def not_with_this(file: Attachment | None) -> str:
    """Why a file does not go with a message: the sentence. None is one that its chat does not have."""
    name = f'"{file.name}"' if file else "A file"
    return f"{name} cannot be sent with this message; attach it again."


def set_removed(connection: sqlite3.Connection, session_id: str, attachment_ids: Iterable[str], removed: bool) -> None:
    """Take files of a chat away with the message that waits with them, or bring them back with it.

    Raises:
        SessionError: there is no such file.
    """
    for attachment_id in attachment_ids:
        _attachment(connection, attachment_id)
        connection.execute(
            "UPDATE attachments SET deleted_at = ? WHERE id = ? AND session_id = ? AND message_id IS NULL",
            [now() if removed else None, attachment_id, session_id],
        )


def put_sent(connection: sqlite3.Connection, message_id: str, sent: Sent | None) -> None:
    """Put down what prompts have around the content of a message; it stays so for ever."""
    if sent is not None:
        columns = "sent_before = ?, sent_after = ?, sources = ?"
        connection.execute(f"UPDATE messages SET {columns} WHERE id = ?", [*sent.columns(), message_id])


def copy_files(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Give the files of a message to another one of its chat, too."""
    rows = connection.execute(
        "SELECT id FROM attachments WHERE message_id = ? AND deleted_at IS NULL ORDER BY key", [old]
    ).fetchall()
    connection.executemany(
        COPY_FILE, [{"new": new_id(), "old": row[0], "session": None, "message": new} for row in rows]
    )


def clean_name(name: str) -> str:
    """A file's name in any script, on one line, without folders and without signs that nobody sees."""
    last = re.split(r"[/\\]", clean_text(name))[-1]
    kept = "".join(one for one in last if unicodedata.category(one) not in _INVISIBLE or one in "\u200c\u200d")
    line = " ".join(kept.split()).strip(". ")
    if len(line) > _NAME_LIMIT:
        stem, dot, ending = line.rpartition(".")
        ending = dot + ending if dot and len(ending) <= 10 else ""
        line = (stem if ending else line)[: _NAME_LIMIT - len(ending)] + ending
    return line or "file"


def media_type_of(name: str, told: str) -> str:
    """The media type that a browser or another program tells; else what the name says."""
    told = told.split(";")[0].strip().lower()
    if _MEDIA_TYPE.fullmatch(told):
        return told
    return mimetypes.guess_type(name)[0] or _UNKNOWN


def _attachment(connection: sqlite3.Connection, attachment_id: str) -> Attachment:
    row = connection.execute(f"SELECT {_COLUMNS} FROM attachments WHERE id = ?", [attachment_id]).fetchone()
    if row is None:
        raise SessionError("This file does not exist any more; attach it again.")
    return Attachment(*row)


def _check_unclaimed(connection: sqlite3.Connection, file: Attachment) -> None:
    """A file goes with one message: that it was sent with, or one that waits.

    Raises:
        SessionError: a message waits with it.
    """
    claimed = "SELECT 1 FROM queued, json_each(queued.files) WHERE session_id = ? AND value = ?"
    if connection.execute(claimed, [file.session_id, file.id]).fetchone() is not None:
        raise SessionError(f'"{file.name}" goes with a message that waits; take that back, or attach the file again.')


def is_named(connection: sqlite3.Connection, sha256: str) -> bool:
    """Whether any row, deleted or not, has this content."""
    return connection.execute("SELECT 1 FROM attachments WHERE sha256 = ? LIMIT 1", [sha256]).fetchone() is not None
