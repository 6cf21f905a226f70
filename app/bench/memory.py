"""One trace of chats that come and go, through four ways to give them room: how many fit, and what is wasted."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...engine.config import EngineConfig
from .allocators import Allocator, Doubling, Paged, Reserve
from .cells import bench_configuration
from .report import BenchResult, Plot, Table, thinned
from .traces import Lengths
from .virtual_memory import NoSmapsError, Virtual

GOAL_UTILIZATION = 0.95
SMAPS_EVERY = 20
PROMPTS, REPLIES = Lengths(320, least=150, most=1400), Lengths(150, least=20, most=600)
COLUMNS = [
    "allocator", "requests held, mean", "peak", "utilization", "reserved", "internal", "external", "steps to the end",
    "preempted",
]  # fmt: skip
NOTE = (
    "Utilization: of the slots that an allocator has taken for chats, the share that holds a token; a slot that chats "
    "share counts once. Waste as a share of the budget: "
    "reserved will be filled later, internal never, external is free and of no use to the chat that waits. "
    "Tokens of one chat a step; who finds no room waits, and a chat that cannot grow takes the newest one's place."
)


@dataclass(frozen=True)
class Chat:
    """One sequence of the trace: it joins at a step with its prompt and gets a token a step until all are there."""

    joins: int
    tokens: list[int]
    prompt: int


@dataclass(frozen=True)
class MemoryLoad:
    """What comes.

    Attributes:
        joins: chats a step, on average.
        branches: share of the chats of which a second reply is asked for while the first runs.
        budget, longest: slots of KV in all; tokens of the longest sequence.
    """

    chats: int = 200
    joins: float = 0.5
    prompts: Lengths = PROMPTS
    replies: Lengths = REPLIES
    system: int = 120
    branches: float = 0.15
    budget: int = 16_384
    longest: int = 2048
    block_size: int = EngineConfig.block_size
    seed: int = 1

    def describe(self) -> dict[str, Any]:
        """The parameters of a result."""
        return {
            "chats": self.chats,
            "joins_a_step": self.joins,
            "prompts": str(self.prompts),
            "replies": str(self.replies),
            "system_prompt_tokens": self.system,
            "branches": self.branches,
            "kv_budget_slots": self.budget,
            "longest": self.longest,
            "block_size": self.block_size,
            "seed": self.seed,
        }


@dataclass
class Run:
    """What one allocator made of the trace; sums over all steps are in slots.

    Attributes:
        touched: sums of live tokens and of slots in memory over the steps at which the system was asked; for the
            virtual one.
        most_waste_a_branch: empty slots of the chat that had the most of them, at any step.
        as_counted: whether the system's pages were those that the allocator counted.
    """

    held: list[int] = field(default_factory=list)
    live: int = 0
    in_use: int = 0
    reserved: int = 0
    internal: int = 0
    external: int = 0
    preemptions: int = 0
    most_waste_a_branch: int = 0
    touched: tuple[int, int] = (0, 0)
    as_counted: bool = True

    @property
    def utilization(self) -> float:
        """Live tokens a slot in use; of pages that the system holds, where it was asked."""
        live, slots = self.touched if self.touched[1] else (self.live, self.in_use)
        return live / slots if slots else 0.0

    def figures(self, budget: int) -> dict[str, float]:
        """For programs; waste as shares of the budget."""
        whole = max(1, budget * len(self.held))
        return {
            "held_mean": sum(self.held) / max(1, len(self.held)),
            "held_peak": max(self.held, default=0),
            "utilization": self.utilization,
            "reserved": self.reserved / whole,
            "internal": self.internal / whole,
            "external": self.external / whole,
            "waste_of_used": 1 - self.live / max(1, self.in_use),
            "steps": len(self.held),
            "preemptions": self.preemptions,
            "most_waste_a_branch": self.most_waste_a_branch,
        }


ALLOCATORS: tuple[Callable[[MemoryLoad], Allocator], ...] = (
    lambda load: Reserve(load.budget, load.longest),
    lambda load: Doubling(load.budget, load.longest),
    lambda load: Virtual(load.budget, load.longest),
    lambda load: Paged(load.budget, load.longest, load.block_size),
    lambda load: Paged(load.budget, load.longest, load.block_size, caching=False),
)


def make_trace(load: MemoryLoad) -> list[Chat]:
    """The chats in the order in which they join."""
    rng, chats, at = random.Random(load.seed), [], 0.0
    system = _ids(rng, load.system)
    for _ in range(load.chats):
        at += rng.expovariate(load.joins)
        prompt = max(load.system + 1, load.prompts.draw(rng))
        reply = min(load.replies.draw(rng), load.longest - prompt)
        tokens = system + _ids(rng, prompt - load.system + reply)
        chats.append(Chat(int(at), tokens, prompt))
        if rng.random() < load.branches:
            kept = prompt + rng.randrange(max(1, reply // 2))
            rest = min(load.replies.draw(rng), load.longest - kept)
            chats.append(Chat(int(at) + reply // 2, tokens[:kept] + _ids(rng, rest), kept))
    return sorted(chats, key=lambda chat: chat.joins)


def run_trace(allocator: Allocator, trace: Sequence[Chat]) -> Run:
    """Play the trace to its end."""
    run, coming = Run(), deque(enumerate(trace))
    waiting: deque[tuple[int, list[int]]] = deque()
    live: dict[int, int] = {}
    step = 0
    while coming or waiting or live:
        while coming and coming[0][1].joins <= step:
            key, chat = coming.popleft()
            waiting.append((key, chat.tokens[: chat.prompt]))
        while waiting and allocator.admit(waiting[0][0], waiting[0][1], len(trace[waiting[0][0]].tokens)):
            key, tokens = waiting.popleft()
            live[key] = len(tokens)
        run.external += allocator.external(len(waiting[0][1]) + 1) if waiting else 0
        for key in list(live):
            _grow(allocator, trace, key, live, waiting, run)
        _note(run, allocator, len(live), step)
        step += 1
    return run


def run_memory(load: MemoryLoad | None = None) -> BenchResult:
    """Play one trace through all allocators."""
    load = load or MemoryLoad()
    result = BenchResult("memory", bench_configuration(), load.describe())
    trace = make_trace(load)
    runs, notes = {}, [NOTE]
    for make in ALLOCATORS:
        try:
            allocator = make(load)
        except NoSmapsError as error:
            notes.append(str(error))
            continue
        run = runs[allocator.name] = run_trace(allocator, trace)
        if isinstance(allocator, Virtual):
            notes.append(_pages_note(allocator, run))
    result.figures = {name: run.figures(load.budget) for name, run in runs.items()}
    lengths = sorted(len(chat.tokens) for chat in trace)
    result.figures["median_tokens"] = lengths[len(lengths) // 2]
    rows = [_row(name, result.figures[name]) for name in runs]
    result.tables = [Table("One trace, four allocators", COLUMNS, rows, " ".join(notes))]
    series = {name: thinned([(at, float(held)) for at, held in enumerate(run.held)]) for name, run in runs.items()}
    result.plots = [Plot("Chats held", "step", "chats", series)]
    result.passed = result.figures["paged"]["utilization"] >= GOAL_UTILIZATION
    result.verdict = _verdict(result.figures, load.block_size)
    return result.finish()


def _grow(
    allocator: Allocator,
    trace: Sequence[Chat],
    key: int,
    live: dict[int, int],
    waiting: deque[tuple[int, list[int]]],
    run: Run,
) -> None:
    """One token more for a chat, for which the newest gives way where that is needed; the last one ends it."""
    if key not in live:
        return
    tokens = trace[key].tokens
    while not allocator.append(key, tokens[live[key]]):
        newest = list(live)[-1]
        allocator.release(newest)
        waiting.appendleft((newest, trace[newest].tokens[: live.pop(newest)]))
        run.preemptions += 1
        if newest == key:
            return
    live[key] += 1
    if live[key] == len(tokens):
        allocator.release(key)
        del live[key]


def _note(run: Run, allocator: Allocator, held: int, step: int) -> None:
    usage = allocator.usage()
    run.held.append(held)
    run.live += usage.live
    run.in_use += usage.in_use
    run.reserved += usage.reserved
    run.internal += usage.internal
    run.most_waste_a_branch = max(run.most_waste_a_branch, allocator.most_empty())
    if isinstance(allocator, Virtual) and step % SMAPS_EVERY == 0:
        touched = allocator.in_memory()
        run.as_counted &= touched == allocator.pages * allocator.page_bytes
        run.touched = (run.touched[0] + usage.live, run.touched[1] + touched // allocator.row_bytes)


def _pages_note(allocator: Virtual, run: Run) -> str:
    same = "the same as" if run.as_counted else "NOT the same as"
    return (
        f"Virtual: pages of {allocator.page_bytes:,} bytes, read from /proc/self/smaps every {SMAPS_EVERY} steps and "
        f"{same} counted; one tensor with {allocator.row_bytes} bytes a token stands for all. On a GPU a page is "
        f"usually 2 MiB, {(2 << 20) // allocator.row_bytes:,} tokens of such a tensor."
    )


def _row(name: str, figures: dict[str, float]) -> list[Any]:
    return [
        name,
        round(figures["held_mean"], 1),
        figures["held_peak"],
        *(f"{figures[part]:.1%}" for part in ("utilization", "reserved", "internal", "external")),
        figures["steps"],
        figures["preemptions"],
    ]


def _verdict(figures: dict[str, Any], block_size: int) -> str:
    reserve, paged = figures["reserve"], figures["paged"]
    goal = "reached" if paged["utilization"] >= GOAL_UTILIZATION else "MISSED"
    return (
        f"Paged holds {paged['held_mean'] / reserve['held_mean']:.1f} times the chats that reservation holds, and of "
        f"the slots in use {paged['utilization']:.1%} hold a token, against {reserve['utilization']:.1%} (goal {goal}: "
        f"at least {GOAL_UTILIZATION:.0%}; the chats' median is {figures['median_tokens']} tokens). At no step had a "
        f"branch more than {paged['most_waste_a_branch']} empty slots; a block of {block_size} allows {block_size - 1}."
        + _beside_virtual(figures)
    )


def _beside_virtual(figures: dict[str, Any]) -> str:
    """What paging has over virtual memory, which does not share; "" where that could not be run."""
    virtual, alone, paged = (figures.get(name) for name in ("virtual", "paged, nothing shared", "paged"))
    if not virtual or not alone or not paged:
        return ""
    ratio = alone["held_mean"] / virtual["held_mean"]
    return (
        f" Without sharing paging holds {ratio:.2f} times what virtual memory holds ({alone['held_mean']:.1f} against "
        f"{virtual['held_mean']:.1f} chats): both take memory as it is needed. What differs is that blocks can be "
        f"shared ({paged['held_mean']:.1f} chats) and are as small as one likes, while a page is as large as the "
        "system says; for that, kernels must follow a table, which virtual memory spares them."
    )


def _ids(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(50_000) for _ in range(count)]
