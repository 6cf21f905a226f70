"""What is usual on this machine: kept by day, model and configuration, and judged only when enough was seen."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from pagedchat.app.folders import Folders, find_folders
from pagedchat.app.settings import Settings
from pagedchat.app.watch.baseline import (
    LEAST_REPLIES,
    BaselineKey,
    baseline_key,
    baseline_of,
)
from pagedchat.app.watch.baseline_file import MOST_RECORDS, BaselineFile, save_bench_baseline
from pagedchat.app.watch.recorder import BaselineRecorder
from pagedchat.engine.errors import PagedChatError
from support.watched_engine import WatchedEngine

INFO = {"fingerprint": "f1", "model": "small", "device": "cpu", "dtype": "float32", "kernels": "cpu", "threads": 2}
KEY = baseline_key(INFO, Settings())
TODAY = date(2026, 5, 20)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return find_folders(tmp_path)


@pytest.fixture
def file(folders: Folders) -> BaselineFile:
    return BaselineFile(folders.state)


def record(file: BaselineFile, day: date, replies: int, key: BaselineKey = KEY, **reply: Any) -> None:
    """A server's day with so many replies."""
    engine, recorder = WatchedEngine(), BaselineRecorder(file)
    for _ in range(replies):
        engine.reply(**reply)
    recorder.take(engine.metrics(), key, day)
    recorder.write(day)


def baseline(file: BaselineFile, today: date = TODAY, key: BaselineKey = KEY) -> Any:
    return baseline_of(file.read().get(key.id), today)


def test_the_baseline_is_that_of_the_seven_days_before_today(file):
    record(file, TODAY - timedelta(8), 500, ttft_s=9.0)
    record(file, TODAY - timedelta(3), 40)
    record(file, TODAY - timedelta(1), 40, cached=20)
    record(file, TODAY, 500, ttft_s=9.0, cached=0)

    found = baseline(file)

    assert 0.1 < found.ttft_p95_s <= 0.25
    assert 0.01 < found.tpot_p95_s <= 0.02
    assert found.hit_rate == pytest.approx(0.5)
    assert "80 replies" in found.words and "small on cpu (float32)" in found.words


def test_with_too_few_replies_there_is_none_and_it_says_how_many_are_missing(file):
    record(file, TODAY - timedelta(1), LEAST_REPLIES - 1)

    found = baseline(file)

    assert (found.ttft_p95_s, found.tpot_p95_s, found.hit_rate) == (None, None, None)
    assert f"{LEAST_REPLIES - 1} replies" in found.words and str(LEAST_REPLIES) in found.words
    assert found.words.startswith("No baseline yet")
    record(file, TODAY - timedelta(1), 1)
    assert baseline(file).ttft_p95_s is not None


def test_another_model_or_configuration_has_a_baseline_of_its_own(file):
    record(file, TODAY - timedelta(1), 100)
    others = [
        baseline_key({**INFO, "fingerprint": "f2"}, Settings()),
        baseline_key({**INFO, "kernels": "reference"}, Settings()),
        baseline_key(INFO, Settings(block_size=32)),
        baseline_key(INFO, Settings(enable_prefix_caching=False)),
    ]

    assert len({KEY.id, *(key.id for key in others)}) == 5
    assert baseline(file).ttft_p95_s is not None
    assert [baseline(file, key=key).ttft_p95_s for key in others] == [None] * 4
    assert baseline_key({**INFO, "num_blocks": 77}, Settings(port=1)).id == KEY.id


def test_a_kept_bench_run_counts_first_for_a_week_then_only_where_days_are_few(file, folders):
    save_bench_baseline(folders, KEY, 0.7, 0.05, 0.9, TODAY)
    assert baseline(file).ttft_p95_s == 0.7
    assert "bench serve" in baseline(file).words and "only" not in baseline(file).words
    save_bench_baseline(folders, KEY, 0.7, 0.05, 0.9, TODAY, replies=9, busy=True)
    assert "(only 9 replies, 50 are better; on a busy computer)" in baseline(file).words

    later = TODAY + timedelta(30)
    assert baseline(file, later).tpot_p95_s == 0.05
    record(file, later - timedelta(2), 100)
    assert baseline(file, later).ttft_p95_s < 0.3
    save_bench_baseline(folders, KEY, float("nan"), 0.05, None, later)
    assert (baseline(file, later).ttft_p95_s, baseline(file, later).hit_rate) == (None, None)


def test_only_what_was_added_is_recorded_also_when_the_engine_begins_anew(file):
    engine, recorder = WatchedEngine(), BaselineRecorder(file)
    day = TODAY - timedelta(1)
    for _ in range(30):
        engine.reply()
    recorder.take(engine.metrics(), None, day)  # no model is known yet: nobody's
    for _ in range(30):
        engine.reply()
        recorder.take(engine.metrics(), KEY, day)
    recorder.write(day)
    engine.begin_anew()
    for _ in range(10):
        engine.reply()
    recorder.take(engine.metrics(), KEY, day)
    recorder.take(engine.metrics(), KEY, day)
    recorder.write(day)

    kept = file.read()[KEY.id].days[day]

    assert sum(kept.counts["ttft"]) == sum(kept.counts["tpot"]) == 40
    assert (kept.queries, kept.hits) == (4000, 3200)


def test_what_could_not_be_written_is_written_the_next_time(file, monkeypatch):
    engine, recorder = WatchedEngine(), BaselineRecorder(file)
    engine.reply()
    recorder.take(engine.metrics(), KEY, TODAY)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(BaselineFile, "_write", full)
        with pytest.raises(PagedChatError, match="no space left"):
            recorder.write(TODAY)
    engine.reply()
    recorder.take(engine.metrics(), KEY, TODAY)
    recorder.write(TODAY)

    assert sum(file.read()[KEY.id].days[TODAY].counts["ttft"]) == 2


@pytest.mark.parametrize("harm", ["", "{", "[]", '{"version": 9}', "half", "counts", "negative", "bytes"])
def test_a_damaged_file_is_set_aside_and_said_and_nothing_fails(harm, file, folders, caplog):
    record(file, TODAY - timedelta(1), 100)
    text = file.path.read_text()
    whole = json.loads(text)
    day = whole["records"][KEY.id]["days"][str(TODAY - timedelta(1))]
    if harm == "counts":
        day["counts"]["ttft"].pop()
    day["hits"] = -1 if harm == "negative" else day["hits"]
    spoilt = {"half": text[: len(text) // 2].encode(), "bytes": b"\xff\xfe\x00", "counts": json.dumps(whole).encode()}
    file.path.write_bytes(spoilt.get(harm, json.dumps(whole).encode() if harm == "negative" else harm.encode()))

    with caplog.at_level(logging.WARNING):
        assert file.read() == {}

    assert "baseline.json.damaged" in caplog.text
    assert (folders.state / "baseline.json.damaged").exists() and not file.path.exists()
    record(file, TODAY - timedelta(1), 100)
    assert baseline(file).ttft_p95_s is not None


def test_the_file_stays_small(file, folders):
    for number in range(60):
        record(file, TODAY - timedelta(60 - number), 1)
    assert len(file.read()[KEY.id].days) == 8
    for number in range(MOST_RECORDS + 8):
        other = replace(KEY, fingerprint=str(number))
        save_bench_baseline(folders, other, 0.1, 0.1, 0.1, TODAY + timedelta(number))
    kept = file.read()
    assert len(kept) == MOST_RECORDS
    assert "39" in {one.key.fingerprint for one in kept.values()}
    assert file.path.stat().st_size < 100_000
    assert {path.name for path in folders.state.iterdir()} <= {"baseline.json", "baseline.lock"}
