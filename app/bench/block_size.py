"""What the size of a block decides: waste, work of pool and scheduler, speed, and what a hit loses at its end."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...engine.config import BLOCK_SIZES, EngineConfig
from ...engine.errors import ConfigError
from .allocators import Paged
from .cells import PAGED, bench_configuration, engine_for
from .figures import percentile
from .no_model import NoTokenizer
from .replay import Arrival, Replay, VirtualClock, replay
from .report import BenchResult, Plot, Table
from .step_cost import STATED, SimulatedModel, StepCost, random_ids
from .traces import Lengths, chat_load

if TYPE_CHECKING:
    from .models import BenchModel

SIZES = (1, 8, 16, 32, 64, 128)
CLASSES = {"up to 127": (16, 127), "128-383": (128, 383), "384-1,023": (384, 1023), "1,024 on": (1024, 4096)}
"""Tokens of a sequence: the classes by which waste is told."""
MIDDLE = "128-383"
REPLIES = (16, 64, 256)
REAL_PROMPTS = Lengths(200, least=64, most=512)
MOST_WASTE = 0.05
NEAR_BEST = 0.95
WASTE_NOTE = "Share of the slots in use that hold nothing, mean of {count} sequences a class, none shared."
WORK_NOTE = (
    "Simulated time ({cost}): {chats} chats with prompts of {prompt} tokens, by the length of their replies. "
    "Scheduler: real microseconds a step, median. Waiting: P95 of a burst on {budget:,} slots of KV, simulated."
)
SPEED_NOTE = "The model itself, {chats} chats at once, medians of {rounds} rounds in which all sizes took turns."
REUSE_NOTE = (
    "Tokens of a chat's history that its next question computes again, mean of {count} chats: with reuse to the token, "
    "as served, and with whole blocks only."
)


@dataclass(frozen=True)
class BlockSizeLoad:
    """Sizes of the parts.

    Attributes:
        sequences: of each length class, and of second turns.
        chats, prompt: at once in the simulated part.
        burst, budget: requests that come at once, and slots of KV for them.
        real_chats, real_reply, rounds: of the part on the model.

    Raises:
        ConfigError: on a size that an engine does not take.
    """

    sizes: tuple[int, ...] = SIZES
    sequences: int = 100
    chats: int = 16
    prompt: int = 200
    burst: int = 48
    budget: int = 8192
    real_chats: int = 8
    real_prompts: Lengths = REAL_PROMPTS
    real_reply: int = 48
    rounds: int = 3
    seed: int = 1

    def __post_init__(self) -> None:
        wrong = [size for size in self.sizes if size not in BLOCK_SIZES]
        if wrong:
            raise ConfigError(f"--sizes are powers of two from 1 to {BLOCK_SIZES[-1]}, not {wrong[0]}.")


def run_block_size(
    load: BlockSizeLoad | None = None,
    model: BenchModel | None = None,
    cost: StepCost = STATED,
    note: Callable[[str], None] = lambda text: None,
) -> BenchResult:
    """All tables; those on the model only with one.

    Args:
        cost: of a simulated step.
        note: told which part runs.
    """
    load = load or BlockSizeLoad()
    parameters = {"sizes": list(load.sizes), "seed": load.seed, "step_cost": str(cost)}
    result = BenchResult("block-size", bench_configuration(model.checkpoint if model else None), parameters)
    figures: dict[int, dict[str, Any]] = {}
    for size in load.sizes:
        note(f"blocks of {size}")
        figures[size] = {
            "waste": {name: waste_of(size, bounds, load) for name, bounds in CLASSES.items()},
            "lost": lost_at_boundary(size, load),
            **pool_work(size, load, cost),
            "queue_p95_s": waiting_p95(size, load, cost),
        }
    if model is not None:
        for size, found in real_speed(model, load, note).items():
            figures[size] |= found
    result.figures = {"sizes": {str(size): found for size, found in figures.items()}}
    result.tables = _tables(figures, load, cost, model is not None)
    waste = {name: [(str(size), 100 * one["waste"][name]) for size, one in figures.items()] for name in CLASSES}
    result.plots = [Plot("Waste by tokens of a sequence", "block size", "% of slots in use", waste)]
    result.figures["supported"] = supported_size(figures)
    result.verdict = _verdict(figures, model is not None)
    return result.finish()


def waste_of(size: int, bounds: tuple[int, int], load: BlockSizeLoad) -> float:
    """Empty share of the slots in use, over sequences of one length class."""
    rng, least = random.Random(load.seed), bounds[0]
    pool = Paged(load.sequences * (bounds[1] + size), bounds[1], size, caching=False)
    for key in range(load.sequences):
        tokens = [0] * rng.randint(least, bounds[1])
        assert pool.admit(key, tokens, len(tokens)), "the pool is made for all of them"
    usage = pool.usage()
    return 1 - usage.live / usage.in_use


def lost_at_boundary(size: int, load: BlockSizeLoad) -> dict[str, float]:
    """Tokens of a known prefix that are not found: exact to the token, and in whole blocks."""
    rng, lost = random.Random(load.seed), {"exact": 0, "blocks": 0}
    pool = Paged(load.sequences * 800, 1200, size)
    for key in range(load.sequences):
        history = random_ids(rng, rng.randint(100, 600), 50_000)
        assert pool.admit(key, history, len(history))
        pool.release(key)
        question = [*history, *random_ids(rng, 20, 50_000)]
        found = pool.kv.match(question, "", len(question) - 1)
        lost["exact"] += len(history) - found.num_tokens(size)
        lost["blocks"] += len(history) - len(found.nodes) * size
    return {name: count / load.sequences for name, count in lost.items()}


def pool_work(size: int, load: BlockSizeLoad, cost: StepCost) -> dict[str, Any]:
    """Blocks taken and given back a second by the length of replies, and the scheduler's time a step."""
    found: dict[str, Any] = {"allocated_per_s": {}, "released_per_s": {}}
    for reply in REPLIES:
        arrivals = chat_load(load.chats, Lengths(load.prompt, 0.0), Lengths(reply, 0.0, 1), 0.0, load.seed)
        counts = {"allocated": 0, "released": 0}

        def count(events: list[dict[str, Any]], counts: dict[str, int] = counts) -> None:
            for event in events:
                if event["type"] in counts:
                    counts[event["type"]] += len(event["blocks"])

        engine, run = _simulate(size, load.chats * (load.prompt + reply + 2 * size), arrivals, cost, count)
        for name, value in counts.items():
            found[f"{name}_per_s"][reply] = value / run.seconds
        found["scheduler_us"] = statistics.median(engine.scheduler.planning_s) * 1e6
    return found


def waiting_p95(size: int, load: BlockSizeLoad, cost: StepCost) -> float:
    """Seconds that the slowest twentieth of a burst waits for room, simulated."""
    arrivals = chat_load(load.burst, Lengths(250, most=800), Lengths(100, most=300), 0.0, load.seed)
    _, run = _simulate(size, load.budget, arrivals, cost)
    return percentile([one.queue_s for one in run.requests], 95) or 0.0


def real_speed(
    model: BenchModel, load: BlockSizeLoad, note: Callable[[str], None] = lambda text: None
) -> dict[int, dict[str, float]]:
    """TTFT, TPOT and throughput of the model by block size."""
    from .models import DEFAULT_MODE

    replies = Lengths(load.real_reply, 0.0, 1)
    vocab = model.tokenizer.num_tokens
    arrivals = chat_load(load.real_chats, load.real_prompts, replies, 0.0, load.seed, vocab)
    budget = load.real_chats * (load.real_prompts.most + load.real_reply + 2 * max(load.sizes))
    runs: dict[int, list[Replay]] = {size: [] for size in load.sizes}
    for turn in range(load.rounds):
        note(f"on the model, round {turn + 1} of {load.rounds}")
        for size in load.sizes if turn % 2 else load.sizes[::-1]:
            engine = engine_for(
                PAGED,
                lambda size, blocks: model.runner(DEFAULT_MODE, size, blocks),
                model.tokenizer,
                budget,
                model.max_model_len,
                block_size=size,
            )
            replay(engine, [replace(one, max_tokens=2) for one in arrivals[:2]])  # room for a step's rows
            runs[size].append(replay(engine, arrivals))
    return {size: _speed(some) for size, some in runs.items()}


def supported_size(figures: dict[int, dict[str, Any]]) -> int | None:
    """The largest block that wastes little for chats of about 256 tokens and is nearly as fast as the fastest; None
    where none is both."""
    best = max(one.get("tokens_per_s", 0.0) for one in figures.values())
    fit = [
        size
        for size, one in figures.items()
        if one["waste"][MIDDLE] <= MOST_WASTE and one.get("tokens_per_s", 0.0) >= NEAR_BEST * best
    ]
    return max(fit, default=None)


def _simulate(
    size: int,
    budget: int,
    arrivals: Sequence[Arrival],
    cost: StepCost,
    on_events: Callable[[list[dict[str, Any]]], None] = lambda events: None,
):
    clock = VirtualClock()
    engine = engine_for(
        PAGED,
        lambda size, blocks: SimulatedModel(cost, clock),
        NoTokenizer(),
        budget,
        2048,
        block_size=size,
        clock=clock,
        max_num_seqs=64,
    )
    return engine, replay(engine, arrivals, clock, on_events)


def _speed(runs: list[Replay]) -> dict[str, float]:
    ttft = statistics.median(one.ttft_s for run in runs for one in run.requests)
    tpot = statistics.median(gap for run in runs for one in run.requests for gap in [one.tpot_s] if gap is not None)
    speed = statistics.median(run.tokens_per_s for run in runs)
    return {"ttft_ms": ttft * 1e3, "tpot_ms": tpot * 1e3, "tokens_per_s": speed}


def _tables(figures: dict[int, dict[str, Any]], load: BlockSizeLoad, cost: StepCost, real: bool) -> list[Table]:
    waste = [[size, *(f"{one['waste'][name]:.1%}" for name in CLASSES)] for size, one in figures.items()]
    work = [
        [
            size,
            *(round(one["allocated_per_s"][reply], 1) for reply in REPLIES),
            *(round(one["released_per_s"][reply], 1) for reply in REPLIES),
            round(one["scheduler_us"]),
            round(one["queue_p95_s"], 2),
        ]
        for size, one in figures.items()
    ]
    lost = [[size, round(one["lost"]["exact"], 1), round(one["lost"]["blocks"], 1)] for size, one in figures.items()]
    work_columns = [
        *(f"allocated/s, replies of {reply}" for reply in REPLIES),
        *(f"released/s, replies of {reply}" for reply in REPLIES),
    ]
    work_note = WORK_NOTE.format(cost=cost, chats=load.chats, prompt=load.prompt, budget=load.budget)
    tables = [
        Table(
            "Waste by tokens of a sequence",
            ["block size", *CLASSES],
            waste,
            WASTE_NOTE.format(count=load.sequences),
        ),
        Table(
            "Work of the pool and the scheduler",
            ["block size", *work_columns, "scheduler us", "waiting P95 s"],
            work,
            work_note,
        ),
        Table(
            "Tokens lost at the end of a known prefix",
            ["block size", "to the token", "whole blocks"],
            lost,
            REUSE_NOTE.format(count=load.sequences),
        ),
    ]
    if real:
        speed = [
            [size, *(one[name] for name in ("ttft_ms", "tpot_ms", "tokens_per_s"))] for size, one in figures.items()
        ]
        note = SPEED_NOTE.format(chats=load.real_chats, rounds=load.rounds)
        tables.append(Table("Speed", ["block size", "TTFT ms", "TPOT ms", "tokens/s"], speed, note))
    return tables


def _verdict(figures: dict[int, dict[str, Any]], real: bool) -> str:
    size, default = supported_size(figures), EngineConfig.block_size
    rule = f"wastes at most {MOST_WASTE:.0%} for sequences of {MIDDLE} tokens"
    rule += f" and gives at least {NEAR_BEST:.0%} of the best tokens/s" if real else " (speed was not measured)"
    if size is None:
        return f"None of these sizes {rule}; the default is {default}."
    same = "which is the default" if size == default else f"while the default is {default}"
    return f"The largest block that {rule} is {size}, {same}."
