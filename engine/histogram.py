"""A histogram as Prometheus means it: counts by upper bound, and the sum of what was observed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
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
