"""From samples to alerts: inactive → pending → firing → inactive, as Prometheus does it.

    condition   ▁▁▁▁▁████████████▁▁▁▁
    state       inactive  pending  firing  inactive
                      └─ since ─┘ for_s

Nothing here keeps state or reads a clock: `evaluate` gets what was and answers what is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .promql import Sample
from .rules import Rule

State = Literal["inactive", "pending", "firing", "no baseline"]


@dataclass(frozen=True)
class AlertState:
    """What a rule says at a moment.

    Attributes:
        since: when its condition began to hold, on the samples' clock; None while it does not.
        value: what it measured, None if there was nothing to measure (0/0, no samples).
        judged: whether enough was seen for a judgement.
    """

    state: State = "inactive"
    since: float | None = None
    value: float | None = None
    judged: bool = True


INACTIVE = AlertState()


def evaluate(rule: Rule, samples: Sequence[Sample], at: float, before: AlertState = INACTIVE) -> AlertState:
    """The rule at a time, from the samples up to then and the state at the evaluation before.

    Without a baseline it is "no baseline", never "inactive".
    """
    value = rule.measure.evaluate(samples, at)
    if value is not None and value != value:  # NaN: nothing was measured
        value = None
    if rule.threshold is None:
        return AlertState("no baseline", None, value)
    judged = rule.enough is None or (rule.enough.measure.evaluate(samples, at) or 0.0) >= rule.enough.least
    if value is None or not judged or not (value > rule.threshold if rule.op == ">" else value < rule.threshold):
        return AlertState("inactive", None, value, judged and value is not None)
    since = at if before.since is None else before.since
    return AlertState("firing" if at - since >= rule.for_s else "pending", since, value)


def evaluate_all(
    rules: Iterable[Rule], samples: Sequence[Sample], at: float, before: Mapping[str, AlertState]
) -> dict[str, AlertState]:
    """`evaluate` of each rule, by name."""
    return {rule.name: evaluate(rule, samples, at, before.get(rule.name, INACTIVE)) for rule in rules}


def replay(
    rules: Sequence[Rule], samples: Sequence[Sample], times: Iterable[float]
) -> list[tuple[float, dict[str, AlertState]]]:
    """The states at each of ``times``, one evaluation after the other."""
    states: dict[str, AlertState] = {}
    found = []
    for at in times:
        states = evaluate_all(rules, samples, at, states)
        found.append((at, states))
    return found
