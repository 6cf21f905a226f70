"""What is usual on this machine: P95s and the prefix hit rate of the seven days before today, or of a bench run.

Today does not count: hours that a rule compares with a baseline must not be part of it, or a regression would explain
itself. A bench run that the user kept counts before the days for a week, afterwards only where the days have too few
replies. Each model and configuration has figures of its own (`BaselineKey`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, Any

from ...engine.histogram import bucket_quantile
from ...sessions.wording import counted

if TYPE_CHECKING:
    from ..settings import Settings

DAYS = 7
LEAST_REPLIES = 50
"""So many replies must have been measured before a baseline counts."""
INFO_FACTS = ("device", "dtype", "kernels", "threads")
SETTING_FACTS = (
    "block_size",
    "num_blocks",
    "kv_cache_memory",
    "gpu_memory_utilization",
    "max_num_seqs",
    "max_num_batched_tokens",
    "enable_prefix_caching",
    "deterministic",
)
"""As asked for: what the pool's size becomes depends on the memory that happens to be free."""


@dataclass(frozen=True)
class BaselineKey:
    """What a baseline holds for: one model (by ``fingerprint``; ``model`` is its name), machine and configuration."""

    fingerprint: str
    model: str
    facts: Mapping[str, Any] = field(hash=False)

    @property
    def id(self) -> str:
        """Short name of the whole, the same after a restart."""
        text = json.dumps([self.fingerprint, dict(self.facts)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def words(self) -> str:
        """Model and what computes it, for people."""
        return f"{self.model} on {self.facts.get('device')} ({self.facts.get('dtype')})"


def baseline_key(info: Mapping[str, Any], settings: Settings) -> BaselineKey:
    """The key of an engine that says ``info`` of itself and was asked for ``settings``."""
    facts = {name: info.get(name) for name in INFO_FACTS}
    facts |= {name: getattr(settings, name) for name in SETTING_FACTS}
    facts["processor"] = _processor()
    return BaselineKey(str(info.get("fingerprint", "")), str(info.get("model", "")), facts)


@lru_cache(maxsize=1)
def _processor() -> str:
    from ..operate.snapshot import machine_facts

    return machine_facts()["processor"]


@dataclass
class Day:
    """What was measured on one day: histograms (``bounds`` in seconds, ``counts`` one more) and token counts."""

    bounds: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, list[int]] = field(default_factory=dict)
    hits: float = 0.0
    queries: float = 0.0

    def add(self, other: Day) -> None:
        """Take in what another day measured; where its buckets are others, its own count from now on."""
        for name, bounds in other.bounds.items():
            if self.bounds.get(name) == bounds:
                self.counts[name] = [a + b for a, b in zip(self.counts[name], other.counts[name], strict=True)]
            else:
                self.bounds[name], self.counts[name] = list(bounds), list(other.counts[name])
        self.hits += other.hits
        self.queries += other.queries

    def replies(self, name: str) -> int:
        """How many observations a histogram has."""
        return sum(self.counts.get(name, ()))

    def p95(self, name: str) -> float | None:
        """P95 of a histogram in seconds; None with fewer than `LEAST_REPLIES` observations."""
        if self.replies(name) < LEAST_REPLIES:
            return None
        cumulative = [float(count) for count in accumulate(self.counts[name])]
        return bucket_quantile(0.95, list(zip([*self.bounds[name], inf], cumulative, strict=True)))

    @property
    def hit_rate(self) -> float | None:
        """Share of prompt tokens found in the cache; None with too few replies."""
        return self.hits / self.queries if self.queries and self.replies("ttft") >= LEAST_REPLIES else None


@dataclass(frozen=True)
class BenchFigures:
    """What a bench run measured and the user kept: seconds, a share, and the day in UTC.

    Attributes:
        replies: so many were measured; None where that was not noted.
        busy: other programs wanted the processor, too.
    """

    ttft_p95_s: float | None
    tpot_p95_s: float | None
    hit_rate: float | None
    saved: date
    replies: int | None = None
    busy: bool = False

    @property
    def doubts(self) -> str:
        """Why these figures may be no good measure, in brackets; "" if nothing speaks against them."""
        few = self.replies is not None and self.replies < LEAST_REPLIES
        reasons = [f"only {counted(self.replies or 0, 'reply', 'replies')}, {LEAST_REPLIES} are better"] if few else []
        reasons += ["on a busy computer"] if self.busy else []
        return f" ({'; '.join(reasons)})" if reasons else ""


@dataclass(frozen=True)
class Baseline:
    """The figures in force, each None where there is none, and in a sentence where they are from, or why not."""

    words: str
    ttft_p95_s: float | None = None
    tpot_p95_s: float | None = None
    hit_rate: float | None = None


@dataclass
class Record:
    """All that is kept for one key."""

    key: BaselineKey
    days: dict[date, Day] = field(default_factory=dict)
    bench: BenchFigures | None = None

    @property
    def last_used(self) -> date:
        """The newest day of which something is known."""
        known = [*self.days, *([self.bench.saved] if self.bench else [])]
        return max(known) if known else date.min

    def forget_before(self, today: date) -> None:
        """Drop days that no baseline can need any more."""
        for day in [day for day in self.days if day < today - timedelta(DAYS) or day > today + timedelta(1)]:
            del self.days[day]

    def week(self, today: date) -> Day:
        """The seven days before ``today`` in one; of buckets that changed meanwhile, the newest ones."""
        whole = Day()
        for day in sorted(self.days):
            if today - timedelta(DAYS) <= day < today:
                whole.add(self.days[day])
        return whole


def baseline_of(record: Record | None, today: date) -> Baseline:
    """What counts on a day."""
    if record is None:
        return Baseline("No baseline yet: nothing was measured with this model and configuration before today.")
    week, bench = record.week(today), record.bench
    days = Baseline(
        f"Baseline: the seven days before {today} ({week.replies('ttft'):,} replies) with {record.key.words}.",
        week.p95("ttft"),
        week.p95("tpot"),
        week.hit_rate,
    )
    enough = days.ttft_p95_s is not None
    if bench is not None and (not enough or bench.saved > today - timedelta(DAYS)):
        words = f"Baseline: `pagedchat bench serve` of {bench.saved}{bench.doubts} with {record.key.words}."
        return Baseline(words, bench.ttft_p95_s, bench.tpot_p95_s, bench.hit_rate)
    if enough:
        return days
    return Baseline(
        f"No baseline yet: the seven days before {today} have {week.replies('ttft'):,} replies with "
        f"{record.key.words}, and {LEAST_REPLIES} are needed; `pagedchat bench serve --save-baseline` makes one now."
    )


def utc_today() -> date:
    """The day in UTC, by which days are kept."""
    return datetime.now(UTC).date()
