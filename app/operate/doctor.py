"""What an installation has, whether it can answer, how quickly, and what to change.

Nothing here changes chats, settings or a server that runs. Without one, the engine is tried in a process of its own
with the very configuration that ``serve`` would use; with one, that server is asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import psutil

from ...engine.errors import PagedChatError
from ..folders import Folders, make_writable
from ..instance import RunningServer, ask_json, running_server
from ..model_store import ModelStore
from ..settings import Configuration
from .known_good import KEPT, KnownGoodStore
from .recovery import resolve_model
from .running import configuration_in_force
from .snapshot import configuration_snapshot
from .speed import Speed, ask_server, try_engine, wait_for_kernels

Tell = Callable[[str], None]
CHUNK = 1 << 20
KERNEL_FACTS = ("device", "dtype", "kernels", "threads", "reason")


@dataclass
class Findings:
    """What was found; JSON values.

    Attributes:
        configuration: see ``operate.snapshot.configuration_snapshot``; with the engine's facts where one was tried.
        kernels: device, dtype, kernels, threads and the reason; "error" if that could not even be asked.
        folders: name, path, exists, writable, size and free bytes of each.
        model: name, path, size, "state" (ok, missing, damaged, fails) and what there is to say; ``sha256`` says whether
            the content of the default model is right, None for others.
        speed: tokens per second, or None with the reason in ``speed_note``.
        server: address of the server that runs, or None.
        surroundings: free memory, load of the processor, debugger and the like.
        warnings: of the configuration.
    """

    configuration: dict[str, Any]
    kernels: dict[str, Any] = field(default_factory=dict)
    folders: list[dict[str, Any]] = field(default_factory=list)
    model: dict[str, Any] = field(default_factory=dict)
    speed: dict[str, Any] | None = None
    speed_note: str = ""
    server: str | None = None
    surroundings: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    known_good: dict[str, Any] = field(default_factory=dict)


def examine(configuration: Configuration, tell: Tell = lambda line: None, try_it: Any = try_engine) -> Findings:
    """Look at everything.

    Args:
        tell: called with what is being done, for people who wait.
        try_it: starts an engine and lets it answer; see ``speed.try_engine``.
    """
    folders = configuration.folders
    server = running_server(folders.data)
    configuration = configuration_in_force(configuration, server)
    found = Findings(
        configuration_snapshot(configuration.settings),
        folders=look_at_folders(folders),
        server=server.url if server else None,
        surroundings=look_around(),
        warnings=list(configuration.warnings),
        known_good=_known_good(configuration),
    )
    info: dict[str, Any] = {}
    path = _look_at_model(configuration, found)
    if server is not None:
        info = _look_at_server(server, found, tell)
    elif path is not None:
        info = _look_at_engine(configuration, path, found, tell, try_it)
    if info:
        found.configuration = configuration_snapshot(configuration.settings, info)
        found.kernels = {name: info[name] for name in KERNEL_FACTS if name in info}
        found.kernels["compiling"] = bool(info.get("compiling"))
        found.warnings += info.get("warnings", [])
    else:
        tell("Choosing the kernels")
        found.kernels = kernels_here(configuration.settings.device, configuration.settings.dtype)
    return found


def look_at_folders(folders: Folders) -> list[dict[str, Any]]:
    """Each folder: where, whether it can be written, what it takes and what is free. Makes folders, leaves no file."""
    rows = []
    for one in fields(folders):
        path: Path = getattr(folders, one.name)
        row: dict[str, Any] = {"name": one.name, "path": str(path), "writable": True, "trouble": ""}
        try:
            make_writable(path, f"{one.name} folder", "")
        except PagedChatError as error:
            row |= {"writable": False, "trouble": str(error).strip()}
        row["size"] = _size_of(path, skip={folders.models, folders.state / KEPT} - {path})
        row["free"] = _free_at(path)
        rows.append(row)
    return rows


def look_around() -> dict[str, Any]:
    """What else happens on this machine that slows an engine or leaves it no room."""
    from ...engine.memory import device_memory

    memory = device_memory("cpu")
    return {
        "memory_free": memory.free,
        "memory_total": memory.total,
        "swap_used": psutil.swap_memory().used,
        "load": psutil.getloadavg()[0],
        "debugger": debugger(),
        "governor": _line_of(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "battery": _on_battery(),
    }


def debugger() -> str:
    """Name of what watches every step of this process, "" without one."""
    if sys.gettrace() is not None:
        return "a Python debugger or coverage"
    for line in _text_of(Path("/proc/self/status")).splitlines():
        if line.startswith("TracerPid:") and line.split()[1] != "0":
            return f"process {line.split()[1]} (strace or a debugger)"
    return "Python's development mode" if sys.flags.dev_mode else ""


def kernels_here(device: str, dtype: str) -> dict[str, Any]:
    """What would be chosen on this machine, and why, without any model. Loads torch."""
    from ...kernels.choose import choose_device, choose_dtype, choose_kernels
    from ...kernels.reference import ReferenceKernels

    try:
        chosen, device_reason = choose_device(device)
        number, remark = choose_dtype(dtype, chosen)
        kernels = choose_kernels(chosen, number)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    compiles = type(kernels) is not ReferenceKernels
    why = "compiled when a model is loaded" if compiles else kernels.reason
    reason = "; ".join(filter(None, (device_reason, remark, why)))
    return {
        "device": str(chosen),
        "dtype": str(number).removeprefix("torch."),
        "kernels": "numba" if compiles else kernels.name,
        "reason": reason,
    }


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _look_at_model(configuration: Configuration, found: Findings) -> Path | None:
    settings, models = configuration.settings, ModelStore(configuration.folders.models)
    found.model = {"name": settings.model, "path": None, "size": None, "sha256": None, "state": "missing", "said": ""}
    try:
        path = resolve_model(configuration, models)
    except PagedChatError as error:
        found.model |= {"state": "damaged", "said": str(error)}
        return None
    if path is None:
        found.model["said"] = f"{models.default.name} is not here yet; the first start fetches it."
        return None
    found.model |= {"path": str(path), "size": _size_of(path), "state": "ok"}
    if path.name == models.default.file_name:
        found.model["sha256"] = sha256_of(path) == models.default.sha256
        if not found.model["sha256"]:
            found.model |= {
                "state": "damaged",
                "said": f"{path} is not the file it should be (its SHA-256 differs); `pagedchat models pull` fetches "
                "it again.",
            }
    return path


def _look_at_engine(
    configuration: Configuration, path: Path, found: Findings, tell: Tell, try_it: Any
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="pagedchat-doctor-", ignore_cleanup_errors=True) as folder:
        try:
            config = configuration.settings.engine_config(path)
            info, speed = asyncio.run(try_it(config, Path(folder) / "engine.log", tell))
        except PagedChatError as error:
            state = found.model["state"] if found.model["state"] == "damaged" else "fails"
            found.model |= {"state": state, "said": found.model["said"] or str(error)}
            found.speed_note = str(error)
            return {}
    found.model["fingerprint"] = info.get("fingerprint")
    _note_speed(found, speed)
    return info


def _look_at_server(server: RunningServer, found: Findings, tell: Tell) -> dict[str, Any]:
    tell("Measuring on the server that runs")
    try:
        status, info = ask_json(server, "GET", "/health")
        if status != 200:
            found.speed_note = info.get("message") or f"the server that runs is {info['status']}"
            return {}
        found.model["fingerprint"] = info.get("fingerprint")
        info = wait_for_kernels(server, info, tell)
        if info.get("compiling"):
            found.speed_note = "its kernels are still being compiled"
        else:
            _note_speed(found, ask_server(server, info["model"]))
        return info
    except PagedChatError as error:
        found.speed_note = str(error)
        return {}


def _note_speed(found: Findings, speed: Speed | None) -> None:
    found.speed = asdict(speed) if speed else None
    found.speed_note = "" if speed else "the reply was too short to measure"


def _known_good(configuration: Configuration) -> dict[str, Any]:
    record = KnownGoodStore(configuration.folders.state).load()
    if record is None:
        return {"answered_at": None, "differs": [], "rolled_back": None}
    rollback = configuration.rollback
    return {
        "answered_at": record.answered_at,
        "differs": list(record.differences(configuration.kept())),
        "rolled_back": rollback.since if rollback else None,
    }


def _size_of(path: Path, skip: Collection[Path] = ()) -> int:
    """Bytes below ``path`` without the folders ``skip``; what cannot be read counts nothing."""
    if path.is_file():
        return path.stat().st_size
    total = 0
    for folder, subfolders, files in os.walk(path):
        subfolders[:] = [name for name in subfolders if Path(folder, name) not in skip]
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total


def _free_at(path: Path) -> int | None:
    """Free bytes where ``path`` is or would be."""
    for place in (path, *path.parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return None


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _line_of(path: Path) -> str:
    return _text_of(path).strip()


def _on_battery() -> bool:
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    return battery is not None and battery.power_plugged is False
