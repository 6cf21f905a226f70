"""What the settings of the page tell of this installation: folders, models, caches, versions; and emptying a cache.

Sizes are measured when they are asked for, in the caller's thread.
"""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..engine.errors import ModelFileError, PagedChatError
from ..sessions.storage import folder_size
from .folders import Folders, reason_of
from .model_store import ModelStore
from .settings import Settings

LICENCE = "Apache-2.0"
PARTS = ("torch", "transformers", "tokenizers", "numba", "triton", "gradio", "fastapi", "uvicorn", "sqlite-utils")
"""Packages whose versions people are asked for."""


@dataclass(frozen=True)
class Cache:
    """A folder of the cache.

    Attributes:
        title: what it holds.
        cost: what happens when it is deleted.
    """

    title: str
    cost: str


CACHES = {
    "kernels": Cache("Compiled kernels", "They are compiled again at the next start; until then replies are slow."),
    "fingerprints": Cache("Fingerprints of models", "Models are read whole once more at the next start."),
    "kv": Cache("Saved KV blocks", "Chats compute their first prompt anew."),
    "page": Cache("Temporary files of the page", "Nothing is lost."),
}


class Installation:
    """One server's installation.

    Args:
        settings: gives those in force; a rollback changes them.
        folders: where things live.
        models: the models folder.
    """

    def __init__(self, settings: Callable[[], Settings], folders: Folders, models: ModelStore) -> None:
        self._settings = settings
        self._folders = folders
        self._models = models

    def facts(self) -> dict[str, Any]:
        """What was chosen at the start and does not need measuring: JSON values."""
        settings = self._settings()
        return {
            "context_policy": settings.context_policy,
            "titles": settings.titles,
            "model": settings.model,
            "paths": self._folders.as_dict(),
            "version": __version__,
            "licence": LICENCE,
            "versions": _versions(),
        }

    def measure(self, loaded: str | None) -> dict[str, Any]:
        """{"caches", "models", "models_path"}: sizes in bytes. Blocks while files are counted.

        Args:
            loaded: path of the model that is in use.
        """
        return {
            "caches": self._caches(),
            "models": self._models_view(loaded),
            "models_path": str(self._folders.models),
        }

    def clear_cache(self, name: str) -> None:
        """Delete a folder of the cache.

        Raises:
            PagedChatError: there is no such cache, or it cannot be deleted.
        """
        folder = self._folders.cache / name
        if name not in CACHES:
            raise PagedChatError(f"There is no cache {name!r}; there are {', '.join(CACHES)}.")
        try:
            if folder.is_symlink():
                folder.unlink()
            elif folder.is_dir():
                shutil.rmtree(folder)
        except OSError as error:
            raise PagedChatError(f"{folder} cannot be deleted ({reason_of(error)}).") from error

    def _caches(self) -> list[dict[str, Any]]:
        found = []
        for name, cache in CACHES.items():
            folder = self._folders.cache / name
            if folder.is_dir():
                size = folder_size(folder)
                found.append(
                    {"name": name, "title": cache.title, "cost": cache.cost, "path": str(folder), "size": size}
                )
        return found

    def _models_view(self, loaded: str | None) -> list[dict[str, Any]]:
        try:
            models = self._models.models()
        except ModelFileError:
            return []
        in_use = Path(loaded).absolute() if loaded else None
        return [
            {"name": one.name, "path": str(one.path), "size": one.size, "loaded": one.path.absolute() == in_use}
            for one in models
        ]


def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version(), "SQLite": sqlite3.sqlite_version}
    for name in PARTS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
