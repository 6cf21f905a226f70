"""A Hugging Face directory as a `Checkpoint`: config.json and safetensors, in one file or in shards with an index.

Nothing in the directory is ever executed: no code, no pickle.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ModelFileError
from ..files import read_json
from .checkpoint_base import Checkpoint
from .fingerprint import fingerprint_files
from .safetensors_file import SafetensorsFile
from .spec import ModelSpec

if TYPE_CHECKING:
    import torch

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_SHARD = re.compile(r".+-\d+-of-\d+\.safetensors")
_FAMILIES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
}
_IGNORED = re.compile(r".*\.rotary_emb\.inv_freq")
_HEAD, _EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


class HFCheckpoint(Checkpoint):
    """Weights of one directory, memory-mapped.

    Where config.json ties the head to the embedding and the files hold a head that differs, the files win, as they do
    in transformers, and a warning says so.

    Raises:
        ModelFileError: a file is missing, cut, stray or damaged; the family is not supported; a parameter is missing.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = self.path.resolve().name
        self.warnings = []
        self._config = read_json(self.path / "config.json")
        if not self._config:
            why = "an empty" if (self.path / "config.json").is_file() else "no"
            raise ModelFileError(f"{self.path} has {why} config.json, so it is no Hugging Face model folder.")
        family = _family(self._config, self.path)
        self._files = [SafetensorsFile(file) for file in _weight_files(self.path)]
        self._by_name = {name: file for file in self._files for name in file.entries if not _IGNORED.fullmatch(name)}
        self.spec = _read_spec(self._config, family, self.path, self._is_tied())
        if self.spec.tie_word_embeddings:
            self._by_name.pop(_HEAD, None)
        self.generation_defaults = _sampling_defaults(read_json(self.path / "generation_config.json"))
        self.check_complete()

    def names(self) -> Collection[str]:
        return self._by_name.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        return self._by_name[name].entries[name].shape

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor in the file's own precision, backed by the mapped file."""
        return self._by_name[name].tensor(name)

    @cached_property
    def fingerprint(self) -> str:
        ranges = {file.path: [(one.offset, one.num_bytes) for one in file.entries.values()] for file in self._files}
        config = (self.path / "config.json").read_bytes()
        return fingerprint_files([file.path for file in self._files], [config], ranges)

    def _is_tied(self) -> bool:
        if not self._config.get("tie_word_embeddings", False):
            return False
        if _HEAD not in self._by_name or _EMBEDDING not in self._by_name:
            return True
        head, embedding = self.tensor(_HEAD), self.tensor(_EMBEDDING)
        if head.shape == embedding.shape and head.equal(embedding):
            return True
        self.warnings.append(
            f"{self.path}: config.json ties the output head to the embedding, but the files hold another head; "
            "the head of the files is used."
        )
        return False


def _weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder, the index checked against them."""
    index = folder / INDEX
    if index.is_file():
        return _shards(folder, read_json(index))
    if (folder / SINGLE).is_file():
        _refuse_strays(folder, {SINGLE})
        return [folder / SINGLE]
    pickles = sorted(one.name for one in folder.glob("*.bin")) + sorted(one.name for one in folder.glob("*.pt*"))
    if pickles:
        raise ModelFileError(
            f"{folder} holds its weights as a pickle ({pickles[0]}), which can run code of its own and is refused. "
            "Take a safetensors or GGUF version of this model."
        )
    if any(_SHARD.fullmatch(one.name) for one in folder.glob("*.safetensors")):
        raise ModelFileError(f"{folder} holds shards of a model but no {INDEX}. Fetch the folder again.")
    raise ModelFileError(f"{folder} has neither {SINGLE} nor {INDEX}; there are no weights to load.")


def _shards(folder: Path, index: dict[str, Any]) -> list[Path]:
    places = index.get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(one, str) for one in places.values()):
        raise ModelFileError(f"{folder / INDEX} is damaged: it maps no weights to files.")
    names = sorted(set(places.values()))
    for name in names:
        if "/" in name or "\\" in name or name.startswith("."):
            raise ModelFileError(f"{folder / INDEX} names a file outside the folder: {name!r}.")
        if not (folder / name).is_file():
            raise ModelFileError(f"{folder / name} is missing, but {INDEX} names it. Fetch it again.")
    _refuse_strays(folder, set(names))
    for name in names:
        held = SafetensorsFile(folder / name).entries.keys()
        listed = {tensor for tensor, file in places.items() if file == name}
        if missing := sorted(listed - held):
            raise ModelFileError(f"{folder / name} lacks {missing[0]!r}, which {INDEX} says it holds.")
        if extra := sorted(held - listed):
            raise ModelFileError(f"{folder / name} holds {extra[0]!r}, which {INDEX} does not list.")
    return [folder / name for name in names]


def _refuse_strays(folder: Path, known: set[str]) -> None:
    strays = [one.name for one in folder.glob("*.safetensors") if _SHARD.fullmatch(one.name) and one.name not in known]
    if strays:
        raise ModelFileError(
            f"{folder / sorted(strays)[0]} is a shard that belongs to no index here; the folder mixes two models. "
            "Remove it or fetch the folder again."
        )


def _family(config: dict[str, Any], path: Path) -> str:
    names = config.get("architectures") or []
    for name in names:
        if name in _FAMILIES:
            return _FAMILIES[name]
    stated = names[0] if names else config.get("model_type")
    if not names and stated in _FAMILIES.values():
        return str(stated)
    raise ModelFileError(
        f"{path} is of the architecture {stated!r}, which is not supported (supported: {', '.join(_FAMILIES)})."
    )


def _read_spec(config: dict[str, Any], family: str, path: Path, tied: bool) -> ModelSpec:
    def integer(key: str, default: int | None = None) -> int:
        value = config.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int):
            raise ModelFileError(f"{path / 'config.json'}: {key} is {value!r}; a whole number is needed.")
        return value

    if config.get("hidden_act", "silu") not in ("silu", "swish"):
        raise ModelFileError(f"{path} uses the activation {config['hidden_act']!r}, which is not supported.")
    heads, hidden = integer("num_attention_heads"), integer("hidden_size")
    theta, scaling = _rope(config, path)
    attention_bias = bool(config.get("attention_bias", False))
    return ModelSpec(
        architecture=family,
        vocab_size=integer("vocab_size"),
        hidden_size=hidden,
        num_layers=integer("num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=integer("num_key_value_heads", heads),
        head_dim=integer("head_dim", hidden // max(heads, 1)),
        intermediate_size=integer("intermediate_size"),
        rms_eps=float(config.get("rms_norm_eps", 1e-6)),
        rope_theta=theta,
        rope_scaling=scaling,
        tie_word_embeddings=tied,
        attention_bias=family == "qwen2" or attention_bias,
        output_bias=family == "llama" and attention_bias,
        mlp_bias=bool(config.get("mlp_bias", False)),
        max_position=integer("max_position_embeddings", 2048),
        layer_windows=_layer_windows(config, family, path),
    )


def _layer_windows(config: dict[str, Any], family: str, path: Path) -> tuple[int | None, ...]:
    """How far back each layer sees: all layers of Mistral a window, those of Qwen2 after ``max_window_layers``, or as
    ``layer_types`` says. Empty when all see everything."""
    windowed = family == "mistral" or config.get("use_sliding_window", False)
    window = config.get("sliding_window") if windowed else None
    if window is None:
        return ()
    if not isinstance(window, int) or window < 1:
        raise ModelFileError(f"{path / 'config.json'}: sliding_window is {window!r}; a whole number is needed.")
    count, types = config["num_hidden_layers"], config.get("layer_types")
    if types is None:
        first = 0 if family == "mistral" else config.get("max_window_layers", 28)
        types = ["sliding_attention" if index >= first else "full_attention" for index in range(count)]
    if len(types) != count:
        raise ModelFileError(f"{path / 'config.json'}: layer_types names {len(types)} layers, the model has {count}.")
    windows = tuple(window if kind == "sliding_attention" else None for kind in types)
    return windows if any(windows) else ()


def _rope(config: dict[str, Any], path: Path) -> tuple[float, dict[str, Any] | None]:
    """Base and scaling, from `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (before)."""
    stated = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = float(stated.get("rope_theta") or config.get("rope_theta") or 10000.0)
    kind = stated.get("rope_type") or stated.get("type") or "default"
    if stated.get("partial_rotary_factor") not in (None, 1, 1.0):
        raise ModelFileError(f"{path}: rotary embedding of a part of each head is not supported.")
    if kind == "default":
        return theta, None
    return theta, {**stated, "rope_type": kind}


def _sampling_defaults(config: dict[str, Any]) -> dict[str, Any]:
    """What generation_config.json recommends; a model whose makers do not sample is greedy."""
    stated = {name: config[name] for name in _SAMPLING if isinstance(config.get(name), (int, float))}
    if stated and config.get("do_sample") is False:
        return {"temperature": 0.0}
    return stated
