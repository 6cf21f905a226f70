"""The contents of attachments, each a file named by its SHA-256."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from ...engine.sizes import size_in_words
from ..backups import sync_folder
from ..errors import SessionError, explained

MOST_IN_MEMORY = 128 << 20
"""Bytes of the files of all temporary chats."""


class FileFolder:
    """A folder of contents. The same content is stored once, whatever it is called.

    Args:
        path: None for chats that leave nothing on disk: their files are in memory.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._memory: dict[str, bytes] = {}

    @property
    def place(self) -> str:
        """Where it is, for a sentence."""
        return "memory" if self._path is None else str(self._path)

    def read(self, sha256: str) -> bytes | None:
        """The content; None if it is gone."""
        if self._path is None:
            return self._memory.get(sha256)
        try:
            return (self._path / sha256).read_bytes()
        except OSError:
            return None

    def has(self, sha256: str) -> bool:
        """Whether there is a content of that name."""
        return sha256 in self._memory if self._path is None else (self._path / sha256).is_file()

    @staticmethod
    def name_of(data: bytes) -> str:
        """What a content is called."""
        return hashlib.sha256(data).hexdigest()

    def remove(self, name: str) -> None:
        """Remove a content, or what is left of one that was never whole; nothing happens if it is not there."""
        if self._path is None:
            self._memory.pop(name, None)
            return
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
            SessionError: memory holds no more.
        """
        if self._path is None:
            return self._keep_in_memory(data)
        with explained(self._path):
            return self._keep(self._path, data)

    def _keep_in_memory(self, data: bytes) -> str:
        sha256 = self.name_of(data)
        if sha256 not in self._memory and len(data) + sum(map(len, self._memory.values())) > MOST_IN_MEMORY:
            limit = size_in_words(MOST_IN_MEMORY)
            raise SessionError(f"Temporary chats can hold {limit} of files in all; use an ordinary chat for more.")
        self._memory[sha256] = data
        return sha256

    def _keep(self, folder: Path, data: bytes) -> str:
        sha256 = self.name_of(data)
        target = folder / sha256
        if target.exists() and self.read(sha256) == data:
            os.utime(target)  # it is as good as new: nobody removes it before its row is there
            return sha256
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = folder / f"{sha256}.{secrets.token_hex(4)}.part"
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
            sync_folder(folder)
        finally:
            part.unlink(missing_ok=True)
        return sha256
