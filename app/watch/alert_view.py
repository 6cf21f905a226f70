"""A rule and its state as the API and the page tell them."""

from __future__ import annotations

from typing import Any

from .evaluate import AlertState
from .rules import Rule


def alert_view(rule: Rule, state: AlertState, shift: float) -> dict[str, Any]:
    """JSON values; ``shift`` turns the evaluation's clock into seconds since 1970."""
    return {
        "name": rule.name,
        "title": rule.title,
        "state": state.state,
        "since": None if state.since is None else round(state.since + shift),
        "severity": rule.severity,
        "value": state.value,
        "threshold": rule.threshold,
        "baseline": rule.baseline,
        "for_s": rule.for_s,
        "expression": rule.expression,
        "sentence": sentence(rule, state),
    }


def sentence(rule: Rule, state: AlertState) -> str:
    """What the rule says now."""
    value = "nothing" if state.value is None else rule.unit.text(state.value)
    if state.state == "firing":
        return rule.describe(value)
    if state.state == "no baseline":
        return "No baseline yet, so nothing is judged" + (f"; {value} now." if state.value is not None else ".")
    if not state.judged:
        return "Too little was seen to judge."
    assert rule.threshold is not None
    side = {">": "above", "<": "below"}[rule.op]
    limit = rule.unit.text(rule.threshold)
    if state.state == "pending":
        return f"Now {value}, the limit is {limit}; told when it lasts {rule.for_s // 60} minutes."
    return f"Now {value}, which is fine; told {side} {limit}."
