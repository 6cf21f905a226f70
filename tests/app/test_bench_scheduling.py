"""``bench scheduling``: what the engine's own work costs, and what metrics have of a step."""

from __future__ import annotations

import dataclasses

import pytest

from pagedchat.app.bench.metrics_cost import share_of_step
from pagedchat.app.bench.scheduling import GOAL_METRICS, run_scheduling, scheduling_lines


def test_a_small_run_measures_everything_and_metrics_are_part_of_the_verdict() -> None:
    report = run_scheduling(running=4, num_blocks=400, chats=30, steps=5)
    figures = report.to_dict()
    assert all(figures[name] > 0 for name in ("schedule_us", "pool_us", "metrics_us", "metrics_told_us"))
    assert 0 < report.metrics_share_of_model < report.metrics_share < 0.1
    assert any(line.startswith("  metrics ") for line in scheduling_lines(report))
    quick = dataclasses.replace(report, schedule_us=1.0, pool_us=1.0, lookup_us=1.0, metrics_us=10.0, metrics_told_us=0)
    assert quick.passed and quick.metrics_share == pytest.approx(0.002)
    assert not dataclasses.replace(quick, metrics_us=100.0).passed


def test_the_share_of_a_step_holds_what_is_told_once_a_second() -> None:
    assert share_of_step(50, 0, 0.005) == pytest.approx(GOAL_METRICS)
    assert share_of_step(0, 1000, 0.005) == pytest.approx(0.001)
