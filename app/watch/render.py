"""The rules as a file for Prometheus, with this machine's baseline filled in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from .baseline import Baseline
from .promql import duration
from .rules import Rule

EVALUATED_EVERY = "15s"


def render_rules(rules: Sequence[Rule], baseline: Baseline) -> str:
    """YAML for Prometheus' ``rule_files``.

    A rule that has no baseline is written as an alert of severity "info" that always fires and says so: left out, or
    written so that it never fires, it would look as if all were well.
    """
    entries = [_entry(rule, baseline) for rule in rules]
    groups = {"groups": [{"name": "pagedchat", "interval": EVALUATED_EVERY, "rules": entries}]}
    text = yaml.safe_dump(groups, sort_keys=False, allow_unicode=True, width=110)
    return "".join(f"# {line}\n" for line in _heading(rules, baseline)) + text


def _heading(rules: Sequence[Rule], baseline: Baseline) -> list[str]:
    missing = [rule.name for rule in rules if rule.threshold is None]
    lines = ["Alerts of pagedchat, written by `pagedchat alerts render`.", baseline.words]
    return [*lines, f"No baseline for {', '.join(missing)}: they judge nothing yet."] if missing else lines


def _entry(rule: Rule, baseline: Baseline) -> dict[str, Any]:
    if rule.threshold is None:
        return {
            "alert": f"{rule.name}NoBaseline",
            "expr": "vector(1)",
            "labels": {"severity": "info"},
            "annotations": {
                "summary": f"{rule.name} has no baseline",
                "description": f"{baseline.words} Until then nothing says whether this holds: {rule.title}.",
            },
        }
    lasting = {"for": duration(rule.for_s)} if rule.for_s else {}
    return {
        "alert": rule.name,
        "expr": rule.expression,
        **lasting,
        "labels": {"severity": rule.severity},
        "annotations": {"summary": rule.title, "description": rule.describe(rule.unit.template)},
    }
