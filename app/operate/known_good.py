"""The last configuration that answered, and the way back to it.

| file in the state folder | holds |
|---|---|
| ``known_good.json`` | the last configuration whose first reply finished well |
| ``known_good/`` | hard links to its model's files: the content stays when a file of that name is replaced |
| ``rollback.json`` | that configuration again, while a rollback is in force |

A link costs no space while its file is in use. A file that is written over in place changes with its link; then the
record no longer fits, and the way back says so. The user's config file is never written.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...engine.errors import PagedChatError
from ..folders import reason_of, write_whole

RECORD = "known_good.json"
ROLLBACK = "rollback.json"
KEPT = "known_good"


@dataclass(frozen=True)
class ModelRecord:
    """A model as it was.

    Attributes:
        path: where it was loaded from, a file or a folder.
        files: size in bytes and time of change (ns) of each file, by its path inside ``path`` ("" for a file itself).
        fingerprint: what the engine said its content is.
        revision: of a model hub; None for plain files.
        kept: where its files are linked, if they could be.
    """

    name: str
    path: str
    files: dict[str, list[int]]
    fingerprint: str | None = None
    revision: str | None = None
    kept: str | None = None

    def place(self) -> Path | None:
        """Where the model is as it was: its own place, or the links; None when both have changed.

        Files that have only another time, after a copy of the folder, will do: the engine compares contents.
        """
        for path in (self.path, self.kept):
            if path and files_of(Path(path)) == self.files:
                return Path(path)
        return Path(self.path) if _sizes(files_of(Path(self.path)) or {}) == _sizes(self.files) else None


@dataclass(frozen=True)
class KnownGood:
    """A configuration that answered.

    Attributes:
        settings: see ``settings.KEPT_FIELDS``, JSON values, as asked for.
        model: None where the engine is remote.
        engine_url: of a remote engine; None for the own one.
        answered_at: UTC, ISO 8601.
        snapshot: see ``operate.snapshot.configuration_snapshot``.
    """

    settings: dict[str, Any]
    model: ModelRecord | None
    engine_url: str | None
    answered_at: str
    snapshot: dict[str, Any] = field(default_factory=dict)

    def differences(self, settings: dict[str, Any], engine_url: str | None = None) -> dict[str, tuple[Any, Any]]:
        """What another configuration has otherwise: name → (here, there). The model's files count as "model file"."""
        found = {
            name: (value, settings[name])
            for name, value in self.settings.items()
            if name in settings and settings[name] != value
        }
        if engine_url != self.engine_url:
            found["engine URL"] = (self.engine_url, engine_url)
        if self.model and "model" not in found and files_of(Path(self.model.path)) != self.model.files:
            found["model file"] = ("as it was", "changed")
        return found


@dataclass(frozen=True)
class Rollback:
    """A return to ``record`` that is in force while the config file stays what it was (``config_digest``)."""

    record: KnownGood
    since: str
    config_digest: str | None


class KnownGoodStore:
    """The files of one state folder."""

    def __init__(self, state: Path) -> None:
        self._state = state

    @property
    def path(self) -> Path:
        """The file of the known good configuration."""
        return self._state / RECORD

    def load(self) -> KnownGood | None:
        """The last configuration that answered; None if there is none that can be read."""
        return _known_good(_read(self.path))

    def require(self) -> KnownGood:
        """The last configuration that answered.

        Raises:
            PagedChatError: there is none.
        """
        record = self.load()
        if record is None:
            raise PagedChatError(
                "There is no configuration to go back to yet: one becomes known good when its first reply has "
                "finished well."
            )
        return record

    def save(self, record: KnownGood) -> KnownGood:
        """Keep ``record`` as the last configuration that answered, and its model's files, where links can be made.

        Raises:
            OSError: when it cannot be written; the one before stays then.
        """
        self._state.mkdir(parents=True, exist_ok=True)
        before = self.load()
        if record.model is not None and before and before.model and before.model.kept == record.model.path:
            record = replace(record, model=before.model)  # it ran on the links
        elif record.model is not None:
            record = replace(record, model=self._keep(record.model))
        write_whole(self.path, _json(asdict(record)))
        return record

    def rollback(self) -> Rollback | None:
        """The rollback that is in force, None without one."""
        values = _read(self._state / ROLLBACK)
        record = _known_good(values.get("record"))
        if record is None or not isinstance(values.get("since"), str):
            return None
        return Rollback(record, values["since"], values.get("config_digest"))

    def begin_rollback(self, config_file: Path) -> Rollback:
        """From now on, starts use the known good configuration.

        Raises:
            PagedChatError: there is none, or the file cannot be written.
        """
        rollback = Rollback(self.require(), utc_now(), config_digest(config_file))
        try:
            write_whole(self._state / ROLLBACK, _json(asdict(rollback)))
        except OSError as error:
            raise PagedChatError(
                f"The rollback cannot be noted in {self._state} ({reason_of(error)}); make room or make it yours."
            ) from error
        return rollback

    def end_rollback(self) -> bool:
        """Starts follow flags, environment and config file again; False if no rollback was in force.

        Raises:
            PagedChatError: the file cannot be deleted.
        """
        try:
            (self._state / ROLLBACK).unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise PagedChatError(
                f"The rollback in {self._state} cannot be ended ({reason_of(error)}); make the folder yours."
            ) from error
        return True

    def forget_model(self, path: Path) -> None:
        """Let go of the links to a model that its owner deletes, so that its space comes free."""
        record = self.load()
        if record and record.model and record.model.kept and Path(record.model.path) == path:
            shutil.rmtree(self._state / KEPT, ignore_errors=True)

    def _keep(self, model: ModelRecord) -> ModelRecord:
        """Link the model's files, unless they are linked already."""
        folder, source = self._state / KEPT, Path(model.path)
        target = folder / source.name
        if files_of(target) != model.files or not _same_files(source, target, model.files):
            fresh = folder.with_name(KEPT + ".new")
            shutil.rmtree(fresh, ignore_errors=True)
            try:
                for name in model.files:
                    link = fresh / source.name / name if name else fresh / source.name
                    link.parent.mkdir(parents=True, exist_ok=True)
                    os.link(os.path.realpath(source / name if name else source), link)
            except (OSError, NotImplementedError):
                shutil.rmtree(fresh, ignore_errors=True)
                shutil.rmtree(folder, ignore_errors=True)
                return replace(model, kept=None)
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(fresh, folder)
        return replace(model, kept=str(target))


def model_record(path: Path, info: dict[str, Any]) -> ModelRecord:
    """What is to be kept of a model that the engine loaded from ``path``; ``info`` is what it says of itself."""
    return ModelRecord(str(info.get("model", path.name)), str(path), files_of(path) or {}, info.get("fingerprint"))


def files_of(path: Path) -> dict[str, list[int]] | None:
    """Size and time of change of a model's file, or of each file of its folder; None when it is not there."""
    try:
        if path.is_dir():
            files = sorted(one for one in path.rglob("*") if one.is_file() and not one.name.startswith("."))
            return {one.relative_to(path).as_posix(): _size_and_time(one) for one in files}
        return {"": _size_and_time(path)}
    except OSError:
        return None


def config_digest(config_file: Path) -> str | None:
    """What the config file holds, in short; None without one."""
    try:
        return hashlib.sha256(config_file.read_bytes()).hexdigest()
    except OSError:
        return None


def utc_now() -> str:
    """Now in UTC, ISO 8601, seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _sizes(files: dict[str, list[int]]) -> dict[str, int]:
    return {name: size for name, (size, _) in files.items()}


def _size_and_time(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def _same_files(source: Path, target: Path, names: dict[str, list[int]]) -> bool:
    with suppress(OSError):
        return all((source / name if name else source).samefile(target / name if name else target) for name in names)
    return False


def _known_good(values: Any) -> KnownGood | None:
    try:
        model = ModelRecord(**values["model"]) if values["model"] else None
        known = {one.name for one in fields(KnownGood)}
        record = KnownGood(**{name: value for name, value in {**values, "model": model}.items() if name in known})
    except (KeyError, TypeError):
        return None
    parts = isinstance(record.settings, dict) and isinstance(record.snapshot, dict)
    whole = parts and isinstance(record.answered_at, str)
    return record if whole and (model is None or _is_whole(model)) else None


def _is_whole(model: ModelRecord) -> bool:
    places = isinstance(model.path, str) and isinstance(model.kept, str | None)
    return places and isinstance(model.files, dict) and all(_are_numbers(one) for one in model.files.values())


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(number, int) for number in value)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=1, ensure_ascii=False)
