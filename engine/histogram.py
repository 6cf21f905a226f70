"""A histogram as Prometheus means it: counts by upper bound, and the sum of what was observed."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any


class Histogram:
    """Values counted by bucket; a value belongs to the first bound that is not below it.

    Args:
        bounds: upper bounds, rising; what is above the last one is counted too.

    Attributes:
        counts: values of each bucket alone (not cumulative), one more than there are bounds.
        sum: of all values.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = list(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    @property
    def count(self) -> int:
        """Values observed."""
        return sum(self.counts)

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def to_dict(self) -> dict[str, Any]:
        """Bounds, counts and sum as plain values."""
        return {"bounds": list(self.bounds), "counts": list(self.counts), "sum": self.sum}


def percentile(share: float, histogram: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> float | None:
    """Percentile of what a histogram has counted since ``before``; of all if there is none. None of nothing.

    Args:
        share: 0.95 for the 95th percentile.
        histogram, before: in the shape of ``Histogram.to_dict``, with the same bounds.
    """
    counts = histogram["counts"]
    if before is not None:
        counts = [now - then for now, then in zip(counts, before["counts"], strict=True)]
    found = bucket_quantile(share, list(zip([*histogram["bounds"], math.inf], accumulate(counts), strict=True)))
    return None if math.isnan(found) else found


def bucket_quantile(quantile: float, buckets: Sequence[tuple[float, float]]) -> float:
    """A quantile from (upper bound, observations up to it), interpolated in its bucket as Prometheus does it.

    Returns:
        NaN without observations or without the bucket of infinity; the largest finite bound when the quantile lies
        beyond it.
    """
    if len(buckets) < 2 or not math.isinf(buckets[-1][0]):
        return math.nan
    highest = 0.0
    monotonic = [(bound, highest := max(highest, count)) for bound, count in buckets]
    if not monotonic[-1][1]:
        return math.nan
    rank = quantile * monotonic[-1][1]
    place = next(index for index, (_, count) in enumerate(monotonic) if count >= rank or index == len(monotonic) - 1)
    if place == len(monotonic) - 1:
        return monotonic[-2][0]
    bound, count = monotonic[place]
    if place == 0 and bound <= 0:
        return bound
    low, before = monotonic[place - 1] if place else (0.0, 0.0)
    return low + (bound - low) * ((rank - before) / (count - before))
