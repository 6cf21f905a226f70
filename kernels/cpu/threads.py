"""How many threads to use, and a team of them that runs one function side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from .control_groups import OWN, ROOT, group_folders, read_number

MAX_THREADS = 32
LIBRARY_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


def default_threads() -> int:
    """Physical cores that this process may use: its affinity, its control group's share, one thread a core."""
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


def cgroup_cpus(root: Path = ROOT, own: Path = OWN) -> float | None:
    """Processors that the control groups allow, or None without a limit."""
    quotas = [read_quota(folder) for folder in group_folders("cpu", root, own)]
    return min((quota for quota in quotas if quota is not None), default=None)


def read_quota(folder: Path) -> float | None:
    """Processors that a control group allows, in ``cpu.max`` or the two files before it; None when it sets no limit."""
    quota, period = read_number(folder / "cpu.cfs_quota_us"), read_number(folder / "cpu.cfs_period_us")
    with suppress(OSError, ValueError):
        quota, period = map(int, (folder / "cpu.max").read_text().split())
    return quota / period if quota and period and quota > 0 and period > 0 else None


def limit_libraries(threads: int) -> None:
    """Keep libraries that are not loaded yet (BLAS, OpenMP, the tokenizers) from starting a thread for every processor
    of the machine; what the user has said of them stands."""
    for name in LIBRARY_VARIABLES:
        os.environ.setdefault(name, str(threads))


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
