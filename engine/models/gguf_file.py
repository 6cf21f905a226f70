"""A GGUF file as a `Checkpoint`: its metadata as a `ModelSpec`, its tensors under Hugging Face names and row order.

llama.cpp stores the q and k rows of Llama-type models in another order, because its rotary kernel turns neighbours
where Hugging Face's turns halves. Within each head of `head_dim` rows:

    GGUF row 2 j + h   =   Hugging Face row h * (head_dim / 2) + j        (h in 0, 1)

Qwen-type models are stored as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ModelFileError
from .checkpoint_base import Checkpoint
from .fingerprint import fingerprint_files
from .gguf_reader import GGUFReader
from .quantized import PLAIN_KINDS, QuantizedTensor
from .spec import ModelSpec

if TYPE_CHECKING:
    import torch

# Families the decoder runs; True where the q and k rows are stored in llama.cpp's order.
_PERMUTED = {"llama": True, "mistral": True, "qwen2": False}

_TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
# Tables that the spec carries (`rope_freqs`) or that the rotary embedding computes for itself.
_NOT_PARAMETERS = {"rope_freqs.weight", "rope.inv_freq", "rope_factors_long.weight", "rope_factors_short.weight"}
_SAMPLING_KEYS = {"temp": "temperature", "temperature": "temperature", "top_p": "top_p", "top_k": "top_k",
                  "min_p": "min_p", "penalty_repeat": "repetition_penalty"}  # fmt: skip
# What the makers recommend where the file is silent, by `general.basename`.
_KNOWN_SAMPLING = {"smollm2": {"temperature": 0.2, "top_p": 0.9}}


class GGUFCheckpoint(Checkpoint):
    """Weights and metadata of one GGUF file.

    Attributes:
        metadata: the file's key-value pairs, the tokenizer's among them.

    Raises:
        ModelFileError: see `GGUFReader`; also for an architecture that is not supported and for missing tensors.
    """

    def __init__(self, path: str | Path) -> None:
        self._reader = GGUFReader(path)
        self.path = self._reader.path
        self.name = self.path.name.removesuffix(".gguf")
        self.metadata = self._reader.metadata
        self.warnings = []
        self._by_name = {hf_name(name): name for name in self._reader.tensors if name not in _NOT_PARAMETERS}
        self.spec = self._read_spec()
        self.generation_defaults = _sampling_defaults(self.metadata)
        self.check_complete()

    def names(self) -> Collection[str]:
        return self._by_name.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        return self._reader.tensors[self._by_name[name]].shape

    def tensor(self, name: str) -> torch.Tensor | QuantizedTensor:
        """One tensor: float32, float16 or bfloat16 as a torch tensor, everything else as a `QuantizedTensor`."""
        entry = self._reader.tensors[self._by_name[name]]
        rows = self._reader.data(entry.name).reshape(*entry.shape[:-1], -1)
        heads = self._permuted_heads(name)
        if heads:
            rows = rows[_hf_row_order(len(rows), heads)] if rows.ndim > 1 else _permute_bias(rows, entry, heads)
        if entry.kind in PLAIN_KINDS:
            return _plain_tensor(entry.kind, rows, entry.shape)
        return QuantizedTensor(entry.kind, rows, entry.shape)

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_files([self.path], [bytes(self._reader.header_bytes())], self._sampled_ranges())

    def _sampled_ranges(self) -> dict[Path, list[tuple[int, int]]]:
        return {self.path: [(entry.offset, entry.num_bytes) for entry in self._reader.tensors.values()]}

    def _permuted_heads(self, name: str) -> int:
        """Heads of a q or k projection that is stored in llama.cpp's row order; 0 for every other tensor."""
        if not _PERMUTED[self.spec.architecture]:
            return 0
        if ".q_proj." in name:
            return self.spec.num_heads
        return self.spec.num_kv_heads if ".k_proj." in name else 0

    def _read_spec(self) -> ModelSpec:
        family = self.metadata.get("general.architecture")
        if not isinstance(family, str):
            raise ModelFileError(f"{self.path} does not say which architecture it holds; it is damaged or no model.")
        if family not in _PERMUTED:
            raise ModelFileError(
                f"{self.path} is sound, but its architecture {family!r} is not supported "
                f"(supported: {', '.join(_PERMUTED)})."
            )
        if self._value(family, "expert_count", 0):
            raise ModelFileError(
                f"{self.path} is sound, but it is a mixture of experts ({family}), which is not supported."
            )
        heads = self._integer(family, "attention.head_count")
        hidden = self._integer(family, "embedding_length")
        head_dim = self._integer(family, "attention.key_length", hidden // max(heads, 1))
        if self._integer(family, "attention.value_length", head_dim) != head_dim:
            raise ModelFileError(f"{self.path}: keys and values of different sizes are not supported.")
        rotated = self._integer(family, "rope.dimension_count", head_dim)
        if rotated != head_dim:
            raise ModelFileError(f"{self.path}: rotary embedding of {rotated} of {head_dim} elements is not supported.")
        max_position = self._integer(family, "context_length")
        window = self._value(family, "attention.sliding_window", 0) or max_position
        embedding = self._reader.tensors.get("token_embd.weight")
        if embedding is None:
            raise ModelFileError(f"{self.path} has no tensor 'token_embd.weight'; the model is incomplete.")
        return ModelSpec(
            architecture=family,
            vocab_size=embedding.shape[0],
            hidden_size=hidden,
            num_layers=self._integer(family, "block_count"),
            num_heads=heads,
            num_kv_heads=self._integer(family, "attention.head_count_kv", heads),
            head_dim=head_dim,
            intermediate_size=self._integer(family, "feed_forward_length"),
            rms_eps=float(self._value(family, "attention.layer_norm_rms_epsilon", 1e-5)),
            rope_theta=float(self._value(family, "rope.freq_base", 10000.0)),
            rope_scaling=self._rope_scaling(family),
            tie_word_embeddings="output.weight" not in self._reader.tensors,
            attention_bias="model.layers.0.self_attn.q_proj.bias" in self._by_name,
            output_bias="model.layers.0.self_attn.o_proj.bias" in self._by_name,
            mlp_bias="model.layers.0.mlp.gate_proj.bias" in self._by_name,
            max_position=min(max_position, window),
        )

    def _rope_scaling(self, family: str) -> dict[str, Any] | None:
        if "rope_freqs.weight" in self._reader.tensors:
            factors = self._reader.data("rope_freqs.weight").view(np.float32)
            return {"rope_type": "factors", "factors": factors.tolist()}
        kind = self._value(family, "rope.scaling.type", "none")
        if kind == "none":
            return None
        return {"rope_type": kind, "factor": float(self._value(family, "rope.scaling.factor", 1.0))}

    def _value(self, family: str, key: str, default: Any = None) -> Any:
        value = self.metadata.get(f"{family}.{key}", default)
        if value is None:
            raise ModelFileError(f"{self.path} lacks the metadata entry '{family}.{key}'.")
        return value

    def _integer(self, family: str, key: str, default: int | None = None) -> int:
        value = self._value(family, key, default)
        if isinstance(value, list) and len(set(value)) == 1:  # one value for each layer, all the same
            value = value[0]
        if isinstance(value, bool) or not isinstance(value, int):
            raise ModelFileError(
                f"{self.path} is sound, but layers that differ in '{family}.{key}' are not supported."
                if isinstance(value, list)
                else f"{self.path} is damaged: '{family}.{key}' is {value!r}."
            )
        return value


def hf_name(name: str) -> str:
    """Hugging Face's name of a GGUF tensor; a name nobody knows is returned as it is."""
    match = _LAYER.fullmatch(name)
    if match and match[2] in _LAYER_NAMES:
        return f"model.layers.{match[1]}.{_LAYER_NAMES[match[2]]}.{match[3]}"
    return _TOP_NAMES.get(name, name)


def _hf_row_order(num_rows: int, num_heads: int) -> np.ndarray:
    """For each Hugging Face row the GGUF row that holds it, int64 [num_rows]."""
    return np.arange(num_rows).reshape(num_heads, -1, 2).swapaxes(1, 2).reshape(-1)


def _permute_bias(raw: np.ndarray, entry: Any, num_heads: int) -> np.ndarray:
    count = entry.shape[0]
    return raw.reshape(count, -1)[_hf_row_order(count, num_heads)].reshape(-1)


def _plain_tensor(kind: str, rows: np.ndarray, shape: tuple[int, ...]) -> torch.Tensor:
    import torch

    dtype = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[kind]
    return torch.from_numpy(rows.reshape(-1)).view(dtype).reshape(shape)


def _sampling_defaults(metadata: dict[str, Any]) -> dict[str, Any]:
    stated = {}
    for key, value in metadata.items():
        if key.startswith("general.sampling."):
            name = _SAMPLING_KEYS.get(key.removeprefix("general.sampling."))
            if name and isinstance(value, (int, float)) and not isinstance(value, bool):
                stated[name] = value
    return stated or dict(_KNOWN_SAMPLING.get(str(metadata.get("general.basename", "")).lower(), {}))
