"""Random paged batches: scattered block tables, mixed prefills and decodes, unused slots full of NaN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from pagedchat.kernels.interface import AttentionBatch

from .fake_checkpoint import attention_batch


@dataclass
class PagedCase:
    """One layer's cache [2, num_blocks, kv_heads, block_size, head_dim], a batch on it and its queries."""

    cache: torch.Tensor
    batch: AttentionBatch
    query: torch.Tensor


def paged_case(
    seed: int,
    spans: list[tuple[int, int]],
    block_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    dtype: torch.dtype = torch.float32,
    shared: Mapping[int, tuple[int, int]] | None = None,
) -> PagedCase:
    """Sequence i has ``spans[i][1]`` tokens in the cache and asks for those from ``spans[i][0]`` on.

    ``shared[i] = (j, blocks)``: sequence i begins with as many blocks of j, which comes before it.
    """
    random = np.random.default_rng(seed)
    need = [-(-end // block_size) for _, end in spans]
    total = sum(need) + 3
    order = [int(block) for block in random.permutation(total)]
    tables, own = [], []
    for i, count in enumerate(need):
        j, blocks = (shared or {}).get(i, (0, 0))
        tables.append(tables[j][:blocks] if blocks else [])
        own.append(blocks * block_size)
        tables[i] += [order.pop() for _ in range(count - blocks)]
    cache = torch.full((2, total, kv_heads, block_size, head_dim), float("nan"), dtype=dtype)
    for table, first, (_, end) in zip(tables, own, spans, strict=True):
        for position in range(first, end):
            content = torch.from_numpy(random.standard_normal((2, kv_heads, head_dim), np.float32))
            cache[:, table[position // block_size], :, position % block_size] = content.to(dtype)
    batch = attention_batch(tables, spans, block_size)
    query = torch.from_numpy(random.standard_normal((batch.num_tokens, heads, head_dim), np.float32))
    return PagedCase(cache, batch, query)
