"""Looks for what must not be on any disk."""

from __future__ import annotations

import os
from pathlib import Path

SECRET = "xylophone-secret-9714"


def text_on_disk(folder: Path) -> list[str]:
    """Files under a folder, and files this process holds open, that contain the secret."""
    files = {one for one in folder.rglob("*") if one.is_file()}
    for link in Path("/proc/self/fd").iterdir() if Path("/proc/self/fd").is_dir() else ():
        target = os.path.realpath(link)
        if "sessions" in target or "etilqs" in target or target.endswith(".db"):
            files.add(Path(f"/proc/self/fd/{link.name}") if "(deleted)" in target else Path(target))
    return [str(one) for one in files if one.exists() and SECRET.encode() in one.read_bytes()]
