"""The processor that code is built for: this one, or the one that Numba was told of (`NUMBA_CPU_NAME`)."""

from __future__ import annotations

import platform

from llvmlite import binding
from numba import config

IS_X86 = platform.machine().lower() in ("x86_64", "amd64", "i686", "x86")


def processor() -> tuple[str, str]:
    """Its name and features, as LLVM takes them."""
    features = config.CPU_FEATURES  # pyright: ignore[reportAttributeAccessIssue]
    return (
        config.CPU_NAME or binding.get_host_cpu_name(),  # pyright: ignore[reportAttributeAccessIssue]
        binding.get_host_cpu_features().flatten() if features is None else features,
    )


def host_features() -> frozenset[str]:
    """Instruction sets that the code may name; none when Numba was told to build for another processor."""
    if getattr(config, "CPU_NAME", None) or getattr(config, "CPU_FEATURES", None):
        return frozenset()
    return frozenset(name for name, there in binding.get_host_cpu_features().items() if there)
