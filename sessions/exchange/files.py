"""The contents of attachments, each a file named by its SHA-256."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from ..backups import sync_folder
from ..errors import SessionError, explained


class FileFolder:
    """A folder of contents. The same content is stored once, whatever it is called.

    Args:
        path: None for chats that leave nothing on disk: such a folder takes and has nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        """Where it is.

        Raises:
            SessionError: nowhere.
        """
        if self._path is None:
            raise SessionError("A temporary chat takes no files; begin an ordinary one.")
        return self._path

    def read(self, sha256: str) -> bytes | None:
        """The content; None if it is gone."""
        if self._path is None:
            return None
        try:
            return (self._path / sha256).read_bytes()
        except OSError:
            return None

    def has(self, sha256: str) -> bool:
        """Whether there is a content of that name."""
        return self._path is not None and (self._path / sha256).is_file()

    @staticmethod
    def name_of(data: bytes) -> str:
        """What a content is called."""
        return hashlib.sha256(data).hexdigest()

    def remove(self, name: str) -> None:
        """Remove a content, or what is left of one that was never whole; nothing happens if it is not there."""
        if self._path is not None:
            with explained(self._path):
                (self._path / name).unlink(missing_ok=True)

    def older_than(self, moment: float) -> list[str]:
        """Names of files written before a moment (seconds since 1970)."""
        if self._path is None or not self._path.is_dir():
            return []
        with explained(self._path), os.scandir(self._path) as entries:
            return [one.name for one in entries if one.is_file() and one.stat().st_mtime < moment]

    def keep(self, data: bytes) -> str:
        """Store content and return its hash; it is on disk when this returns.

        Raises:
            StoreError: the folder cannot be written, or the disk is full.
        """
        with explained(self.path):
            return self._keep(data)

    def _keep(self, data: bytes) -> str:
        sha256 = self.name_of(data)
        target = self.path / sha256
        if target.exists() and self.read(sha256) == data:
            os.utime(target)  # it is as good as new: nobody removes it before its row is there
            return sha256
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = self.path / f"{sha256}.{secrets.token_hex(4)}.part"
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
            sync_folder(self.path)
        finally:
            part.unlink(missing_ok=True)
        return sha256
