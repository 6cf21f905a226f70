"""How many KV blocks to make: a size for a desktop, not for the card."""

from __future__ import annotations

from .config import EngineConfig
from .errors import ConfigError

DEFAULT_CAP = 2 * 2**30


def num_blocks(
    config: EngineConfig, bytes_per_block: int, max_model_len: int, free: int, total: int, num_groups: int = 1
) -> int:
    """Blocks for the pool.

    Args:
        bytes_per_block: bytes of one block over all layers, keys and values.
        max_model_len: longest sequence, tokens.
        free: free memory of the device, bytes, weights already loaded.
        total: all memory of the device, bytes.
        num_groups: KV groups of the model: each needs a block for the same tokens.

    Raises:
        ConfigError: when not even one block fits, or a wish is larger than the free memory; with the numbers.
    """
    one_sequence = num_groups * -(-max_model_len // config.block_size)
    if config.num_blocks is not None:
        blocks, wish = config.num_blocks, f"--num-blocks {config.num_blocks}"
    elif config.kv_cache_memory is not None:
        blocks, wish = config.kv_cache_memory // bytes_per_block, f"--kv-cache-memory {config.kv_cache_memory}"
    elif config.gpu_memory_utilization is not None:
        budget = max(0, int(total * config.gpu_memory_utilization) - (total - free))
        blocks, wish = budget // bytes_per_block, f"--gpu-memory-utilization {config.gpu_memory_utilization:g}"
    else:
        memory = min(config.max_num_seqs * one_sequence * bytes_per_block, free // 2, DEFAULT_CAP)
        blocks, wish = max(memory // bytes_per_block, one_sequence), f"a context of {max_model_len} tokens"
    if blocks < 1:
        raise ConfigError(
            f"The KV pool would have no block: one takes {_mib(bytes_per_block)} and {wish} leaves too little of the "
            f"{_mib(free)} that are free. Try --num-blocks 64."
        )
    if blocks * bytes_per_block > free:
        fits = max(1, free // 2 // bytes_per_block)
        raise ConfigError(
            f"{wish} needs a KV pool of {_mib(blocks * bytes_per_block)}, but only {_mib(free)} of memory are free. "
            f"Try --num-blocks {fits}" + ("." if fits >= one_sequence else " and a smaller --max-model-len.")
        )
    return blocks


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
