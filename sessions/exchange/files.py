"""The contents of attachments, each a file named by its SHA-256."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from ..errors import explained


class FileFolder:
    """A folder of contents. The same content is stored once, whatever it is called."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, sha256: str) -> bytes | None:
        """The content; None if it is gone."""
        try:
            return (self.path / sha256).read_bytes()
        except OSError:
            return None

    def keep(self, data: bytes) -> str:
        """Store content and return its hash; it is on disk when this returns.

        Raises:
            StoreError: the folder cannot be written, or the disk is full.
        """
        with explained(self.path):
            return self._keep(data)

    def _keep(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        target = self.path / sha256
        if target.exists() and target.stat().st_size == len(data):
            return sha256
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = self.path / f"{sha256}.{secrets.token_hex(4)}.part"
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return sha256
