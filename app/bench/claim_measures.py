"""What the claims need measured beside the other benches' tables: each a few seconds on the default model."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .cells import CACHED, CONTIGUOUS, PAGED, Way, engine_for
from .figures import percentile
from .models import DEFAULT_MODE
from .no_model import NoTokenizer
from .replay import Arrival, Replay, VirtualClock, replay
from .step_cost import STATED, SimulatedModel, random_ids
from .traces import Lengths, chat_load

if TYPE_CHECKING:
    from .models import BenchModel
    from .published_side import Case

PATIENCE_S = 40.0
"""No further round begins after so long: a busy machine gets fewer figures, not a longer wait."""
BURST_PROMPTS = Lengths(150, least=60, most=400)
SHORT_REPLIES = Lengths(60, least=16, most=240)
LONG_REPLIES = Lengths(100, least=16, most=240)


@dataclass(frozen=True)
class Burst:
    """Requests that come all at once, on a KV budget of some whole contexts.

    Attributes:
        rounds: times that each way serves it, in turns; fewer where that takes long.
    """

    requests: int = 20
    prompts: Lengths = BURST_PROMPTS
    replies: Lengths = LONG_REPLIES
    context: int = 1024
    reservations: int = 4
    rounds: int = 2
    seed: int = 1

    def __str__(self) -> str:
        return f"{self.requests} of {self.prompts.median} + {self.replies.median}"

    def describe(self) -> str:
        """The parameter of a result."""
        return (
            f"{self.requests} requests at once, prompts {self.prompts}, replies {self.replies}, "
            f"on {self.reservations} contexts of {self.context:,} tokens"
        )


BURSTS = (Burst(requests=24, replies=SHORT_REPLIES), Burst())
"""Both are told: what paging brings to a burst depends on how long the replies hold their reservations."""


def burst_figures(model: BenchModel, burst: Burst) -> dict[str, Any]:
    """Contiguous and paged on the model, in turns: medians of tokens a second and of TTFT P95, and equal replies."""
    arrivals = chat_load(burst.requests, burst.prompts, burst.replies, 0.0, burst.seed, model.tokenizer.num_tokens)
    runs: dict[Way, list[Replay]] = {CONTIGUOUS: [], PAGED: []}
    began = time.monotonic()
    for turn in range(burst.rounds):
        if turn and time.monotonic() - began > PATIENCE_S:
            break
        for way in list(runs) if turn % 2 else list(runs)[::-1]:
            engine = _engine(model, way, burst.reservations * burst.context, burst.context, max_queue=len(arrivals))
            replay(engine, [replace(arrivals[0], max_tokens=2)])
            runs[way].append(replay(engine, arrivals))
    found: dict[str, Any] = {}
    for way, some in runs.items():
        waits = [percentile([one.ttft_s for one in run.requests], 95) or 0.0 for run in some]
        found[way.memory] = {
            "tokens_per_s": statistics.median(run.tokens_per_s for run in some),
            "ttft_p95_s": statistics.median(waits),
            "running_peak": max(step.running for run in some for step in run.steps),
            "utilization": statistics.mean(run.utilization for run in some),
        }
    found["rounds"] = len(runs[PAGED])
    pairs = zip(runs[CONTIGUOUS][0].requests, runs[PAGED][0].requests, strict=True)
    found["replies"], found["same_replies"] = len(arrivals), sum(one.ids == other.ids for one, other in pairs)
    return found


def sequences_held(case: Case, sequences: int) -> dict[str, int]:
    """How many of so many sequences run at once in one budget: the scheduler's own decision, no model needed."""
    held = {}
    for way in (CONTIGUOUS, PAGED):
        clock = VirtualClock()
        engine = engine_for(
            way,
            lambda size, blocks, clock=clock: SimulatedModel(STATED, clock),
            NoTokenizer(),
            case.budget,
            case.context,
            clock=clock,
            max_num_seqs=sequences,
        )
        run = replay(engine, case.arrivals(sequences, NoTokenizer.num_tokens), clock)
        held[way.memory] = max(step.running for step in run.steps) if not run.preemptions else 0
    return held


def cached_prefix_figures(
    model: BenchModel, known: Sequence[int] = (500, 1000), new: int = 100, rounds: int = 7, seed: int = 1
) -> dict[int, dict[str, float]]:
    """TTFT of ``new`` tokens after so many known ones, and of as many tokens alone; medians, in turns."""
    rng = random.Random(seed)
    vocab = model.tokenizer.num_tokens
    engine = _engine(model, CACHED, 64 * (max(known) + new), max(known) + 2 * new)
    prefixes = {0: [], **{count: random_ids(rng, count, vocab) for count in known}}
    for prefix in prefixes.values():
        replay(engine, [Arrival(0.0, prefix + random_ids(rng, new, vocab), 2)])
    times: dict[int, list[float]] = {count: [] for count in prefixes}
    for _ in range(rounds):
        for count, prefix in prefixes.items():
            (one,) = replay(engine, [Arrival(0.0, prefix + random_ids(rng, new, vocab), 2)]).requests
            assert one.cached_tokens >= count, "the prefix was not found"
            times[count].append(one.ttft_s)
    return {
        count: {
            "after_s": statistics.median(times[count]),
            "alone_s": statistics.median(times[0]),
            "ratio": statistics.median(one / other for one, other in zip(times[count], times[0], strict=True)),
        }
        for count in known
    }


def sample_blocks(prompt: int = 512, reply: int = 64, samples: int = 8, block_size: int = 16) -> dict[str, int]:
    """Blocks of several samples of one prompt, shared as the engine shares them and as if each were alone."""
    from ...engine.sampling_params import SamplingParams
    from .no_model import NoModel

    engine = engine_for(
        CACHED,
        lambda size, blocks: NoModel(),
        NoTokenizer(),
        4 * samples * (prompt + reply),
        1 << 16,
        block_size=block_size,
        max_num_seqs=samples,
    )
    rng = random.Random(1)
    params = SamplingParams(temperature=1.0, seed=1, n=samples, max_tokens=4 * reply)
    engine.add_request("samples", random_ids(rng, prompt, NoTokenizer.num_tokens), params)
    running = engine.scheduler.running
    while len(running) < samples or min(one.num_output_tokens for one in running) < reply:
        engine.step()
        engine.drain_events()
    alone = sum(-(-one.num_computed // block_size) for one in running)
    return {"held": engine.kv.pool.num_active, "alone": alone}


def _engine(model: BenchModel, way: Way, budget: int, context: int, **settings: Any):
    return engine_for(
        way,
        lambda size, blocks: model.runner(DEFAULT_MODE, size, blocks),
        model.tokenizer,
        budget,
        context,
        **settings,
    )
