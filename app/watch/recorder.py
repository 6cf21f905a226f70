"""What the running server measures, day by day and for each configuration, until it is written to the baselines."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from .baseline import BaselineKey, Day, Record
from .baseline_file import BaselineFile, Records
from .rules import HITS, QUERIES, TPOT, TTFT

HISTOGRAMS = {"ttft": TTFT, "tpot": TPOT}


class BaselineRecorder:
    """Takes the totals of every scrape and keeps what was added since the one before."""

    def __init__(self, file: BaselineFile) -> None:
        self._file = file
        self._before = Day()
        self._fresh: dict[str, tuple[BaselineKey, dict[date, Day]]] = {}

    def take(self, metrics: Mapping[str, Any], key: BaselineKey | None, today: date) -> None:
        """Note the totals of now; what was added belongs to ``key``, or to nobody while there is none."""
        totals = _totals(metrics)
        added, self._before = _added(self._before, totals), totals
        if key is None or not (added.queries or any(map(added.replies, HISTOGRAMS))):
            return
        _, days = self._fresh.setdefault(key.id, (key, {}))
        days.setdefault(today, Day()).add(added)

    def write(self, today: date) -> Records:
        """Add what is new to the file, if anything is; may take a moment.

        Returns:
            All records as they are now.

        Raises:
            PagedChatError: if the file cannot be written; nothing is lost, the next try has it all.
        """
        fresh, self._fresh = self._fresh, {}
        if not fresh:
            return self._file.read()

        def change(records: Records) -> None:
            _merge(records, fresh)

        try:
            return self._file.update(change, today)
        except Exception:
            for id, (key, days) in fresh.items():
                for day, measured in days.items():
                    self._fresh.setdefault(id, (key, {}))[1].setdefault(day, Day()).add(measured)
            raise


def _merge(records: Records, fresh: Mapping[str, tuple[BaselineKey, dict[date, Day]]]) -> None:
    for id, (key, days) in fresh.items():
        record = records.setdefault(id, Record(key))
        for day, measured in days.items():
            record.days.setdefault(day, Day()).add(measured)


def _totals(metrics: Mapping[str, Any]) -> Day:
    totals = Day(hits=metrics["counters"].get(HITS, 0), queries=metrics["counters"].get(QUERIES, 0))
    for name, metric in HISTOGRAMS.items():
        histogram = metrics["histograms"].get(metric)
        if histogram is not None:
            totals.bounds[name] = [float(bound) for bound in histogram["bounds"]]
            totals.counts[name] = list(histogram["counts"])
    return totals


def _added(before: Day, now: Day) -> Day:
    """What came between two totals; smaller ones have begun anew, and all of them is new."""
    added = Day()
    for name, counts in now.counts.items():
        old = before.counts.get(name, [])
        again = before.bounds.get(name) != now.bounds[name] or any(a < b for a, b in zip(counts, old, strict=True))
        added.bounds[name] = now.bounds[name]
        added.counts[name] = counts if again else [a - b for a, b in zip(counts, old, strict=True)]
    again = now.queries < before.queries or now.hits < before.hits
    added.queries = now.queries - (0 if again else before.queries)
    added.hits = now.hits - (0 if again else before.hits)
    return added
