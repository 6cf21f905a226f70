"""What a Llama-shaped decoder needs to know about a model: sizes, rotary embedding, biases, tying.

Knows nothing of files: `gguf_file` and `hf_dir` fill a `ModelSpec` from what they read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import ModelFileError

ROPE_TYPES = ("default", "linear", "llama3", "factors")


@dataclass(frozen=True)
class ModelSpec:
    """Shape of one decoder-only model of the Llama family.

    Attributes:
        architecture: family name as GGUF and transformers' ``model_type`` spell it: ``llama``, ``mistral``, ``qwen2``.
        hidden_size, intermediate_size, head_dim: widths in elements; ``num_heads * head_dim`` may differ from
            ``hidden_size``.
        rope_scaling: None for the plain rotary embedding, else a dict with ``rope_type`` (one of `ROPE_TYPES`) and that
            type's parameters under transformers' names; ``factors`` carries a list ``factors`` [head_dim / 2].
        tie_word_embeddings: the output head is the embedding table.
        attention_bias: q, k and v projections have a bias.
        output_bias: the attention's output projection has a bias.
        mlp_bias: gate, up and down projections have a bias.
        max_position: longest sequence in tokens that the model can attend over exactly.
        layer_windows: how many positions back each layer sees, its own included, None for all; empty when all see all.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    rms_eps: float
    rope_theta: float
    rope_scaling: dict[str, Any] | None
    tie_word_embeddings: bool
    attention_bias: bool
    max_position: int
    output_bias: bool = False
    mlp_bias: bool = False
    layer_windows: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "hidden_size", "num_layers", "num_heads", "num_kv_heads", "head_dim")
        for name in (*sizes, "intermediate_size", "max_position"):
            if getattr(self, name) < 1:
                raise ModelFileError(f"The model's {name} is {getattr(self, name)}, which cannot be.")
        if self.num_heads % self.num_kv_heads:
            raise ModelFileError(
                f"The model has {self.num_heads} attention heads and {self.num_kv_heads} KV heads, which do not divide."
            )
        if self.head_dim % 2:
            raise ModelFileError(f"The model's head size is {self.head_dim}; rotary embedding needs an even one.")
        if self.rope_scaling is not None and self.rope_scaling.get("rope_type") not in ROPE_TYPES:
            raise ModelFileError(
                f"The model scales its positions by {self.rope_scaling.get('rope_type')!r}, which is not supported "
                f"(supported: {', '.join(ROPE_TYPES)})."
            )

    @property
    def max_full_position(self) -> int:
        """Longest sequence that no layer's window cuts: up to here the model may run as if it had none."""
        return min([self.max_position, *(window for window in self.layer_windows if window)])

    def linear_shapes(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of each projection of a layer, by its short Hugging Face name."""
        heads, kv_heads = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        return {
            "self_attn.q_proj": (heads, self.hidden_size),
            "self_attn.k_proj": (kv_heads, self.hidden_size),
            "self_attn.v_proj": (kv_heads, self.hidden_size),
            "self_attn.o_proj": (self.hidden_size, heads),
            "mlp.gate_proj": (self.intermediate_size, self.hidden_size),
            "mlp.up_proj": (self.intermediate_size, self.hidden_size),
            "mlp.down_proj": (self.hidden_size, self.intermediate_size),
        }

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every parameter of the model under its Hugging Face name, with its shape; the tied head is not listed."""
        shapes: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocab_size, self.hidden_size),
            "model.norm.weight": (self.hidden_size,),
        }
        if not self.tie_word_embeddings:
            shapes["lm_head.weight"] = (self.vocab_size, self.hidden_size)
        for layer in range(self.num_layers):
            prefix = f"model.layers.{layer}."
            shapes[prefix + "input_layernorm.weight"] = (self.hidden_size,)
            shapes[prefix + "post_attention_layernorm.weight"] = (self.hidden_size,)
            for name, shape in self.linear_shapes().items():
                shapes[f"{prefix}{name}.weight"] = shape
                if self._has_bias(name):
                    shapes[f"{prefix}{name}.bias"] = shape[:1]
        return shapes

    def _has_bias(self, name: str) -> bool:
        if name.startswith("mlp."):
            return self.mlp_bias
        return self.output_bias if name.endswith("o_proj") else self.attention_bias
