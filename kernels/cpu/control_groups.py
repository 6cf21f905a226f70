"""The control groups this process is in, of either version: where the limits of a container are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def group_folders(controller: str, root: Path = ROOT, own: Path = OWN) -> Iterator[Path]:
    """Folders that may hold the files of ``controller`` (``cpu``, ``memory``), from the process's own group upwards.

    A limit holds for all groups below it, so the tightest one on the way up counts. Version 1 has a tree for each
    controller, version 2 one for all; a machine may have both. In a container the path that the kernel names is often
    not mounted: then only the root of the tree is there.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            trees = [root, root / "unified"]
        elif controller in controllers.split(","):
            trees = [root / name for name in dict.fromkeys((controllers, controller))]
        else:
            continue
        for tree in trees:
            folder = tree / path.lstrip("/")
            yield folder
            while folder != tree and tree in folder.parents:
                folder = folder.parent
                yield folder


def read_number(file: Path) -> int | None:
    """The number in a file; None when there is none, or it says ``max``."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
