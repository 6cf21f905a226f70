"""Folders for chats: a name, and the chats that name it. Deleting one only takes the name away, and can be undone."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from .connection import Connection
from .errors import SessionError
from .ids import new_id, now

_FOLDERS = """
SELECT f.id, f.name, f.created_at,
       (SELECT count(*) FROM sessions s WHERE s.folder_id = f.id AND s.deleted_at IS NULL)
FROM folders f WHERE f.deleted_at IS NULL
"""


@dataclass(slots=True)
class Folder:
    """A folder; ``sessions`` counts its chats that are not in the trash."""

    id: str
    name: str
    created_at: str
    sessions: int


class Library:
    """The folders of one store.

    Args:
        writer, reader: the store's connections.
    """

    def __init__(self, writer: Connection, reader: Connection) -> None:
        self._writer = writer
        self._reader = reader

    def folders(self) -> list[Folder]:
        """All folders that are not deleted, by name."""
        with self._reader.reading() as connection:
            found = [Folder(*row) for row in connection.execute(_FOLDERS)]
        return sorted(found, key=lambda one: (one.name.casefold(), one.id))

    def add_folder(self, name: str) -> str:
        """Make a folder; returns its id.

        Raises:
            SessionError: there is one of that name, however it is capitalized.
        """
        folder_id = new_id()
        with self._writer.transaction(durable=True) as connection:
            _check_free(connection, name, folder_id)
            connection.execute("INSERT INTO folders (id, name, created_at) VALUES (?, ?, ?)", [folder_id, name, now()])
        return folder_id

    def rename_folder(self, folder_id: str, name: str) -> None:
        """Give a folder another name.

        Raises:
            SessionError: there is no such folder, or another one of that name.
        """
        with self._writer.transaction(durable=True) as connection:
            check_folder(connection, folder_id)
            _check_free(connection, name, folder_id)
            connection.execute("UPDATE folders SET name = ? WHERE id = ?", [name, folder_id])

    def delete_folder(self, folder_id: str) -> None:
        """Take a folder away; its chats stay, and are in no folder.

        Raises:
            SessionError: there is no such folder.
        """
        with self._writer.transaction(durable=True) as connection:
            check_folder(connection, folder_id)
            connection.execute("UPDATE folders SET deleted_at = ? WHERE id = ?", [now(), folder_id])

    def undelete_folder(self, folder_id: str) -> None:
        """Bring a deleted folder back, with the chats that were in it and have not moved since.

        Raises:
            SessionError: there is no such folder, or one of that name by now.
        """
        with self._writer.transaction(durable=True) as connection:
            row = connection.execute("SELECT name FROM folders WHERE id = ?", [folder_id]).fetchone()
            if row is None:
                raise SessionError("This folder does not exist any more; reload the page to see which there are.")
            _check_free(connection, row[0], folder_id)
            connection.execute("UPDATE folders SET deleted_at = NULL WHERE id = ?", [folder_id])


def check_folder(connection: sqlite3.Connection, folder_id: str) -> None:
    """Refuse a folder that is not there.

    Raises:
        SessionError: there is none, or it is deleted.
    """
    query = "SELECT 1 FROM folders WHERE id = ? AND deleted_at IS NULL"
    if connection.execute(query, [folder_id]).fetchone() is None:
        raise SessionError("This folder does not exist any more; choose another one.")


def _check_free(connection: sqlite3.Connection, name: str, folder_id: str) -> None:
    """SQLite's own comparison knows the case of ASCII letters only."""
    others = connection.execute("SELECT name FROM folders WHERE deleted_at IS NULL AND id != ?", [folder_id])
    for (other,) in others:
        if other.casefold() == name.casefold():
            raise SessionError(f'There is a folder "{other}" already; choose another name.')
