"""Hashes of large files, remembered in the cache folder: a start need not read a gigabyte to know it again.

A hash counts only for a file of the same place, size, times and inode. Nobody but the system sets the time of the last
change of an inode, so contents that change in place are noticed even where their own time is set back.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from platformdirs import user_cache_path

FOLDER = "fingerprints"
LEAST_BYTES = 1 << 24
"""Smaller files are hashed in no time."""
SETTLED_S = 3.0
"""A file that has just changed may change again without another time, as clocks of file systems tick slowly."""


def known_digest(path: Path, read: Callable[[], bytes]) -> bytes:
    """The digest of ``path``: what was remembered, else what ``read`` gives, which is remembered then if it may be."""
    before = _stamp(path)
    if before["size"] < LEAST_BYTES:
        return read()
    note = user_cache_path("pagedchat", appauthor=False) / FOLDER / f"{_name(path)}.json"
    found = _remembered(note, before)
    if found is not None:
        return found
    digest = read()
    settled = time.time_ns() - max(before["mtime_ns"], before["ctime_ns"]) > SETTLED_S * 1e9
    if settled and _stamp(path) == before:
        with suppress(OSError):
            _write(note, json.dumps({"file": str(path), "digest": digest.hex(), **before}))
    return digest


def _stamp(path: Path) -> dict[str, int]:
    told = path.stat()
    return {
        "device": told.st_dev,
        "inode": told.st_ino,
        "size": told.st_size,
        "mtime_ns": told.st_mtime_ns,
        "ctime_ns": told.st_ctime_ns,
    }


def _name(path: Path) -> str:
    return hashlib.blake2b(os.fsencode(path.absolute()), digest_size=16).hexdigest()


def _remembered(note: Path, stamp: dict[str, int]) -> bytes | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        told = json.loads(note.read_text("utf-8"))
        if {name: told[name] for name in stamp} == stamp:
            return bytes.fromhex(told["digest"])
    return None


def _write(note: Path, text: str) -> None:
    note.parent.mkdir(parents=True, exist_ok=True)
    part = note.with_suffix(f".{os.getpid()}")
    part.write_text(text, "utf-8")
    part.replace(note)
