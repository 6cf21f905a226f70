"""How many threads to use, and a team of them that runs one function side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

MAX_THREADS = 32


def default_threads() -> int:
    """Physical cores that this process may use: its affinity, its cgroup's share, one thread a core.

    ``PAGEDCHAT_NUM_THREADS`` overrides.
    """
    wanted = os.environ.get("PAGEDCHAT_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = {core_of(cpu) for cpu in cpus}
    limit = cgroup_cpus()
    count = len(cores) if limit is None else min(len(cores), max(1, int(limit)))
    return max(1, min(count, MAX_THREADS))


def core_of(cpu: int) -> tuple[str, str]:
    """Package and core of a logical processor; the processor itself where the system does not say."""
    topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    try:
        return (topology / "physical_package_id").read_text().strip(), (topology / "core_id").read_text().strip()
    except OSError:
        return "", str(cpu)


def cgroup_cpus(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float | None:
    """Processors that the control group allows, or None without a limit."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    paths = [line.split("::", 1)[1].lstrip("/") for line in lines if line.startswith("0::")]
    limits = []
    for path in paths:
        folder = root / path
        while True:
            limits += [quota for quota in [read_quota(folder / "cpu.max")] if quota is not None]
            if folder == root or root not in folder.parents:
                break
            folder = folder.parent
    return min(limits) if limits else None


def read_quota(file: Path) -> float | None:
    """Processors in a ``cpu.max`` file, or None when it sets no limit."""
    try:
        quota, period = file.read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


class Team:
    """Threads that call one function together: ``function(thread, threads, *arguments)``.

    The function shares its work in stages and returns, on any thread, when all of it is done. The caller therefore
    goes on as soon as its own call returns; a thread that comes late finds nothing left to do. Between calls the
    threads sleep.
    """

    def __init__(self, threads: int):
        self.threads = threads
        self._queues: list[SimpleQueue] = [SimpleQueue() for _ in range(threads - 1)]
        self._lock = threading.Lock()
        for index, queue in enumerate(self._queues, start=1):
            name = f"pagedchat-kernels-{index}"
            threading.Thread(target=serve, args=(queue, index, threads), name=name, daemon=True).start()

    def run(self, function: Callable, *arguments) -> None:
        """Runs ``function`` on this thread and lets the others help; returns when the work is done."""
        with self._lock:
            for queue in self._queues:
                queue.put((function, arguments))
            function(0, self.threads, *arguments)

    def close(self) -> None:
        """Ends the threads."""
        with self._lock:
            for queue in self._queues:
                queue.put(None)
            self._queues = []


def serve(queue: SimpleQueue, index: int, threads: int) -> None:
    """Body of a team's thread."""
    while True:
        work = queue.get()
        if work is None:
            return
        function, arguments = work
        function(index, threads, *arguments)
        del work, function, arguments
