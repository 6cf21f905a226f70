"""Arithmetic of the load benches: percentiles, goodput, knees, disagreement, the closing sentence. Knows no server."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...engine.errors import ConfigError
from ...sessions.wording import counted

SHARES = (50, 95, 99)
SLO_NAMES = ("ttft", "itl", "tpot", "e2e")
NOTICEABLE = 0.10
"""A change of a tenth is more than one run of a quiet machine differs from the next."""


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value below which ``share`` percent of ``values`` lie, interpolated as numpy does; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * share / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def percentiles(values: Sequence[float], shares: Sequence[int] = SHARES) -> dict[str, float | None]:
    """``{"p50": …, "p95": …, "p99": …}``."""
    return {f"p{share}": percentile(values, share) for share in shares}


def median(values: Sequence[float]) -> float | None:
    """The 50th percentile."""
    return percentile(values, 50)


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """``ours`` divided by ``theirs``; None where one of them is missing or the second is zero."""
    return ours / theirs if ours is not None and theirs else None


def parse_slo(text: str) -> dict[str, float]:
    """Limits in milliseconds from ``ttft=1000,itl=100``; names are ttft, itl, tpot and e2e.

    Raises:
        ConfigError: anything else.
    """
    limits: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        try:
            limit = float(value)
        except ValueError:
            limit = 0.0
        if name.strip() not in SLO_NAMES or not 0 < limit < math.inf:
            raise ConfigError(
                f"--slo {text!r} cannot be read at {part!r}: write limits in milliseconds such as ttft=1000,itl=100; "
                f"the names are {', '.join(SLO_NAMES)}."
            )
        limits[name.strip()] = limit
    return limits


def meets(measured: Mapping[str, float | None], slo: Mapping[str, float]) -> bool:
    """Whether a request keeps every limit it has a figure for; both in milliseconds. A reply of one token has no
    ``itl`` and no ``tpot`` and cannot miss those."""
    return all((value := measured.get(name)) is None or value <= limit for name, limit in slo.items())


def knee(points: Sequence[tuple[float, float]]) -> float | None:
    """The x after which more of it brings little: where the curve is furthest above the line from its first to its
    last point (Satopää et al., "Finding a 'Kneedle' in a Haystack", 2011), on a logarithmic x axis.

    Returns:
        None when there are fewer than three points or the curve never bends: it does not rise by a tenth, or rises
        evenly to its end.
    """
    ordered = sorted(points)
    if len(ordered) < 3 or ordered[0][0] <= 0:
        return None
    low, high = ordered[0][1], max(y for _, y in ordered)
    if high <= low * (1 + NOTICEABLE):
        return None
    first, last = math.log(ordered[0][0]), math.log(ordered[-1][0])
    above = {x: (y - low) / (high - low) - (math.log(x) - first) / (last - first) for x, y in ordered}
    best = max(above, key=lambda x: (above[x], -x))
    return best if above[best] > NOTICEABLE else None


@dataclass(frozen=True)
class Direction:
    """A figure by which two runs are compared, whether more of it is better, and the least difference that counts."""

    name: str
    label: str
    more_is_better: bool
    least: float = 0.0


DIRECTIONS = (
    Direction("tokens_per_s", "throughput", True),
    Direction("goodput_per_s", "goodput", True),
    Direction("ttft_p95_ms", "P95 TTFT", False, 20.0),
    Direction("itl_p95_ms", "P95 ITL", False, 3.0),
    Direction("queue_p95_ms", "P95 queue time", False, 20.0),
    Direction("e2e_p95_ms", "P95 E2E", False, 50.0),
)


def disagreement(one: Mapping[str, float | None], other: Mapping[str, float | None]) -> str:
    """A sentence when ``one`` is noticeably better than ``other`` in some figures and worse in others; else ""."""
    better, worse = [], []
    for direction in DIRECTIONS:
        first, second = one.get(direction.name), other.get(direction.name)
        change = ratio(first, second)
        if first is None or second is None or change is None or abs(change - 1) < NOTICEABLE:
            continue
        if abs(first - second) < direction.least:
            continue
        words = f"{direction.label} {'up' if change > 1 else 'down'} {abs(change - 1):.0%}"
        (better if (change > 1) == direction.more_is_better else worse).append(words)
    if not better or not worse:
        return ""
    return f"The runs disagree: {', '.join(better)} (better), but {', '.join(worse)} (worse)."


@dataclass(frozen=True)
class PagingFacts:
    """What the closing sentence is computed from.

    Attributes:
        prompt_tokens, cached_tokens: of all requests of the load.
        held_tokens: KV slots that were in use at the peak.
        reserved_tokens: what that many requests would take if each reserved the model's longest chat.
        pool_tokens: KV slots there are.
        longest: tokens of the longest chat.
        mean_running: requests that ran at once, on average while any ran.
        preemptions: how often a request had to give its blocks back.
    """

    prompt_tokens: int
    cached_tokens: int
    held_tokens: int
    reserved_tokens: int
    pool_tokens: int
    longest: int
    mean_running: float
    preemptions: int


MUCH_REUSE, SOME_REUSE = 0.30, 0.05


def paging_worth(facts: PagingFacts) -> str:
    """One sentence: is paging worth much, something or little for this load, and why.

    It is worth much where reservation would not fit the pool, or where at least 30 % of the prompt tokens were found;
    little where reservation would fit and under 5 % were found.
    """
    reuse = facts.cached_tokens / facts.prompt_tokens if facts.prompt_tokens else 0.0
    fits = facts.reserved_tokens <= facts.pool_tokens
    little = "something" if reuse >= SOME_REUSE else "little"
    worth = "much" if not fits or reuse >= MUCH_REUSE else little
    avoided = max(0, facts.reserved_tokens - facts.held_tokens)
    share = avoided / facts.reserved_tokens if facts.reserved_tokens else 0.0
    held = f"its peak held {facts.held_tokens:,} KV slots where reserving {facts.longest:,} for each request takes "
    held += f"{facts.reserved_tokens:,} ({share:.0%} waste avoided"
    held += ", which this pool could hold)" if fits else f", more than the pool's {facts.pool_tokens:,})"
    turned = "no preemption" if not facts.preemptions else counted(facts.preemptions, "preemption")
    return (
        f"Paging is worth {worth} for this load: {reuse:.0%} of its prompt tokens ({facts.cached_tokens:,} of "
        f"{facts.prompt_tokens:,}) were shared or cached and not computed again; {held}; "
        f"{facts.mean_running:.1f} requests ran at once, with {turned}."
    )
