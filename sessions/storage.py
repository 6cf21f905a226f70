"""What the chats take up on disk, chat by chat, and the copies of them. Measured in threads, on connections of its own.

Sizes of chats are those of what they hold: texts, token ids, files. A page of the database belongs to several chats, so
that these add up to less than the file.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from .backups import Backup, list_backups
from .errors import SessionError, backup_folder, explained
from .library_service import LibraryService
from .pages import log_of, real, size_of
from .reading import reading
from .service_core import ServiceCore
from .titles import UNTITLED
from .views import View

LARGEST = 12
"""Chats that are listed by size."""

_SIZES = """
WITH texts AS (
    SELECT session_id, sum(length(CAST(content AS BLOB)) + coalesce(length(CAST(reasoning AS BLOB)), 0)) AS size,
           count(*) AS messages FROM messages GROUP BY session_id
), ids AS (
    SELECT m.session_id, sum(length(t.token_ids)) AS size
    FROM message_tokens t JOIN messages m ON m.id = t.message_id GROUP BY m.session_id
), files AS (
    SELECT session_id, sum(size) AS size FROM attachments WHERE deleted_at IS NULL GROUP BY session_id
)
SELECT s.id, s.title, s.deleted_at, coalesce(texts.messages, 0) AS messages,
       coalesce(texts.size, 0) + coalesce(ids.size, 0) AS size, coalesce(files.size, 0) AS file_size
FROM sessions s LEFT JOIN texts ON texts.session_id = s.id LEFT JOIN ids ON ids.session_id = s.id
LEFT JOIN files ON files.session_id = s.id ORDER BY s.key
"""


class StorageService:
    """What the database, its files and its copies take up.

    Args:
        core: whose store it is.
        library: deletes chats for good.
    """

    def __init__(self, core: ServiceCore, library: LibraryService) -> None:
        self._core = core
        self._library = library
        self._path = core.store.path

    async def measure(self) -> View:
        """Sizes in bytes, of a chat database that may be in use.

        Returns:
            "database", "files", "backups": {"path", "size"}; "chats" and "messages" are counts; "trash": {"chats",
            "branches", "size"}; "largest": {"id", "title", "messages", "size"} of the largest chats; "copies": see
            `copies`.
        """
        rows = await asyncio.to_thread(self._rows)
        kept, gone = [row for row in rows if row["deleted_at"] is None], [row for row in rows if row["deleted_at"]]
        trash = await self._core.read(self._core.store.trash.branches)
        copies = await self.copies()
        files = self._path.parent / "attachments"
        return {
            "database": {"path": str(self._path), "size": await asyncio.to_thread(_database_size, self._path)},
            "files": {"path": str(files), "size": await asyncio.to_thread(folder_size, files)},
            "backups": {"path": str(backup_folder(self._path)), "size": sum(one["size"] for one in copies)},
            "chats": len(kept),
            "messages": sum(row["messages"] for row in kept),
            "trash": {"chats": len(gone), "branches": len(trash), "size": sum(map(_size, gone))},
            "largest": [
                {"id": row["id"], "title": row["title"] or UNTITLED, "messages": row["messages"], "size": _size(row)}
                for row in sorted(kept, key=_size, reverse=True)[:LARGEST]
            ],
            "copies": copies,
        }

    async def copies(self) -> list[View]:
        """The copies of the database, the newest first: see ``Backup``; ``removable`` is not the newest sound one."""
        found = await asyncio.to_thread(list_backups, self._path)
        removable = _removable(found)
        return [_copy_view(one, removable=one.name in removable) for one in found]

    async def back_up(self) -> list[View]:
        """Copy the database now; the copies as they are then.

        Raises:
            StoreError: no room, or the copy would not be sound.
        """
        await asyncio.to_thread(self._core.store.backup)
        return await self.copies()

    async def delete_copy(self, name: str) -> list[View]:
        """Delete a copy for good; the copies as they are then.

        Raises:
            SessionError: there is none of that name, or it is the newest one that can be restored.
            StoreError: it cannot be deleted.
        """
        await asyncio.to_thread(self._delete_copy, name)
        return await self.copies()

    async def empty_trash(self) -> int:
        """Delete for good what is in the trash; returns how many chats and branches that was."""
        trash = self._core.store.trash
        chats, branches = await self._core.read(trash.sessions), await self._core.read(trash.branches)
        ids = [one.id for one in (*chats, *branches)]
        await self._library.purge(ids)
        return len(ids)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _rows(self) -> list[sqlite3.Row]:
        with reading(self._path) as connection:
            return connection.execute(_SIZES).fetchall()

    def _delete_copy(self, name: str) -> None:
        found = list_backups(self._path)
        wanted = next((one for one in found if one.name == name), None)
        if wanted is None:
            raise SessionError("This copy does not exist any more.")
        if name not in _removable(found):
            raise SessionError("This is the newest copy that can be restored, so it stays; make another one first.")
        with explained(self._path):
            wanted.path.unlink()


def folder_size(folder: Path) -> int:
    """Bytes of all files below a folder; what cannot be read counts as nothing."""
    total, waiting = 0, [folder]
    while waiting:
        try:
            entries = list(waiting.pop().iterdir())
        except OSError:
            continue
        for one in entries:
            if one.is_dir() and not one.is_symlink():
                waiting.append(one)
            else:
                total += size_of(one)
    return total


def _removable(found: Iterable[Backup]) -> set[str]:
    """All copies but the newest one without a problem."""
    copies = list(found)
    newest = next((one.name for one in copies if one.problem is None), None)
    return {one.name for one in copies if one.name != newest}


def _copy_view(copy: Backup, *, removable: bool) -> View:
    return {**asdict(copy), "path": str(copy.path), "name": copy.name, "removable": removable}


def _database_size(path: Path) -> int:
    place = real(path)
    return size_of(place) + size_of(log_of(place))


def _size(row: sqlite3.Row) -> int:
    return row["size"] + row["file_size"]
