"""What is watched: seven rules, each with what it measures, from where on that is worth a word, and the words.

The rules are data. ``render`` writes them for Prometheus, ``evaluate`` computes them for the page; both read the same
`Expression`, threshold and duration, so there is one source of truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...engine.metric_catalogue import METRICS
from .baseline import Baseline
from .promql import Difference, Expression, HistogramQuantile, Increase, Newest, QuantileOverTime, Ratio

if TYPE_CHECKING:
    from pathlib import Path

    from ..settings import Settings

Severity = Literal["warning", "critical"]
MINUTE = 60
WAITING_WINDOW_S = 5 * MINUTE
REPLIES_WINDOW_S = 30 * MINUTE
EVENT_WINDOW_S = 10 * MINUTE
TTFT = "time_to_first_token_seconds"
TPOT = "request_time_per_output_token_seconds"
ENGINE_LOG = "engine.log"
QUERIES, HITS = "prefix_cache_queries_total", "prefix_cache_hits_total"


@dataclass(frozen=True)
class Unit:
    """How a number of a kind is written: ``text`` here, ``template`` in Prometheus' annotations."""

    text: Callable[[float], str]
    template: str


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.0f} ms"


SHARE = Unit(lambda value: f"{100 * value:.0f} %", "{{ $value | humanizePercentage }}")
SECONDS = Unit(_seconds, "{{ $value | humanizeDuration }}")
COUNT = Unit(lambda value: f"{value:.0f}", '{{ $value | printf "%.0f" }}')


@dataclass(frozen=True)
class Enough:
    """A rule judges only when ``measure`` is at least ``least``."""

    measure: Expression
    least: float

    def promql(self) -> str:
        return f"{self.measure.promql()} >= {self.least:g}"


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        title: what it says to a person in a few words.
        says: the same in full, with ``{value}``, ``{threshold}`` and ``{baseline}``; then ``advice``.
        measure, op, threshold: it holds while ``measure`` is above (or below) the threshold; None where that needs a
            baseline and there is none.
        for_s: seconds it must hold until it fires.
        baseline: this machine's own figure that the threshold was made of, if it was made of one.
        enough: what must have been seen for a judgement.
    """

    name: str
    title: str
    says: str
    advice: str
    measure: Expression
    op: Literal[">", "<"]
    threshold: float | None
    unit: Unit
    for_s: int
    severity: Severity = "warning"
    baseline: float | None = None
    enough: Enough | None = None

    @property
    def expression(self) -> str:
        """The whole condition for Prometheus; without a threshold what is measured."""
        if self.threshold is None:
            return self.measure.promql()
        condition = f"{self.measure.promql()} {self.op} {self.threshold!r}"
        return f"{condition} and {self.enough.promql()}" if self.enough else condition

    def names(self) -> frozenset[str]:
        """The metrics it reads, without prefix."""
        return self.measure.names() | (self.enough.measure.names() if self.enough else frozenset())

    def describe(self, value: str) -> str:
        """``says`` and ``advice`` with the value's text in its place."""
        limits = {"threshold": self.threshold, "baseline": self.baseline}
        told = {name: "–" if limit is None else self.unit.text(limit) for name, limit in limits.items()}
        return f"{self.says.format(value=value, **told)} {self.advice}"


def rules_for(settings: Settings, baseline: Baseline, log: Path | str = ENGINE_LOG) -> tuple[Rule, ...]:
    """The seven rules under these settings and this machine's baseline; ``log`` is the engine's log file."""
    return (*_pool_rules(settings), *_baseline_rules(settings, baseline), *_event_rules(str(log)))


def watched_names(rules: tuple[Rule, ...]) -> frozenset[str]:
    """The metrics that the rules read, without prefix."""
    return frozenset().union(*(rule.names() for rule in rules))


def _pool_rules(settings: Settings) -> tuple[Rule, ...]:
    waiting = "num_requests_waiting"
    return (
        Rule(
            name="HighKVCacheUsage",
            title="The KV cache is nearly full",
            says="Replies that run hold {value} of the KV blocks, more than {threshold}; beyond that they wait for one "
            "another or are preempted.",
            advice="A larger --kv-cache-memory, or a smaller --max-num-seqs, makes room.",
            measure=Newest("kv_cache_usage_perc"),
            op=">",
            threshold=settings.alert_kv_usage,
            unit=SHARE,
            for_s=5 * MINUTE,
        ),
        Rule(
            name="WaitingRequestsGrowing",
            title="More and more requests wait",
            says="In the last 5 minutes the queue (P95) was longer by {value} requests than in the 5 minutes before.",
            advice="More comes in than is answered; `/api/kv/requests` shows who waits and why.",
            measure=Difference(
                QuantileOverTime(0.95, waiting, WAITING_WINDOW_S),
                QuantileOverTime(0.95, waiting, WAITING_WINDOW_S, WAITING_WINDOW_S),
            ),
            op=">",
            threshold=settings.alert_waiting_growth,
            unit=COUNT,
            for_s=5 * MINUTE,
        ),
    )


def _baseline_rules(settings: Settings, baseline: Baseline) -> tuple[Rule, ...]:
    least, hit_rate = settings.alert_min_replies, baseline.hit_rate
    return (
        _slower(
            "TTFTRegression",
            "First tokens come later than usual",
            "the time to a reply's first token",
            TTFT,
            settings.alert_ttft_factor,
            baseline.ttft_p95_s,
            least,
        ),
        _slower(
            "TPOTRegression",
            "Tokens come more slowly than usual",
            "the time for each further token",
            TPOT,
            settings.alert_tpot_factor,
            baseline.tpot_p95_s,
            least,
        ),
        Rule(
            name="PrefixCacheHitDrop",
            title="Less of the prompts is found in the cache than usual",
            says="In the last 30 minutes {value} of the prompt tokens came from the cache; usual is {baseline}, the "
            "limit {threshold}.",
            advice="Something new at the start of prompts (a time, an id) costs this, or a pool that is too small.",
            measure=Ratio(Increase(HITS, REPLIES_WINDOW_S), Increase(QUERIES, REPLIES_WINDOW_S)),
            op="<",
            threshold=None if hit_rate is None else max(0.0, hit_rate - settings.alert_hit_margin),
            unit=SHARE,
            for_s=5 * MINUTE,
            baseline=hit_rate,
            enough=_replies(TTFT, least),
        ),
    )


def _replies(metric: str, least: int) -> Enough:
    """So many replies in the last 30 minutes of which a histogram tells."""
    return Enough(Increase(metric + "_count", REPLIES_WINDOW_S), least)


def _slower(name: str, title: str, what: str, metric: str, factor: float, baseline: float | None, least: int) -> Rule:
    """A rule that compares a P95 of the last 30 minutes with the baseline's."""
    return Rule(
        name=name,
        title=title,
        says=f"In the last 30 minutes {what} (P95) was {{value}}; usual is {{baseline}}, the limit {{threshold}}.",
        advice="Longer prompts, more company or another program that works hard can be why.",
        measure=HistogramQuantile(0.95, metric, REPLIES_WINDOW_S),
        op=">",
        threshold=None if baseline is None else _limit(factor * baseline, baseline, METRICS[metric].bounds),
        unit=SECONDS,
        for_s=5 * MINUTE,
        baseline=baseline,
        enough=_replies(metric, least),
    )


def _limit(wanted: float, baseline: float, bounds: Sequence[float]) -> float:
    """``wanted``, but not within the bucket that the baseline lies in: where in it a P95 is, a histogram only guesses.

    A bench's exact P95 of 0.12 s and a histogram that has it between 0.1 and 0.25 s mean the same.
    """
    return max(wanted, next((bound for bound in bounds if bound >= baseline), wanted))


def _event_rules(log: str) -> tuple[Rule, ...]:
    return (
        Rule(
            name="EngineRestarted",
            title="The engine was started again",
            says="It ended or hung, and was started again in the last 10 minutes (times: {value}).",
            advice=f"Replies that ran then may be incomplete; {log} says more.",
            measure=Increase("engine_restarts_total", EVENT_WINDOW_S),
            op=">",
            threshold=0.0,
            unit=COUNT,
            for_s=0,
        ),
        Rule(
            name="OutOfMemory",
            title="Memory most likely ran out",
            says="In the last 10 minutes memory could not be had, or the engine was killed, which most likely means "
            "the same (times: {value}).",
            advice="A smaller --kv-cache-memory leaves more for the rest; other programs may hold much, too.",
            measure=Increase("oom_total", EVENT_WINDOW_S, label="where"),
            op=">",
            threshold=0.0,
            unit=COUNT,
            for_s=0,
            severity="critical",
        ),
    )
