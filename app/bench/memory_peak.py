"""How much memory this process held at most."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import psutil

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak() -> bool:
    """Let the peak begin anew; False where the system knows no way (the peak is then that of the process's life)."""
    with suppress(OSError):
        CLEAR.write_text("5", encoding="ascii")
        return True
    return False


def peak_memory() -> int:
    """Most resident bytes since `reset_peak`."""
    with suppress(OSError, StopIteration, ValueError):
        lines = STATUS.read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024
    with suppress(ImportError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    info = psutil.Process().memory_info()
    return getattr(info, "peak_wset", info.rss)
