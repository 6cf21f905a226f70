"""What a measurement or a start was made with: program, packages, machine, model and settings, as plain values."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from ... import __version__
from ..settings import Settings

PACKAGES = ("torch", "triton", "transformers", "numba", "numpy", "gradio", "sqlite-utils", "prometheus-client")
_ENGINE_FACTS = ("device", "dtype", "kernels", "block_size", "num_blocks", "max_model_len", "max_num_seqs")


def configuration_snapshot(settings: Settings | None = None, info: dict[str, Any] | None = None) -> dict[str, Any]:
    """The configuration in force, for results, for `config diff` and for the way back.

    Args:
        settings: what was asked for; the defaults when None.
        info: what the engine says of itself (``Engine.info()``); without it model and engine facts are missing.

    Returns:
        ``{"program", "packages", "machine", "model", "engine", "settings"}``; JSON values only.
    """
    return {
        "program": {"pagedchat": __version__, "python": platform.python_version()},
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "machine": machine_facts(),
        "model": _model_facts(info or {}),
        "engine": {name: info[name] for name in _ENGINE_FACTS if info and name in info},
        "settings": (settings or Settings()).model_dump(mode="json"),
    }


def machine_facts() -> dict[str, Any]:
    """The computer: processor, cores that this process may use, memory in bytes, system."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "usable_cores": usable,
        "memory": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
    }


def _model_facts(info: dict[str, Any]) -> dict[str, Any]:
    return {name: info[key] for name, key in (("name", "model"), ("fingerprint", "fingerprint")) if key in info}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
