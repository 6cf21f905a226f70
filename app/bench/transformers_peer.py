"""Plain transformers on the same weights, for comparison: how often its own cache changes its greedy token."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ...engine.errors import PagedChatError
from ...kernels.reference import dense

if TYPE_CHECKING:
    from .models import BenchModel


def transformers_model(model: BenchModel, dtype: torch.dtype) -> Any:
    """A transformers Llama with the dequantized weights of a checkpoint, rounded to ``dtype``.

    Raises:
        PagedChatError: for models of other families.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    spec = model.checkpoint.spec
    if spec.architecture != "llama" or spec.rope_scaling is not None:
        raise PagedChatError(f"the comparison knows plain llama models only, not {spec.architecture}")
    config = LlamaConfig(
        vocab_size=spec.vocab_size,
        hidden_size=spec.hidden_size,
        intermediate_size=spec.intermediate_size,
        num_hidden_layers=spec.num_layers,
        num_attention_heads=spec.num_heads,
        num_key_value_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        max_position_embeddings=spec.max_position,
        rms_norm_eps=spec.rms_eps,
        rope_parameters={"rope_type": "default", "rope_theta": spec.rope_theta},
        tie_word_embeddings=spec.tie_word_embeddings,
        attention_bias=spec.attention_bias,
        mlp_bias=spec.mlp_bias,
    )
    built: Any = LlamaForCausalLM(config)
    state = {name: dense(model.checkpoint.tensor(name)).to(dtype) for name in model.checkpoint.names()}
    missing, unknown = built.to(dtype).load_state_dict(state, strict=False)
    if unknown or set(missing) - {"lm_head.weight"}:
        raise PagedChatError(f"transformers' llama has other weights: {[*missing, *unknown]}")
    built.tie_weights()
    return built.eval()


def cache_flip_rate(model: BenchModel, passages: Sequence[Sequence[int]], dtype: torch.dtype = torch.bfloat16) -> float:
    """Share of positions whose most likely token differs between one pass over a passage and token by token on the
    cache; passages of equal length, all in one batch."""
    peer, ids = transformers_model(model, dtype), torch.tensor([list(one) for one in passages])
    flips = 0
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about the cache's argument, whose new name is not yet in all
        whole = torch.cat([peer(one[None], use_cache=False).logits.argmax(-1) for one in ids])
        cache = None
        for place in range(ids.shape[1]):
            step = peer(ids[:, place : place + 1], past_key_values=cache, use_cache=True)
            cache = step.past_key_values
            flips += int((step.logits[:, 0].argmax(-1) != whole[:, place]).sum())
    return flips / ids.numel()
