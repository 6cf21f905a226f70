"""The same text with a tiny pool as with a huge one: pressure moves, evicts and recomputes KV, and is never heard.

A trial is one mixed workload: chats that share prefixes arrive over time with all sorts of lengths, priorities and
tenants, some are cancelled; it runs twice, with room for everything and with room for little.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from trials.models import TrialModel
from trials.serving import Asked, check_at_rest, check_same, odd_length, random_ids, step

MOST_STEPS = 20_000


@dataclass(frozen=True)
class Arrival:
    """A request that comes at a step, and may be cancelled some steps later."""

    step: int
    cancel_at: int | None
    asked: Asked


def trial(draw: random.Random, model: TrialModel) -> Counter[str]:
    """One workload, twice. Raises AssertionError where the two differ."""
    notes: Counter[str] = Counter()
    block_size = draw.choice((1, 4, 8, 16, 32))
    seed, requests = draw.randrange(2**32), draw.randrange(6, 16)
    settings = {
        "block_size": block_size,
        "max_num_seqs": draw.choice((3, 8)),
        "max_num_batched_tokens": draw.choice((8, 24, 512)),
        "enable_prefix_caching": draw.random() < 0.8,
    }
    runs = []
    for pool in ("huge", "tiny"):
        arrivals = workload(random.Random(seed), model, block_size, requests)
        sizes = [blocks_of(one.asked, block_size) for one in arrivals]
        num_blocks = sum(sizes) + 2 * len(sizes) if pool == "huge" else max(sizes) + 2
        engine = model.engine(num_blocks=num_blocks, **settings)
        run(engine, arrivals)
        check_at_rest(engine)
        assert pool == "tiny" or engine.snapshot()["free"], "the huge pool was not huge"
        evicted = sum(event["type"] == "evicted" for event in engine.drain_events())
        notes[f"{pool}: preemptions"] += sum(one.asked.preemptions for one in arrivals)
        notes[f"{pool}: evictions"] += evicted
        runs.append(arrivals)
    for huge, tiny in zip(*runs, strict=True):
        compare(model, tiny, huge, notes)
    notes["requests"] += requests
    return notes


def blocks_of(asked: Asked, block_size: int) -> int:
    """Blocks of a request with all its samples, shared by none of them."""
    return asked.params.n * -(-(len(asked.prompt) + (asked.params.max_tokens or 0)) // block_size)


def workload(draw: random.Random, model: TrialModel, block_size: int, requests: int) -> list[Arrival]:
    """Requests in order of arrival."""
    stems = [random_ids(draw, odd_length(draw, block_size, 60)) for _ in range(3)]
    arrivals, now = [], 0
    for number in range(requests):
        now += draw.choice((0, 0, 1, 2, 7))
        stem = draw.choice(stems)
        prompt = [*stem[: draw.randrange(1, len(stem) + 1)], *random_ids(draw, odd_length(draw, block_size, 70))]
        params = model.params(draw, draw.randrange(1, 40))
        asked = Asked(str(number), prompt, params, draw.choice(("", "", "b")), draw.choice((0, 0, 0, 1)))
        arrivals.append(Arrival(now, now + draw.randrange(30) if draw.random() < 0.15 else None, asked))
    return arrivals


def run(engine, arrivals: list[Arrival]) -> None:
    """Serve a workload to its end."""
    asked = {one.asked.name: one.asked for one in arrivals}
    for now in range(MOST_STEPS):
        for one in arrivals:
            if one.step == now:
                one.asked.send(engine)
            if one.cancel_at == now and not one.asked.ended:
                assert engine.cancel(one.asked.name)
        step(engine, asked)
        if now >= arrivals[-1].step and not engine.has_unfinished():
            return
    raise AssertionError(f"not at an end after {MOST_STEPS} steps")


def compare(model: TrialModel, tiny: Arrival, huge: Arrival, notes: Counter[str]) -> None:
    """The same replies; of a cancelled one as much as both have."""
    if tiny.cancel_at is not None:
        notes["cancelled"] += 1
        for one, other in zip(tiny.asked.samples, huge.asked.samples, strict=True):
            both = min(len(one.ids), len(other.ids))
            one.ids, other.ids = one.ids[:both], other.ids[:both]
            one.text, one.reason = other.text, other.reason
    check_same(model, tiny.asked, huge.asked, notes)
