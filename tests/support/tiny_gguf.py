"""Small GGUF files, written with the gguf package by the rules of llama.cpp's converter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from pagedchat.engine.models.spec import ModelSpec

TINY = ModelSpec(
    architecture="llama",
    vocab_size=600,
    hidden_size=64,
    num_layers=2,
    num_heads=8,
    num_kv_heads=2,
    head_dim=8,
    intermediate_size=96,
    rms_eps=1e-5,
    rope_theta=10000.0,
    rope_scaling=None,
    tie_word_embeddings=False,
    attention_bias=False,
    max_position=256,
)

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "rope_freqs": "rope_freqs",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def random_weights(spec: ModelSpec, seed: int = 0) -> dict[str, np.ndarray]:
    """Float32 weights for every parameter of a spec, under Hugging Face names."""
    source = np.random.default_rng(seed)
    return {
        name: source.standard_normal(shape).astype(np.float32) * 0.1 for name, shape in spec.parameter_shapes().items()
    }


def gguf_name(name: str) -> str:
    """GGUF's name of a Hugging Face tensor."""
    stem, kind = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, layer, rest = stem.split(".", 3)
        return f"blk.{layer}.{_NAMES[rest]}.{kind}"
    return f"{_NAMES[stem]}.{kind}"


def to_gguf_rows(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """Within each head, GGUF row 2 j + h is Hugging Face row h * (head_dim / 2) + j."""
    moved = np.empty_like(weight)
    head_dim = len(weight) // num_heads
    for head in range(num_heads):
        for j in range(head_dim // 2):
            for h in range(2):
                moved[head * head_dim + 2 * j + h] = weight[head * head_dim + h * (head_dim // 2) + j]
    return moved


def write_gguf(
    path: Path,
    spec: ModelSpec = TINY,
    weights: Mapping[str, np.ndarray] | None = None,
    metadata: Mapping[str, Any] | None = None,
    kinds: Mapping[str, str] | None = None,
    architecture: str | None = None,
) -> Path:
    """Write a model.

    Args:
        weights: under Hugging Face names and in its row order; random ones by default.
        metadata: further entries, such as a tokenizer's or ones that replace the spec's.
        kinds: quantization by Hugging Face name, such as ``Q8_0``; float32 otherwise.
        architecture: what the file says it is, if not what the spec says.
    """
    family = architecture or spec.architecture
    writer = gguf.GGUFWriter(str(path), family)
    entries: dict[str, Any] = {
        f"{family}.context_length": spec.max_position,
        f"{family}.embedding_length": spec.hidden_size,
        f"{family}.block_count": spec.num_layers,
        f"{family}.feed_forward_length": spec.intermediate_size,
        f"{family}.attention.head_count": spec.num_heads,
        f"{family}.attention.head_count_kv": spec.num_kv_heads,
        f"{family}.attention.layer_norm_rms_epsilon": spec.rms_eps,
        f"{family}.rope.freq_base": spec.rope_theta,
        f"{family}.rope.dimension_count": spec.head_dim,
        **(metadata or {}),
    }
    for name, value in entries.items():
        _add(writer, name, value)
    for name, weight in (random_weights(spec) if weights is None else weights).items():
        _add_tensor(writer, spec, name, weight, (kinds or {}).get(name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: gguf.GGUFWriter, name: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(name, value)
    elif isinstance(value, int):
        writer.add_uint32(name, value)
    elif isinstance(value, float):
        writer.add_float32(name, value)
    elif isinstance(value, str):
        writer.add_string(name, value)
    else:
        writer.add_array(name, value)


def _add_tensor(writer: gguf.GGUFWriter, spec: ModelSpec, name: str, weight: np.ndarray, kind: str | None) -> None:
    if spec.architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
        weight = to_gguf_rows(weight, spec.num_heads if ".q_proj." in name else spec.num_kv_heads)
    if kind is None:
        writer.add_tensor(gguf_name(name), weight)
        return
    chosen = gguf.GGMLQuantizationType[kind]
    writer.add_tensor(gguf_name(name), gguf.quants.quantize(weight, chosen), raw_dtype=chosen)
