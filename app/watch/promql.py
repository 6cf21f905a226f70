"""The few PromQL expressions that the alert rules use: each can be written for Prometheus and be computed here.

    samples    t0 ──── t15 ──── t30 ──── t45 ──── t60      one `Sample` a scrape, oldest first
    range            [──────── window ────────]  at        both ends included, as in Prometheus 2
    instant                                  ●  at         the newest sample, at most LOOKBACK_S old

What is computed equals what Prometheus 2 computes from the same scrapes: counters that begin anew, extrapolation to the
window's ends (``extrapolatedRate`` in its promql/functions.go) and interpolation in a bucket (``bucketQuantile`` in
promql/quantile.go) included. No result is None, as an empty vector is; 0/0 is NaN, and no comparison with it holds.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Any, Protocol

from ...engine.histogram import bucket_quantile
from ...engine.metric_catalogue import PREFIX

LOOKBACK_S = 300.0
NEAR_END = 1.1
"""A series is taken to go on to the window's end if that is not further away than so many pauses between samples."""

Series = dict[str, dict[str, float]]
"""Values by name without prefix, then by the value of the only label ("" for none; a bucket's upper bound)."""
Points = list[tuple[float, float]]
"""(seconds, value), oldest first."""


@dataclass(frozen=True)
class Sample:
    """One scrape: ``time`` in seconds on any clock, and the value of every series that was there."""

    time: float
    values: Series


class Expression(Protocol):
    """What a rule measures. At most one series comes out of it."""

    def promql(self) -> str:
        """The expression for Prometheus."""
        ...

    def evaluate(self, samples: Sequence[Sample], at: float) -> float | None:
        """Its value at a time, from samples up to then; None if there is no result."""
        ...

    def names(self) -> frozenset[str]:
        """The metrics it reads, without prefix."""
        ...


@dataclass(frozen=True)
class Newest:
    """The value of a gauge."""

    name: str

    def promql(self) -> str:
        return PREFIX + self.name

    def evaluate(self, samples: Sequence[Sample], at: float) -> float | None:
        end = bisect_right(samples, at, key=attrgetter("time"))
        if end == 0 or samples[end - 1].time < at - LOOKBACK_S:
            return None
        return samples[end - 1].values.get(self.name, {}).get("")

    def names(self) -> frozenset[str]:
        return frozenset({self.name})


@dataclass(frozen=True)
class QuantileOverTime:
    """A quantile of the samples of a gauge in a window that ends ``offset_s`` ago."""

    quantile: float
    name: str
    window_s: int
    offset_s: int = 0

    def promql(self) -> str:
        offset = f" offset {duration(self.offset_s)}" if self.offset_s else ""
        return f"quantile_over_time({self.quantile:g}, {PREFIX}{self.name}[{duration(self.window_s)}]{offset})"

    def evaluate(self, samples: Sequence[Sample], at: float) -> float | None:
        at -= self.offset_s
        points = points_of(self.name, "", samples_in(samples, at - self.window_s, at))
        return quantile_of(self.quantile, [value for _, value in points])

    def names(self) -> frozenset[str]:
        return frozenset({self.name})


@dataclass(frozen=True)
class Increase:
    """How much a counter has grown in a window, summed over the values of ``label`` if it has one."""

    name: str
    window_s: int
    label: str = ""

    def promql(self) -> str:
        grown = f"increase({PREFIX}{self.name}[{duration(self.window_s)}])"
        return f"sum without ({self.label}) ({grown})" if self.label else grown

    def evaluate(self, samples: Sequence[Sample], at: float) -> float | None:
        start = at - self.window_s
        grown = increases_of(self.name, samples_in(samples, start, at), start, at)
        return sum(grown.values()) if grown else None

    def names(self) -> frozenset[str]:
        return frozenset({self.name})


@dataclass(frozen=True)
class HistogramQuantile:
    """A quantile of what a histogram has counted in a window."""

    quantile: float
    name: str
    window_s: int

    def promql(self) -> str:
        return f"histogram_quantile({self.quantile:g}, rate({PREFIX}{self.name}_bucket[{duration(self.window_s)}]))"

    def evaluate(self, samples: Sequence[Sample], at: float) -> float | None:
        start = at - self.window_s
        grown = increases_of(self.name + "_bucket", samples_in(samples, start, at), start, at)
        if not grown:
            return None
        buckets = sorted((float(bound), count) for bound, count in grown.items())
        return bucket_quantile(self.quantile, buckets)

    def names(self) -> frozenset[str]:
        return frozenset({self.name})


@dataclass(frozen=True)
class Ratio:
    """``left / right``."""

    left: Expression
    right: Expression

    def promql(self) -> str:
        return f"{self.left.promql()} / {self.right.promql()}"

    def evaluate(self, samples: Sequence[Sample], at: float) -> float | None:
        left, right = self.left.evaluate(samples, at), self.right.evaluate(samples, at)
        if left is None or right is None:
            return None
        return left / right if right else math.nan if not left else math.copysign(math.inf, left)

    def names(self) -> frozenset[str]:
        return self.left.names() | self.right.names()


@dataclass(frozen=True)
class Difference:
    """``left - right``."""

    left: Expression
    right: Expression

    def promql(self) -> str:
        return f"{self.left.promql()} - {self.right.promql()}"

    def evaluate(self, samples: Sequence[Sample], at: float) -> float | None:
        left, right = self.left.evaluate(samples, at), self.right.evaluate(samples, at)
        return None if left is None or right is None else left - right

    def names(self) -> frozenset[str]:
        return self.left.names() | self.right.names()


# -- arithmetic -------------------------------------------------------------------------------------------------------


def samples_in(samples: Sequence[Sample], start: float, end: float) -> Sequence[Sample]:
    """Samples from ``start`` to ``end``, both included."""
    time = attrgetter("time")
    return samples[bisect_left(samples, start, key=time) : bisect_right(samples, end, key=time)]


def points_of(name: str, label: str, samples: Iterable[Sample]) -> Points:
    """The points of one series; samples that lack it are left out."""
    values = ((sample.time, sample.values.get(name, {}).get(label)) for sample in samples)
    return [(time, value) for time, value in values if value is not None]


def increases_of(name: str, samples: Sequence[Sample], start: float, end: float) -> dict[str, float]:
    """How much each series of a counter has grown, by the value of its label; those with one point are left out."""
    labels: set[str] = set().union(*(sample.values.get(name, ()) for sample in samples))
    grown = {label: increase_of(points_of(name, label, samples), start, end) for label in labels}
    return {label: value for label, value in grown.items() if value is not None}


def increase_of(points: Points, start: float, end: float) -> float | None:
    """Growth of a counter, extrapolated to the whole window. A smaller value means that it began anew at 0."""
    if len(points) < 2:
        return None
    (first_time, first), (last_time, last) = points[0], points[-1]
    grown, before = last - first, first
    for _, value in points:
        if value < before:
            grown += before
        before = value
    covered = last_time - first_time
    pause = covered / (len(points) - 1)
    to_start, to_end = first_time - start, end - last_time
    if grown > 0 and first >= 0:
        to_start = min(to_start, covered * (first / grown))  # it was not below 0 before
    whole = covered + sum(gap if gap < pause * NEAR_END else pause / 2 for gap in (to_start, to_end))
    return grown * (whole / covered)


def quantile_of(quantile: float, values: Sequence[float]) -> float | None:
    """A quantile of values, interpolated between its two neighbours; None of none."""
    if not values:
        return None
    ordered = sorted(values)
    rank = quantile * (len(ordered) - 1)
    low = math.floor(rank)
    weight = rank - low
    return ordered[low] * (1 - weight) + ordered[min(low + 1, len(ordered) - 1)] * weight


def duration(seconds: int) -> str:
    """Seconds as Prometheus writes them: ``90s``, ``5m``, ``2h``."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def series_of(metrics: Mapping[str, Any], names: frozenset[str]) -> Series:
    """The series of an answer of ``EngineClient.metrics()`` as a scrape would have them, of the metrics named only."""
    found: Series = {}
    for kind in ("gauges", "counters"):
        for name, value in metrics.get(kind, {}).items():
            if name in names:
                labelled = value if isinstance(value, Mapping) else {"": value}
                found[name] = {str(label): float(one) for label, one in labelled.items()}
    for name, histogram in metrics.get("histograms", {}).items():
        if name in names:
            found[name + "_bucket"] = buckets_of(histogram)
        if name + "_count" in names:
            found[name + "_count"] = {"": float(sum(histogram["counts"]))}
    return found


def buckets_of(histogram: Mapping[str, Any]) -> dict[str, float]:
    """The cumulative buckets of a histogram whose ``counts`` are not, by their bounds as Prometheus writes them."""
    bounds = [*map(repr, map(float, histogram["bounds"])), "+Inf"]
    return dict(zip(bounds, map(float, accumulate(histogram["counts"])), strict=True))
