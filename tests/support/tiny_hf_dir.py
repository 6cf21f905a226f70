"""Small Hugging Face directories, whole or in shards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from pagedchat.engine.models.spec import ModelSpec
from support.tiny_gguf import TINY, random_weights

_CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "mistral": "MistralForCausalLM"}


def config_of(spec: ModelSpec) -> dict[str, Any]:
    """The config.json that describes a spec."""
    return {
        "architectures": [_CLASSES[spec.architecture]],
        "model_type": spec.architecture,
        "vocab_size": spec.vocab_size,
        "hidden_size": spec.hidden_size,
        "num_hidden_layers": spec.num_layers,
        "num_attention_heads": spec.num_heads,
        "num_key_value_heads": spec.num_kv_heads,
        "head_dim": spec.head_dim,
        "intermediate_size": spec.intermediate_size,
        "rms_norm_eps": spec.rms_eps,
        "rope_theta": spec.rope_theta,
        "max_position_embeddings": spec.max_position,
        "tie_word_embeddings": spec.tie_word_embeddings,
        "hidden_act": "silu",
    }


def write_hf_dir(
    folder: Path,
    spec: ModelSpec = TINY,
    weights: Mapping[str, np.ndarray] | None = None,
    *,
    shards: int = 1,
    config: Mapping[str, Any] | None = None,
) -> Path:
    """Write config.json and safetensors; ``config`` adds to or replaces what the spec says."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = random_weights(spec) if weights is None else dict(weights)
    (folder / "config.json").write_text(json.dumps({**config_of(spec), **(config or {})}))
    if shards == 1:
        save_file(dict(weights), folder / "model.safetensors")
        return folder
    places = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = {key: weights[key] for key in list(weights)[shard::shards]}
        save_file(part, folder / name)
        places |= dict.fromkeys(part, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder
