"""From a step's plan to the arrays that the model runs on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..kernels.interface import AttentionBatch
from .scheduler import Scheduled
from .types import StepBatch


def build_batch(plan: Sequence[Scheduled], block_size: int, copies: list[tuple[int, int]]) -> StepBatch:
    """Lay the plan's rows one after another; logits are wanted of a request's newest token only."""
    counts = np.fromiter((one.num_tokens for one in plan), np.int32, len(plan))
    starts = np.fromiter((one.request.num_computed for one in plan), np.int32, len(plan))
    query_start = np.zeros(len(plan) + 1, np.int32)
    np.cumsum(counts, out=query_start[1:])
    tables = np.zeros((len(plan), max(len(one.request.blocks) for one in plan)), np.int32)
    token_ids: list[int] = []
    for row, one in enumerate(plan):
        tables[row, : len(one.request.blocks)] = one.request.blocks
        first = one.request.num_computed
        token_ids += one.request.token_ids[first : first + one.num_tokens]
    owner = np.repeat(np.arange(len(plan)), counts)
    positions = (np.arange(query_start[-1]) - query_start[owner] + starts[owner]).astype(np.int32)
    slots = tables[owner, positions // block_size].astype(np.int64) * block_size + positions % block_size
    complete = [one.num_tokens == one.request.num_to_compute for one in plan]
    return StepBatch(
        token_ids=np.asarray(token_ids, np.int64),
        attention=AttentionBatch(
            query_start=query_start,
            seq_lens=(starts + counts).astype(np.int32),
            block_tables=tables,
            positions=positions,
            slot_mapping=slots,
            block_size=block_size,
        ),
        sample_rows=(query_start[1:].astype(np.int64) - 1)[complete],
        copies=copies,
    )
