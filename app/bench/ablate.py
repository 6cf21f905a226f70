"""Is it the memory or the scheduling? One load and one KV budget, served in four ways (see `cells`).

Steps are scheduled, admitted and preempted by the real scheduler over the real cache manager; only the model's time is
simulated (`step_cost`), so the same cost gives the same table on every machine.

How fast requests come decides what such a table shows: below what all ways can serve they look alike, far above it only
the queue is seen. So the rate follows a rule that knows nothing of the outcome: as many requests a second as contiguous
memory with static batches serves when all of them wait (`full_use`). Speed is told of requests that all wait, waiting
of requests that come at that rate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .cells import CACHED, FOUR_WAYS, Way, bench_configuration, engine_for
from .figures import percentile
from .no_model import NoTokenizer
from .replay import Replay, VirtualClock, replay
from .report import BenchResult, Plot, Table, thinned
from .step_cost import STATED, SimulatedModel, StepCost, measure_cost
from .traces import Lengths, chat_load

if TYPE_CHECKING:
    from .models import BenchModel

COLUMNS = [
    "memory, batching", "tokens/s, all waiting", "requests a step, mean", "peak", "slots in use, mean", "used of them",
    "queue P95 s", "TTFT P95 s", "ITL P95 ms", "tokens/s", "preempted",
]  # fmt: skip
NOTE = (
    "One scheduler, cache manager and sampler in all rows. Contiguous: a block is as long as the context and a request "
    "holds one. Static: a batch forms, runs to its end, then the next one forms; what a reply no longer needs goes "
    "back at once. The prefix cache is off but in the last row. Time is simulated; see the parameters. The first "
    "figure is of requests that all wait from the start, the others of requests that come one by one (rate_per_s); no "
    "way can then write faster than they come."
)
FULL_USE = "what contiguous memory with static batches serves when all requests wait: its full use"

PROMPTS, REPLIES = Lengths(300, least=140, most=1500), Lengths(120, least=8, most=500)


@dataclass(frozen=True)
class AblateLoad:
    """What is served.

    Attributes:
        rate: requests a second; 0 is all at once, None what `full_use` says.
        system: tokens of the system prompt that all share.
        max_model_len: longest sequence, which a reservation takes.
        reservations: the budget, in reservations.
        max_num_seqs: seats of a step.
    """

    requests: int = 96
    rate: float | None = None
    prompts: Lengths = PROMPTS
    replies: Lengths = REPLIES
    system: int = 120
    max_model_len: int = 2048
    reservations: int = 8
    max_num_seqs: int = 32
    step_tokens: int = 512
    seed: int = 1

    @property
    def budget(self) -> int:
        """Slots of KV."""
        return self.reservations * self.max_model_len

    def describe(self) -> dict[str, Any]:
        """The parameters of a result."""
        return {
            "requests": self.requests,
            "rate_per_s": self.rate,
            "prompts": str(self.prompts),
            "replies": str(self.replies),
            "system_prompt_tokens": self.system,
            "max_model_len": self.max_model_len,
            "kv_budget_slots": self.budget,
            "reservations": self.reservations,
            "max_num_seqs": self.max_num_seqs,
            "step_tokens": self.step_tokens,
            "seed": self.seed,
        }


def run_ablate(
    load: AblateLoad | None = None, cost: StepCost = STATED, open_model: Callable[[], BenchModel] | None = None
) -> BenchResult:
    """Serve the load in every way, in virtual time.

    Args:
        cost: of a step, where it is not measured.
        open_model: the model on which it is measured first.
    """
    load, result, source = load or AblateLoad(), BenchResult("ablate", {}), "stated"
    model = open_model() if open_model else None
    if model is not None:
        cost, source = measure_cost(model), f"measured here on {model.checkpoint.name}"
    result.configuration = bench_configuration(model.checkpoint if model else None)
    waiting = {way: serve_virtually(way, replace(load, rate=0.0), cost) for way in (*FOUR_WAYS, CACHED)}
    rule = "as asked for" if load.rate is not None else FULL_USE
    load = load if load.rate is not None else replace(load, rate=full_use(waiting[FOUR_WAYS[0]]))
    found = {way: serve_virtually(way, load, cost) for way in waiting} if load.rate else waiting
    result.parameters = {
        **load.describe(),
        "rate_rule": rule,
        "clock": "virtual",
        "step_cost": f"{cost} ({source})",
    }
    result.figures = {
        str(way): {**figures_of(one), "tokens_per_s_waiting": waiting[way].tokens_per_s} for way, one in found.items()
    }
    rows = [_row(name, one) for name, one in result.figures.items()]
    result.tables = [Table("One load, one KV budget", COLUMNS, rows, NOTE)]
    result.plots = [
        Plot(
            "Requests in a step over time",
            "seconds",
            "requests",
            {
                str(way): thinned([(round(step.at_s, 2), float(step.running)) for step in one.steps])
                for way, one in found.items()
            },
        )
    ]
    result.verdict = _verdict(result.figures, f"{load.rate:.3g} requests a second ({rule})" if load.rate else "at once")
    return result.finish()


def full_use(waiting: Replay) -> float:
    """Requests a second that a way serves when all of them wait from the start."""
    return round(len(waiting.requests) / waiting.seconds, 3)


def serve_virtually(way: Way, load: AblateLoad, cost: StepCost) -> Replay:
    """The load, served in one way in virtual time."""
    clock = VirtualClock()
    engine = engine_for(
        way,
        lambda size, blocks: SimulatedModel(cost, clock),
        NoTokenizer(),
        load.budget,
        load.max_model_len,
        clock=clock,
        max_num_seqs=load.max_num_seqs,
        max_num_batched_tokens=load.step_tokens,
        max_queue=load.requests,
    )
    arrivals = chat_load(load.requests, load.prompts, load.replies, load.rate or 0.0, load.seed, system=load.system)
    return replay(engine, arrivals, clock)


def figures_of(one: Replay) -> dict[str, float]:
    """The figures of one way, for programs."""
    return {
        "running_mean": one.mean_over_time(lambda step: step.running),
        "running_peak": max((step.running for step in one.steps), default=0),
        "slots_mean": one.mean_over_time(lambda step: step.slots),
        "utilization": one.utilization,
        "queue_p95_s": percentile([request.queue_s for request in one.requests], 95) or 0.0,
        "ttft_p95_s": percentile([request.ttft_s for request in one.requests], 95) or 0.0,
        "itl_p95_ms": (percentile([gap for request in one.requests for gap in request.itl_s], 95) or 0.0) * 1e3,
        "tokens_per_s": one.tokens_per_s,
        "preemptions": one.preemptions,
        "seconds": one.seconds,
    }


def _row(name: str, found: dict[str, float]) -> list[Any]:
    return [
        name,
        round(found["tokens_per_s_waiting"], 1),
        round(found["running_mean"], 1),
        found["running_peak"],
        round(found["slots_mean"]),
        f"{found['utilization']:.1%}",
        *(round(found[part], 2) for part in ("queue_p95_s", "ttft_p95_s")),
        round(found["itl_p95_ms"], 1),
        round(found["tokens_per_s"], 1),
        found["preemptions"],
    ]


def _verdict(figures: dict[str, dict[str, float]], come: str) -> str:
    """What each of the two changes alone brings, and both."""
    ways = {name: figures[name] for name in map(str, FOUR_WAYS)}
    base = ways["contiguous, static"]

    def gain(name: str) -> str:
        one = ways[name]
        speed = one["tokens_per_s_waiting"] / base["tokens_per_s_waiting"]
        wait = one["ttft_p95_s"] / base["ttft_p95_s"] if base["ttft_p95_s"] else 1.0
        return f"{speed:.2f} x tokens/s and {wait:.2f} x TTFT P95"

    return (
        f"Against contiguous memory with static batches: continuous batching alone {gain('contiguous, continuous')}; "
        f"paging alone {gain('paged, static')}; both {gain('paged, continuous')}. "
        f"Used of the slots in use: {base['utilization']:.0%} contiguous, "
        f"{ways['paged, continuous']['utilization']:.0%} paged. Tokens/s are of requests that all wait; for TTFT they "
        f"come {come}."
    )
