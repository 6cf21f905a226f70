"""A checkpoint in memory, made from a transformers Llama model, and batches for the runner."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from pagedchat.engine.errors import ModelFileError
from pagedchat.engine.models.spec import ModelSpec
from pagedchat.engine.types import StepBatch
from pagedchat.kernels.interface import AttentionBatch


class FakeCheckpoint:
    """Tensors by name, as a checkpoint gives them."""

    def __init__(self, spec: ModelSpec, tensors: dict[str, Any], name: str = "tiny"):
        self.spec = spec
        self.tensors = tensors
        self.name = name
        self.fingerprint = "tiny"
        self.generation_defaults: dict[str, Any] = {}

    def names(self) -> list[str]:
        return list(self.tensors)

    def tensor(self, name: str) -> Any:
        return self.tensors[name]

    def check_all_used(self, used: set[str]) -> None:
        unused = sorted(set(self.tensors) - set(used))
        if unused:
            raise ModelFileError(f"{self.name}: nothing uses {unused}")


def tiny_llama(seed: int = 0, **changes: Any) -> Any:
    """A random transformers LlamaForCausalLM in float32, on a few thousand weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes: dict[str, Any] = {
        "vocab_size": 97,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "initializer_range": 0.3,
        "attn_implementation": "eager",
    }
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**{**sizes, **changes})).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                weight.add_(torch.randn_like(weight) * 0.1)
    return model


def checkpoint_of(model: Any) -> FakeCheckpoint:
    """The checkpoint a file of this model would give; a tied head is left out, as files do."""
    config = model.config
    tensors = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    if config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
    rope = dict(config.rope_parameters)
    spec = ModelSpec(
        architecture="llama",
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        intermediate_size=config.intermediate_size,
        rms_eps=config.rms_norm_eps,
        rope_theta=rope.pop("rope_theta"),
        tie_word_embeddings=config.tie_word_embeddings,
        max_position=config.max_position_embeddings,
        rope_scaling=rope if rope.get("rope_type", "default") != "default" else None,
        attention_bias=bool(config.attention_bias),
    )
    return FakeCheckpoint(spec, tensors)


def attention_batch(tables: list[list[int]], spans: list[tuple[int, int]], block_size: int) -> AttentionBatch:
    """Sequence i, on the physical blocks ``tables[i]``, brings its tokens at positions ``begin .. end - 1``."""
    width = max(len(table) for table in tables)
    padded = np.zeros((len(tables), width), np.int32)
    for row, table in enumerate(tables):
        padded[row, : len(table)] = table
    positions = np.concatenate([np.arange(begin, end, dtype=np.int32) for begin, end in spans])
    owner = np.repeat(np.arange(len(spans)), [end - begin for begin, end in spans])
    slots = padded[owner, positions // block_size].astype(np.int64) * block_size + positions % block_size
    counts = [end - begin for begin, end in spans]
    return AttentionBatch(
        query_start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        seq_lens=np.array([end for _, end in spans], np.int32),
        block_tables=padded,
        positions=positions,
        slot_mapping=slots,
        block_size=block_size,
    )


def scattered_sequences() -> tuple[list[list[int]], list[list[int]]]:
    """Three sequences of 40 ids below 97, and for each ten blocks of a pool of 64, in any order."""
    draw = random.Random(4)
    ids = [[draw.randrange(97) for _ in range(40)] for _ in range(3)]
    order = draw.sample(range(64), 30)
    return ids, [order[:10], order[10:20], order[20:30]]


def step_batch(
    ids: list[list[int]],
    tables: list[list[int]],
    spans: list[tuple[int, int]],
    block_size: int,
    sample_rows: list[int] | None = None,
    copies: list[tuple[int, int]] | None = None,
) -> StepBatch:
    """One step that feeds ``ids[i][begin:end]`` of each sequence; by default logits of each sequence's last row."""
    attention = attention_batch(tables, spans, block_size)
    tokens = np.concatenate([np.array(row[begin:end], np.int64) for row, (begin, end) in zip(ids, spans, strict=True)])
    rows = attention.query_start[1:].astype(np.int64) - 1 if sample_rows is None else np.array(sample_rows, np.int64)
    return StepBatch(tokens, [attention], rows, list(copies or []))
