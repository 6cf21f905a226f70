"""How much memory a device has, and how much of it is free for us."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from ..kernels.cpu.control_groups import OWN, ROOT, group_folders, read_number


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes of one device."""

    free: int
    total: int


def device_memory(device: str) -> DeviceMemory:
    """Memory of ``device`` (``cpu``, ``cuda:0``, …) as it is now, other programs' share taken off; on a CPU what the
    container or ``ulimit -v`` allows."""
    if device.startswith("cuda"):
        import torch

        free, total = torch.cuda.mem_get_info(torch.device(device))
        return DeviceMemory(free, total)
    machine = psutil.virtual_memory()
    free, total = machine.available, machine.total
    for limit, used in [*group_limits(), *_process_limits()]:
        total = min(total, limit)
        free = min(free, max(0, limit - used))
    return DeviceMemory(free, total)


def group_limits(root: Path = ROOT, own: Path = OWN) -> list[tuple[int, int]]:
    """(limit, used) in bytes of each control group above this process that limits memory; file pages that the kernel
    can drop are not in use."""
    found = []
    for folder in group_folders("memory", root, own):
        for limit_file, used_file, droppable in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, used = read_number(folder / limit_file), read_number(folder / used_file)
            if limit is not None and used is not None:
                found.append((limit, max(0, used - _stat(folder / "memory.stat", droppable))))
    return found


def _stat(file: Path, name: str) -> int:
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0


def _process_limits() -> list[tuple[int, int]]:
    """(limit, used) in bytes of ``ulimit -v``, if it is set."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            return [(limit, psutil.Process().memory_info().vms)]
    return []


def give_back_freed() -> None:
    """Hand memory that is free, but kept by the C library, back to the system. Does nothing where that cannot be said
    (glibc can)."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
