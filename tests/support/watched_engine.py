"""Metrics of a pretended engine, made up step by step, and what Prometheus' own tool says of the same scrapes."""

from __future__ import annotations

import shutil
import subprocess
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from pagedchat.app.watch.promql import Sample, series_of
from pagedchat.app.watch.rules import TPOT, TTFT, Rule, watched_names
from pagedchat.engine.metric_catalogue import PREFIX

STEP_S = 15
BOUNDS = [0.001, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]


class WatchedEngine:
    """Counters of a pretended engine in the shape of ``EngineClient.metrics()``.

    Attributes:
        usage, waiting: the gauges; ``usage`` None means that the engine is away and tells nothing of its own.
    """

    def __init__(self) -> None:
        self.usage: float | None = 0.0
        self.waiting = 0
        self.restarts = 0
        self.oom: dict[str, int] = {"step": 0}
        self.begin_anew()

    def begin_anew(self) -> None:
        """The engine process is another one: what it counted is gone."""
        self.queries = self.hits = 0
        self.counts = {name: [0] * (len(BOUNDS) + 1) for name in (TTFT, TPOT)}

    def reply(self, ttft_s: float = 0.2, tpot_s: float | None = 0.02, prompt: int = 100, cached: int = 80) -> None:
        """One reply has ended; ``tpot_s`` None: with its first token."""
        self.counts[TTFT][bisect_left(BOUNDS, ttft_s)] += 1
        if tpot_s is not None:
            self.counts[TPOT][bisect_left(BOUNDS, tpot_s)] += 1
        self.queries += prompt
        self.hits += cached

    def metrics(self) -> dict[str, Any]:
        """What the client would answer now."""
        known = {"gauges": {"engine_up": 1}, "counters": {"engine_restarts_total": self.restarts}, "histograms": {}}
        if self.usage is None:
            return known
        known["gauges"] |= {"kv_cache_usage_perc": self.usage, "num_requests_waiting": self.waiting}
        known["counters"] |= {"prefix_cache_queries_total": self.queries, "prefix_cache_hits_total": self.hits}
        known["counters"]["oom_total"] = dict(self.oom)
        known["histograms"] = {
            name: {"bounds": BOUNDS, "counts": list(counts), "sum": 0.0} for name, counts in self.counts.items()
        }
        return known


def scrapes(rules: tuple[Rule, ...], minutes: float, act: Callable[[WatchedEngine, float], None]) -> list[Sample]:
    """A scrape every 15 s; ``act(engine, minute)`` says what happened since the one before."""
    engine, names = WatchedEngine(), watched_names(rules)
    samples = []
    for step in range(round(minutes * 60 / STEP_S) + 1):
        act(engine, step * STEP_S / 60)
        samples.append(Sample(step * STEP_S, series_of(engine.metrics(), names)))
    return samples


def promtool_says(folder: Path, rules_yaml: str, tests: list[dict[str, Any]]) -> str:
    """Run ``promtool test rules``; "" if all that was expected came, else what it prints."""
    tool = shutil.which("promtool")
    assert tool, "this test needs promtool (apt-get install prometheus)"
    (folder / "rules.yml").write_text(rules_yaml, encoding="utf-8")
    plan = {"rule_files": ["rules.yml"], "evaluation_interval": f"{STEP_S}s", "tests": tests}
    (folder / "tests.yml").write_text(yaml.dump(plan, Dumper=_DUMPER, sort_keys=False), encoding="utf-8")
    ended = subprocess.run([tool, "test", "rules", "tests.yml"], cwd=folder, capture_output=True, text=True, timeout=60)
    return "" if ended.returncode == 0 else ended.stdout + ended.stderr


def input_series(samples: Sequence[Sample]) -> list[dict[str, str]]:
    """Samples in promtool's notation; a series that is missing for the first time ends there ("stale")."""
    keys = {(name, label): None for sample in samples for name, found in sample.values.items() for label in found}
    return [{"series": _written(*key), "values": " ".join(_values(*key, samples))} for key in keys]


def _written(name: str, label: str) -> str:
    kind = "le" if name.endswith("_bucket") else "where"
    return PREFIX + name + (f'{{{kind}="{label}"}}' if label else "")


def _values(name: str, label: str, samples: Sequence[Sample]) -> list[str]:
    texts, there = [], False
    for sample in samples:
        value = sample.values.get(name, {}).get(label)
        texts.append(repr(value) if value is not None else "stale" if there else "_")
        there = value is not None
    return texts


_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
