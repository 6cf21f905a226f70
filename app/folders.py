"""Where things live on this computer.

| folder | holds |
|---|---|
| data | sessions.db, its backups, the lock of the running server |
| config | config.toml |
| state, logs | the logs of the program and of the engine process |
| cache | compiled kernels, fingerprints of models, temporary files of the page; may be deleted at any time |
| models | model files, shared by every data folder |
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

import platformdirs

from ..engine.errors import PagedChatError

APP_NAME = "pagedchat"


@dataclass(frozen=True)
class Folders:
    """The folders of one installation, absolute, not necessarily created yet."""

    data: Path
    config: Path
    state: Path
    logs: Path
    cache: Path
    models: Path

    @property
    def config_file(self) -> Path:
        """The settings file; it need not exist."""
        return self.config / "config.toml"

    @property
    def database(self) -> Path:
        """The file that holds every session."""
        return self.data / "sessions.db"

    def as_dict(self) -> dict[str, str]:
        """Folder paths by name, and the two files people look for."""
        named = {field.name: str(getattr(self, field.name)) for field in fields(self)}
        return {**named, "config_file": str(self.config_file), "database": str(self.database)}

    def create_data(self) -> None:
        """Make the data folder and prove that it can be written.

        Raises:
            PagedChatError: if not; nothing is left behind.
        """
        make_writable(self.data, "data folder", "Choose another one with --data-dir.")


def find_folders(data_dir: Path | None = None, models_dir: Path | None = None) -> Folders:
    """The user's folders by the platform's rules; ``data_dir`` moves data, config and state, never models."""
    models = models_dir or platformdirs.user_data_path(APP_NAME, appauthor=False) / "models"
    cache = platformdirs.user_cache_path(APP_NAME, appauthor=False)
    if data_dir is None:
        found = Folders(
            data=platformdirs.user_data_path(APP_NAME, appauthor=False),
            config=platformdirs.user_config_path(APP_NAME, appauthor=False),
            state=platformdirs.user_state_path(APP_NAME, appauthor=False),
            logs=platformdirs.user_log_path(APP_NAME, appauthor=False),
            cache=cache,
            models=models,
        )
    else:
        state = data_dir / "state"
        found = Folders(data_dir, data_dir / "config", state, state / "log", cache, models)
    return Folders(**{field.name: _absolute(getattr(found, field.name)) for field in fields(found)})


def make_writable(folder: Path, what: str, advice: str) -> None:
    """Create ``folder`` where it is missing and write a file there.

    Raises:
        PagedChatError: naming the folder, the system's reason and ``advice``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".write-test-"):
            pass
    except OSError as error:
        raise PagedChatError(f"The {what} {folder} cannot be written ({reason_of(error)}). {advice}") from error


def can_write(folder: Path) -> bool:
    """Create ``folder`` where it is missing; whether files can be written there."""
    try:
        make_writable(folder, "", "")
    except PagedChatError:
        return False
    return True


def write_whole(path: Path, text: str) -> None:
    """Write a small file so that, whatever happens, it is there as it was or as it shall be.

    Raises:
        OSError: when it cannot be written; what was there stays, and nothing else is left.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def reason_of(error: OSError) -> str:
    """The system's words for an error, without path and number."""
    return (error.strerror or str(error)).rstrip(".").lower()


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path.expanduser()))
