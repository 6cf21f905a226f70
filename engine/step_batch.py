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
    for one in plan:
        if one.num_tokens != 1 or one.request.num_to_compute != 1:
            return _build_any(plan, block_size, copies, windows)
    return _build_decodes([one.request for one in plan], block_size, copies, windows)


def _build_decodes(
    requests: list[Request], block_size: int, copies: list[tuple[int, int]], windows: Sequence[int | None]
) -> StepBatch:
    """A step of the next tokens of replies alone, most steps there are: a row and its logits for each request."""
    count = len(requests)
    computed = [request.num_computed for request in requests]
    positions = np.array(computed, np.int32)
    query_start, lengths = np.arange(count + 1, dtype=np.int32), positions + np.int32(1)
    groups = []
    for group, window in enumerate(windows):
        tables = [request.tables[group] for request in requests]
        slots = [
            table[position // block_size] * block_size + position % block_size
            for table, position in zip(tables, computed, strict=True)
        ]
        blocks, slot_mapping = _block_tables(tables, window), np.array(slots, np.int64)
        groups.append(AttentionBatch(query_start, lengths, blocks, positions, slot_mapping, block_size, group, window))
    token_ids = np.array([request.token_ids[-1] for request in requests], np.int64)
    return StepBatch(token_ids, groups, np.arange(count, dtype=np.int64), copies)


def _build_any(
    plan: Sequence[Scheduled], block_size: int, copies: list[tuple[int, int]], windows: Sequence[int | None]
) -> StepBatch:
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
        tables = _block_tables([one.request.tables[group] for one in plan], window)
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
    complete = first + count == len(request.token_ids)
    if request.params.prompt_logprobs is None or not request.needs_prompt_logits:
        return 0, complete
    return max(0, min(count, request.num_prompt_tokens - 1 - first)), complete


def _block_tables(tables: list[BlockTable[int]], window: int | None) -> np.ndarray:
    """int32 [num_seqs, max_blocks], 0 past the end of a table and where it has no block."""
    rows = np.zeros((len(tables), max(map(len, tables))), np.int32)
    for row, table in zip(rows, tables, strict=True):
        row[: len(table)] = table
    return rows if window is None else np.maximum(rows, 0, out=rows)
