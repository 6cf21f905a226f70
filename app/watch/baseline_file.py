"""The file that baselines are kept in: small, written whole or not at all, and no reason to fail.

    baseline.json   {"version": 1, "records": {ID: {"key": …, "days": {"2026-05-01": …}, "bench": …}}}

A file that cannot be understood is set aside as ``baseline.json.damaged`` and told in the log; the days begin anew.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import date
from math import isfinite
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ...engine.errors import PagedChatError
from ..folders import Folders, reason_of, write_whole
from .baseline import BaselineKey, BenchFigures, Day, Record, utc_today

VERSION = 1
MOST_RECORDS = 32
LARGEST_BYTES = 4 << 20
LOCK_S = 5.0
Records = dict[str, Record]
log = logging.getLogger(__name__)


class BaselineFile:
    """The baselines of one state folder, by `BaselineKey.id`. Processes that change it take turns."""

    def __init__(self, state: Path) -> None:
        self.path = state / "baseline.json"

    def stamp(self) -> tuple[int, int] | None:
        """Something else after every change of the file; None without one."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def read(self) -> Records:
        """All records; none if there is no file, or none that can be read."""
        try:
            with self.path.open("rb") as file:
                data = file.read(LARGEST_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            log.warning("the baselines in %s cannot be read (%s)", self.path, reason_of(error))
            return {}
        try:
            return _records_from(json.loads(data))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            self._set_aside(error)
            return {}

    def update(self, change: Callable[[Records], None], today: date) -> Records:
        """Read, change and write; days older than a week and the records used longest ago are dropped.

        Returns:
            What is written now.

        Raises:
            PagedChatError: if it cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with FileLock(self.path.with_suffix(".lock"), timeout=LOCK_S, thread_local=False):
                records = self.read()
                change(records)
                records = _bounded(records, today)
                self._write(records)
                return records
        except Timeout as error:
            raise PagedChatError(f"{self.path} is being written by another pagedchat; try again.") from error
        except OSError as error:
            raise PagedChatError(f"{self.path} cannot be written ({reason_of(error)}).") from error

    def _write(self, records: Records) -> None:
        kept = {"version": VERSION, "records": {id: _to_json(one) for id, one in records.items()}}
        write_whole(self.path, json.dumps(kept))

    def _set_aside(self, error: Exception) -> None:
        aside = self.path.with_name(self.path.name + ".damaged")
        with suppress(OSError):
            os.replace(self.path, aside)
        log.warning("the baselines in %s cannot be understood (%s) and are kept as %s", self.path, error, aside.name)


def save_bench_baseline(
    folders: Folders,
    key: BaselineKey,
    ttft_p95_s: float | None,
    tpot_p95_s: float | None,
    hit_rate: float | None,
    today: date | None = None,
    replies: int | None = None,
    busy: bool = False,
) -> BenchFigures:
    """Keep what a bench run measured as the baseline of its model and configuration (see `baseline_key`).

    Args:
        ttft_p95_s, tpot_p95_s: P95 of the time to first token and of the time for each further one, in seconds.
        hit_rate: share of prompt tokens that came from the cache, 0 to 1.
        replies, busy: see `BenchFigures`.

    Returns:
        What is kept.

    Raises:
        PagedChatError: if it cannot be written.
    """
    today = today or utc_today()
    measured = [None if value is None or not isfinite(value) else value for value in (ttft_p95_s, tpot_p95_s, hit_rate)]
    figures = BenchFigures(*measured, saved=today, replies=replies, busy=busy)

    def change(records: dict[str, Record]) -> None:
        records.setdefault(key.id, Record(key)).bench = figures

    BaselineFile(folders.state).update(change, today)
    return figures


def _bounded(records: Records, today: date) -> Records:
    for record in records.values():
        record.forget_before(today)
    kept = {id: record for id, record in records.items() if record.days or record.bench}
    newest = sorted(kept, key=lambda id: kept[id].last_used, reverse=True)[:MOST_RECORDS]
    return {id: kept[id] for id in newest}


def _to_json(record: Record) -> dict[str, Any]:
    bench = record.bench
    return {
        "key": {**asdict(record.key), "facts": dict(record.key.facts)},
        "days": {day.isoformat(): asdict(measured) for day, measured in record.days.items()},
        "bench": {**asdict(bench), "saved": bench.saved.isoformat()} if bench else None,
    }


def _records_from(value: Any) -> Records:
    if value["version"] != VERSION:
        raise ValueError(f"version {value['version']!r}")
    return {id: _record_from(one) for id, one in value["records"].items()}


def _record_from(value: dict[str, Any]) -> Record:
    days = {date.fromisoformat(day): _checked(Day(**measured)) for day, measured in value["days"].items()}
    bench = value["bench"]
    if bench is not None:
        bench = BenchFigures(**{**bench, "saved": date.fromisoformat(bench["saved"])})
        for figure in (bench.ttft_p95_s, bench.tpot_p95_s, bench.hit_rate):
            _number(0.0 if figure is None else figure)
        _number(bench.replies or 0)
    return Record(BaselineKey(**value["key"]), days, bench)


def _checked(day: Day) -> Day:
    """The day if it is whole.

    Raises:
        ValueError, TypeError, KeyError: if not.
    """
    for name, bounds in day.bounds.items():
        if len(day.counts[name]) != len(bounds) + 1 or sorted(bounds) != bounds:
            raise ValueError(f"the buckets of {name}")
        for count in day.counts[name]:
            _number(count)
    _number(day.hits)
    _number(day.queries)
    return day


def _number(value: Any) -> None:
    if not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"{value!r} is no count")
