"""What long contexts cost: time to the first token, decoding, KV, and whether a step's own memory grows with them."""

from __future__ import annotations

import gc
import random
import statistics
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .cells import PAGED, bench_configuration, engine_for
from .memory_peak import peak_memory, reset_peak
from .models import DEFAULT_MODE, BenchModel
from .random_model import random_model
from .replay import Arrival, Replay, replay
from .report import BenchResult, Plot, Table
from .step_cost import random_ids

if TYPE_CHECKING:
    import numpy as np

    from ...engine.types import StepBatch

GOAL_GROWTH = 1.1
MIB = 2**20
COLUMNS = ["context", "TTFT s", "prompt tokens/s", "decode tokens/s", "KV MiB", "activations MiB", "memory MiB"]


@dataclass(frozen=True)
class LongLoad:
    """What is served: one chat at a time.

    Attributes:
        lengths: tokens of the prompts, shortest first.
        chunk: tokens of a step.
        hidden_size, intermediate_size: of the model, wide enough that a step's memory is that of its rows.
    """

    lengths: tuple[int, ...] = (8192, 32_768, 131_072)
    reply: int = 16
    chunk: int = 512
    hidden_size: int = 256
    intermediate_size: int = 1024
    seed: int = 1


class WatchedRunner:
    """A runner that notes how much memory its steps take beside weights and KV; otherwise the one it wraps.

    It sees what numpy and Python take, which is all that the compiled program works in, while `tracemalloc` runs. That
    costs a short step as much again, so it ends with the reply's first step and the others show their speed.

    Attributes:
        peak_bytes: most at a time: what steps have kept for the next ones, and what the largest took beside.
    """

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._kept = 0
        self.peak_bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def execute(self, batch: StepBatch) -> np.ndarray:
        """See `ModelRunner.execute`."""
        if not tracemalloc.is_tracing():
            return self._runner.execute(batch)
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        logits = self._runner.execute(batch)
        after, peak = tracemalloc.get_traced_memory()
        self.peak_bytes = max(self.peak_bytes, self._kept + peak - before)
        self._kept += after - before - logits.nbytes
        if len(batch.token_ids) == 1:
            tracemalloc.stop()
        return logits


def long_model(load: LongLoad) -> BenchModel:
    """Two layers, one KV head: attention over 128k tokens is minutes, not hours."""
    return random_model(
        num_layers=2,
        hidden_size=load.hidden_size,
        intermediate_size=load.intermediate_size,
        num_heads=2,
        num_kv_heads=1,
        head_dim=16,
        max_position=max(load.lengths) + load.reply + 1,
    )


def run_long(load: LongLoad | None = None, note: Callable[[str], None] = lambda text: None) -> BenchResult:
    """Serve each length alone, the shortest first.

    Args:
        note: told which length runs.
    """
    load = load or LongLoad()
    model = long_model(load)
    result = BenchResult(
        "long", bench_configuration(model.checkpoint), {**asdict(load), "model": model.checkpoint.name}
    )
    serve_length(model, load, 2 * load.chunk)  # the first use of the kernels
    found: dict[int, dict[str, float]] = {}
    for length in sorted(load.lengths):
        note(f"{length:,} tokens")
        found[length] = serve_length(model, load, length)
    shortest, longest = min(found), max(found)
    growth = found[longest]["activation_bytes"] / found[shortest]["activation_bytes"]
    result.figures = {"lengths": {str(length): one for length, one in found.items()}, "activation_growth": growth}
    rows = [_row(length, one) for length, one in found.items()]
    result.tables = [Table("One chat, alone", COLUMNS, rows, _note(load))]
    seconds = [(length, one["ttft_s"]) for length, one in found.items()]
    result.plots = [Plot("Time to the first token", "tokens", "seconds", {"TTFT": seconds})]
    result.passed = growth <= GOAL_GROWTH
    result.verdict = (
        f"A step's own memory at {longest:,} tokens is {growth:.3f} times that at {shortest:,} "
        f"(goal: at most {GOAL_GROWTH}): {'met' if result.passed else 'MISSED'}."
    )
    return result.finish()


def serve_length(model: BenchModel, load: LongLoad, length: int) -> dict[str, float]:
    """The figures of one prompt."""
    gc.collect()
    reset_peak()
    watched: list[WatchedRunner] = []

    def make(size: int, blocks: int) -> WatchedRunner:
        watched.append(WatchedRunner(model.runner(DEFAULT_MODE, size, blocks)))
        return watched[-1]

    room = length + load.reply
    prompt = random_ids(random.Random(load.seed), length, model.tokenizer.num_tokens)
    engine = engine_for(
        PAGED,
        make,
        model.tokenizer,
        room + 64,
        model.max_model_len,
        max_num_seqs=1,
        max_num_batched_tokens=load.chunk,
    )
    tracemalloc.start()
    try:
        run = replay(engine, [Arrival(0.0, prompt, load.reply)])
    finally:
        tracemalloc.stop()
    return {**_times(run, length), **_sizes(run, engine.runner.bytes_per_block // engine.kv.block_size, watched[0])}


def _times(run: Replay, length: int) -> dict[str, float]:
    (one,) = run.requests
    return {
        "ttft_s": one.ttft_s,
        "prompt_tokens_per_s": length / one.ttft_s,
        "decode_tokens_per_s": 1 / statistics.median(one.itl_s[1:]),  # the first step was watched
    }


def _sizes(run: Replay, bytes_per_slot: int, runner: WatchedRunner) -> dict[str, float]:
    return {
        "kv_bytes": max(step.slots for step in run.steps) * bytes_per_slot,
        "activation_bytes": runner.peak_bytes,
        "memory_bytes": peak_memory(),
    }


def _row(length: int, one: dict[str, float]) -> list[Any]:
    speeds = [one[name] for name in ("ttft_s", "prompt_tokens_per_s", "decode_tokens_per_s")]
    sizes = [one[name] / MIB for name in ("kv_bytes", "activation_bytes")]
    return [length, *speeds, *(round(size, 2) for size in sizes), round(one["memory_bytes"] / MIB)]


def _note(load: LongLoad) -> str:
    return (
        f"A model with random weights: 2 layers, 2 heads over 1 KV head of 16, width {load.hidden_size}; its speed is "
        f"no other model's. Steps of {load.chunk} tokens. Activations: most that a step takes beside weights and KV, "
        "what it keeps for the next one included. Memory: most of the whole process."
    )
