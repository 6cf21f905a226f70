"""From settings to a model that runs: checkpoint, tokenizer, prompt builder, KV pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .config import EngineConfig
from .headroom import Headroom, StepLimits
from .memory import device_memory
from .models.checkpoint import open_checkpoint
from .pool_size import num_blocks
from .prompt import PromptBuilder, load_prompt_builder
from .runner import ModelRunner
from .tokenizer import Tokenizer, load_tokenizer


@dataclass
class LoadedModel:
    """What an engine needs of a model, and what there is to say about it."""

    runner: ModelRunner
    tokenizer: Tokenizer
    prompt_builder: PromptBuilder
    info: dict[str, Any]


def load_model(config: EngineConfig) -> LoadedModel:
    """Load the model that ``config`` names and make its KV pool.

    Raises:
        ModelFileError, ConfigError, EngineError: with one sentence for the user.
    """
    checkpoint = open_checkpoint(config.model)
    tokenizer = load_tokenizer(checkpoint)
    builder = load_prompt_builder(tokenizer)

    def size(
        bytes_per_block: int, windows: Sequence[int | None], model_limit: int, device: str, headroom: Headroom
    ) -> int:
        longest = min(config.max_model_len or model_limit, model_limit)
        return num_blocks(config, bytes_per_block, longest, device_memory(device), windows, headroom)

    runner = ModelRunner.load(
        checkpoint,
        device=config.device,
        dtype=config.dtype,
        block_size=config.block_size,
        num_blocks_for=size,
        max_model_len=config.max_model_len,
        deterministic=config.deterministic,
        threads=config.threads,
        step_limits=StepLimits(max(config.max_num_batched_tokens, config.max_num_seqs), config.max_num_seqs),
    )
    info = {
        "model": checkpoint.name,
        "model_path": str(checkpoint.path),
        "fingerprint": checkpoint.fingerprint,
        "sampling_defaults": dict(checkpoint.generation_defaults),
        "warnings": [*checkpoint.warnings, *tokenizer.warnings],
    }
    return LoadedModel(runner, tokenizer, builder, info)
