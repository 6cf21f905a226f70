"""How much memory a device has, and how much of it is free for us."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

CGROUPS = ((Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),)


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes of one device."""

    free: int
    total: int


def device_memory(device: str) -> DeviceMemory:
    """Memory of ``device`` (``cpu``, ``cuda:0``, …); on a CPU what the container or ``ulimit -v`` allows."""
    if device.startswith("cuda"):
        import torch

        free, total = torch.cuda.mem_get_info(torch.device(device))
        return DeviceMemory(free, total)
    machine = psutil.virtual_memory()
    free, total = machine.available, machine.total
    for limit, used in _limits():
        total = min(total, limit)
        free = min(free, max(0, limit - used))
    return DeviceMemory(free, total)


def _limits() -> list[tuple[int, int]]:
    """(limit, used) in bytes of everything that caps this process."""
    found = []
    for limit_file, used_file in CGROUPS:
        with suppress(OSError, ValueError):
            found.append((int(limit_file.read_text()), int(used_file.read_text())))
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            found.append((limit, psutil.Process().memory_info().vms))
    return found
