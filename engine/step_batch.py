"""From a step's plan to the arrays that the model runs on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..kernels.interface import AttentionBatch
from .block_table import BlockTable
from .request import Request
from .scheduler import Scheduled
from .types import StepBatch


def build_batch(
    plan: Sequence[Scheduled],
    block_size: int,
    copies: list[tuple[int, int]],
    windows: Sequence[int | None] = (None,),
) -> StepBatch:
    """Lay the plan's rows one after another; of which of them logits are wanted, `wanted_logits` says."""
    counts = np.fromiter((one.num_tokens for one in plan), np.int32, len(plan))
    starts = np.fromiter((one.request.num_computed for one in plan), np.int32, len(plan))
    query_start = np.zeros(len(plan) + 1, np.int32)
    np.cumsum(counts, out=query_start[1:])
    token_ids: list[int] = []
    for one in plan:
        first = one.request.num_computed
        token_ids += one.request.token_ids[first : first + one.num_tokens]
    owner = np.repeat(np.arange(len(plan)), counts)
    positions = (np.arange(query_start[-1]) - query_start[owner] + starts[owner]).astype(np.int32)
    groups = []
    for group, window in enumerate(windows):
        tables = _block_tables([one.request.tables[group] for one in plan])
        slots = tables[owner, positions // block_size].astype(np.int64) * block_size + positions % block_size
        groups.append(AttentionBatch(query_start, starts + counts, tables, positions, slots, block_size, group, window))
    sample_rows: list[int] = []
    for one, row in zip(plan, query_start.tolist(), strict=False):
        of_prompt, complete = wanted_logits(one.request, one.request.num_computed, one.num_tokens)
        sample_rows += range(row, row + of_prompt)
        if complete:
            sample_rows.append(row + one.num_tokens - 1)
    return StepBatch(
        token_ids=np.asarray(token_ids, np.int64),
        groups=groups,
        sample_rows=np.asarray(sample_rows, np.int64),
        copies=copies,
    )


def wanted_logits(request: Request, first: int, count: int) -> tuple[int, bool]:
    """Which logits a request's share of a step is to give.

    Args:
        first: index of the share's first token.
        count: tokens of the share.

    Returns:
        How many of its first rows are wanted because the token after them is one of the prompt, and whether the last
        row is, to choose the next token.
    """
    of_prompt = 0
    if request.needs_prompt_logits:
        of_prompt = max(0, min(count, request.num_prompt_tokens - 1 - first))
    return of_prompt, first + count == request.num_tokens


def _block_tables(tables: list[BlockTable[int]]) -> np.ndarray:
    """int32 [num_seqs, max_blocks], 0 past the end of a table and where it has no block."""
    rows = np.zeros((len(tables), max(map(len, tables))), np.int32)
    for row, table in zip(rows, tables, strict=True):
        row[: len(table)] = np.frombuffer(table, np.int32)
    return np.maximum(rows, 0, out=rows)
