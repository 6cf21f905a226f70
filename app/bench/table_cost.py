"""What looking up blocks in a table costs the attention of one chat, against one block as long as the context."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...engine.types import StepBatch
from ...kernels.interface import AttentionBatch
from .cells import reserved_tokens
from .models import DEFAULT_MODE, BenchModel
from .random_model import random_model

SHORT = 16


@dataclass
class TableCost:
    """Medians of a decoding step, seconds.

    Attributes:
        ratio: the median of the rounds' own ratios, paged over contiguous; each round runs both.
    """

    context: int
    paged_s: float
    contiguous_s: float
    ratio: float


def attention_model(context: int) -> BenchModel:
    """Heads and layers of the default model with next to nothing around them: its step is attention."""
    return random_model(
        num_layers=30,
        hidden_size=32,
        intermediate_size=32,
        num_heads=9,
        num_kv_heads=3,
        head_dim=64,
        max_position=reserved_tokens(context) + 1,
    )


def attention_ratio(model: BenchModel, context: int = 1024, rounds: int = 40) -> float:
    """What the table makes of the time of attention alone: the step without it (a context of one block) is taken off
    both sides."""
    whole, rest = table_cost(model, context, rounds=rounds), table_cost(model, SHORT, rounds=rounds).contiguous_s
    return 1 + (whole.ratio - 1) * whole.contiguous_s / (whole.contiguous_s - rest)


def table_cost(model: BenchModel, context: int = 1024, block_size: int = 16, rounds: int = 40) -> TableCost:
    """Time a decoding step of one chat on blocks in random order and on one block, in turns."""
    paged = _step(model, context, block_size)
    contiguous = _step(model, context, reserved_tokens(context))
    times: list[tuple[float, float]] = []
    for turn in range(rounds):
        first, second = (paged, contiguous) if turn % 2 else (contiguous, paged)
        one, two = first(), second()
        times.append((one, two) if turn % 2 else (two, one))
    ratio = statistics.median(paged_s / contiguous_s for paged_s, contiguous_s in times)
    paged_s, contiguous_s = (statistics.median(column) for column in zip(*times, strict=True))
    return TableCost(context, paged_s, contiguous_s, ratio)


def _step(model: BenchModel, context: int, block_size: int) -> Callable[[], float]:
    """A function that runs the step three times and says how long the quickest took."""
    blocks = -(-context // block_size)
    runner = model.runner(DEFAULT_MODE, block_size, blocks)
    runner.kv_cache.zero_()
    table = list(range(blocks))
    random.Random(1).shuffle(table)
    last = context - 1
    slot = table[last // block_size] * block_size + last % block_size
    attention = AttentionBatch(
        query_start=np.array([0, 1], np.int32),
        seq_lens=np.array([context], np.int32),
        block_tables=np.array([table], np.int32),
        positions=np.array([last], np.int32),
        slot_mapping=np.array([slot], np.int64),
        block_size=block_size,
    )
    batch = StepBatch(np.zeros(1, np.int64), [attention], np.zeros(1, np.int64))

    def run() -> float:
        took = []
        for _ in range(3):
            began = time.perf_counter()
            runner.execute(batch)
            took.append(time.perf_counter() - began)
        return min(took)

    run()
    return run
