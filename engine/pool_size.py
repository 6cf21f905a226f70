"""How many KV blocks to make: a size for a desktop, not for the card, out of what is free and not of what there is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .config import EngineConfig
from .errors import ConfigError
from .kv_demand import KVDemand
from .memory import DeviceMemory

if TYPE_CHECKING:
    from .headroom import Headroom

DEFAULT_CAP = 2 * 2**30
SLACK_SHARE = 0.05
LEAST_SLACK = 64 * 2**20
"""Bytes that stay free beside pool, weights and the largest step: this share of the free memory, at least so much."""


def slack_of(free: int) -> int:
    """Bytes that stay free whatever else is known."""
    return max(LEAST_SLACK, int(free * SLACK_SHARE))


def num_blocks(
    config: EngineConfig,
    bytes_per_block: int,
    max_model_len: int,
    memory: DeviceMemory,
    windows: Sequence[int | None] = (None,),
    headroom: Headroom | None = None,
) -> int:
    """Blocks for the pool.

    Args:
        bytes_per_block: bytes of one block over all layers that it serves, keys and values.
        max_model_len: longest sequence, tokens.
        memory: of the device, before the weights are prepared.
        windows: of each KV group, how many positions back its layers see; each needs blocks for the same tokens.
        headroom: what the model takes beside the pool.

    Raises:
        ConfigError: when the pool would be too small for any request, or larger than the room for it; with the numbers
            and the smallest setting that works.
    """
    room = Room(memory, (headroom.total if headroom else 0) + slack_of(memory.free), bytes_per_block)
    least = fewest_blocks(config, windows)
    context = max(least, len(windows) * -(-max_model_len // config.block_size))
    if least > room.blocks:
        raise ConfigError(
            f"There is no room for a KV pool: the smallest takes {room.size(least)}, but of the {_mib(memory.free)} of "
            f"memory that are free {_mib(room.beside)} are for the weights, the largest step and some slack. Close "
            "other programs, or start with a smaller --max-num-batched-tokens (128, say) or --max-model-len, or "
            "another model."
        )
    blocks, wish, smallest = _wished(config, room, least, context)
    wish = wish or f"a context of {max_model_len:,} tokens"
    if blocks < least:
        raise ConfigError(
            f"{wish} leaves the KV pool {_count(blocks)}, and no request can run in fewer than {_count(least)} "
            f"({room.size(least)}). The smallest setting that works is {smallest}; a whole context of "
            f"{max_model_len:,} tokens takes {_count(context)} ({room.size(context)})."
        )
    if blocks > room.blocks:
        fits = max(least, room.blocks // 2)
        raise ConfigError(
            f"{wish} needs a KV pool of {room.size(blocks)}, but of the {_mib(memory.free)} of memory that are free "
            f"only {_mib(room.bytes)} are left for it. Try --num-blocks {fits}"
            + ("." if fits >= context else " and a smaller --max-model-len.")
        )
    return blocks


@dataclass(frozen=True)
class Room:
    """What is left for the pool: free memory without what must stay free beside it."""

    memory: DeviceMemory
    beside: int
    bytes_per_block: int

    @property
    def bytes(self) -> int:
        """Bytes for the pool."""
        return max(0, self.memory.free - self.beside)

    @property
    def blocks(self) -> int:
        """Blocks that fit."""
        return self.bytes // self.bytes_per_block

    def size(self, blocks: int) -> str:
        """So many blocks, as people read it."""
        return _mib(blocks * self.bytes_per_block)


def _wished(config: EngineConfig, room: Room, least: int, context: int) -> tuple[int, str, str]:
    """Blocks that the settings ask for, the setting that does (empty: none does), and the least it could ask for.

    Args:
        least: blocks of the smallest pool that works.
        context: blocks of the longest sequence.
    """
    memory, per_block = room.memory, room.bytes_per_block
    if config.num_blocks is not None:
        return config.num_blocks, f"--num-blocks {config.num_blocks}", f"--num-blocks {least}"
    if config.kv_cache_memory is not None:
        smallest = f"--kv-cache-memory {-(-least * per_block // 1024)}KiB"
        return config.kv_cache_memory // per_block, f"--kv-cache-memory {config.kv_cache_memory}", smallest
    if config.gpu_memory_utilization is not None:
        share, taken = config.gpu_memory_utilization, memory.total - memory.free + room.beside
        needed = math.ceil(100 * (taken + least * per_block) / memory.total) / 100
        smallest = f"--gpu-memory-utilization {needed:g}" if needed < 1 else f"--num-blocks {least}"
        blocks = max(0, int(memory.total * share) - taken) // per_block
        return blocks, f"--gpu-memory-utilization {share:g}", smallest
    most = min(config.max_num_seqs * context * per_block, memory.free // 2, DEFAULT_CAP, room.bytes)
    return max(most // per_block, context), "", ""


def fewest_blocks(config: EngineConfig, windows: Sequence[int | None]) -> int:
    """Blocks of the smallest pool in which a request can run at all."""
    most_tokens = max(config.max_num_batched_tokens, config.max_num_seqs)
    blocks = len(windows)
    while KVDemand(blocks, config.block_size, windows, most_tokens).capacity == 0:
        blocks += 1
    return blocks


def _count(blocks: int) -> str:
    return "1 block" if blocks == 1 else f"{blocks or 'no'} blocks"


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
