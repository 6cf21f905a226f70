"""``bench sessions``: a small store is made and everything is measured."""

from __future__ import annotations

import pytest

from pagedchat.app.bench.report import BenchResult
from pagedchat.app.bench.sessions_bench import Measure, run_sessions
from pagedchat.app.bench.sessions_store import Shape

SHAPE = Shape(messages=120, sessions=8, long_messages=30, long_characters=20_000)


@pytest.fixture(scope="module")
def result() -> BenchResult:
    phases: list[str] = []
    measured = run_sessions(BenchResult("sessions", {}), SHAPE, 1, 3, phases.append)
    assert [one.split()[0] for one in phases] == ["writing", "filling", "measuring"]
    return measured


def test_everything_is_measured_and_told(result: BenchResult) -> None:
    (table,) = result.tables
    rows = {str(row[0]): row for row in table.rows}
    assert all(float(row[2] or 0) >= float(row[1] or 0) > 0 for row in table.rows)
    assert rows["read the whole long session"][5] == "30 messages" and rows["list all sessions"][5] == "8"
    assert rows["open the long session, as the page does"][5] == "the last 36 of 36 messages"
    assert rows["search: a rare word"][5] == "1 hits" and rows["search: no hit"][5] == "0 hits"
    assert int(str(rows["search: three Chinese characters"][5]).split()[0]) > 0
    assert rows["send in the long session, until the engine has it"][3] == "200"
    assert {"disk_ms", "building_s", "database_mb"} <= result.figures.keys()
    assert result.passed in (True, False) and "The store:" in result.verdict


def test_a_goal_is_for_the_slow_ones_and_durable_writes_are_judged_without_the_disk() -> None:
    read = Measure("read", 50.0, [1.0] * 18 + [60.0] * 2)
    assert read.judged_ms(9.0) == read.share(95) > 50
    write = Measure("write", 5.0, [10.0, 11.0, 12.0], less_disk=True)
    assert write.judged_ms(9.0) == 2.0 and write.judged_ms(20.0) == 0.0
