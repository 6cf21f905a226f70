"""The watch of a running server: it samples, judges and tells, and nothing that fails ends it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from pagedchat.app.folders import Folders, find_folders
from pagedchat.app.settings import Settings
from pagedchat.app.watch.baseline import baseline_key
from pagedchat.app.watch.baseline_file import BaselineFile, save_bench_baseline
from pagedchat.app.watch.commands import list_alerts, render
from pagedchat.app.watch.sampler import KEPT_S, AlertWatch
from pagedchat.engine.errors import EngineError, PagedChatError
from support.fake_client import INFO, FakeEngineClient
from support.watched_engine import WatchedEngine

DAY = date(2026, 5, 20)


class Watched:
    """A watch over a pretended engine, on a clock of its own."""

    def __init__(self, folders: Folders, settings: Settings | None = None) -> None:
        self.engine = WatchedEngine()
        self.client: Any = FakeEngineClient()
        self.client.metrics = self._metrics
        self.failure: BaseException | None = None
        self.time, self.day = 1000.0, DAY
        self.watch = AlertWatch(
            self.client, settings or Settings(), folders, now=lambda: self.time, today=lambda: self.day
        )
        self.told: list[dict[str, str]] = []
        self.watch.watch(lambda: self.told.append(self.states()))

    async def _metrics(self) -> dict[str, Any]:
        if self.failure is not None:
            raise self.failure
        return self.engine.metrics()

    async def minutes(self, number: float) -> None:
        for _ in range(round(number * 4)):
            self.time += 15.0
            await self.watch.sample()

    def states(self) -> dict[str, str]:
        return {alert["name"]: alert["state"] for alert in self.watch.view()["alerts"]}

    def alert(self, name: str) -> dict[str, Any]:
        return next(alert for alert in self.watch.view()["alerts"] if alert["name"] == name)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return find_folders(tmp_path)


def test_a_full_pool_is_watched_then_told_then_forgotten(folders):
    watched = Watched(folders)

    async def story():
        await watched.minutes(1)
        quiet = len(watched.told)
        watched.engine.usage = 0.97
        await watched.minutes(1)
        assert watched.alert("HighKVCacheUsage")["state"] == "pending"
        await watched.minutes(5)
        alert = watched.alert("HighKVCacheUsage")
        assert alert["state"] == "firing" and "97 %" in alert["sentence"] and "90 %" in alert["sentence"]
        changes = len(watched.told)
        assert changes == quiet + 2, "what stays the same is not told again"
        watched.engine.usage = 0.2
        await watched.minutes(1)
        assert watched.alert("HighKVCacheUsage")["state"] == "inactive"
        assert len(watched.told) == changes + 1

    asyncio.run(story())


def test_failures_of_a_scrape_are_gaps_and_end_nothing(folders):
    watched = Watched(folders)

    async def story():
        watched.engine.usage = 0.97
        await watched.minutes(6)
        assert watched.alert("HighKVCacheUsage")["state"] == "firing"
        for failure in (EngineError("gone"), ValueError("a fault"), KeyError("x")):
            watched.failure = failure
            await watched.minutes(0.25)
            assert watched.alert("HighKVCacheUsage")["state"] == "inactive"
        watched.failure = None
        await watched.minutes(0.25)
        assert watched.alert("HighKVCacheUsage")["state"] == "pending"

    asyncio.run(story())


def test_before_the_first_scrape_nothing_is_said_to_be_well(folders):
    watched = Watched(folders)
    assert watched.states()["PrefixCacheHitDrop"] == "no baseline"
    assert watched.alert("HighKVCacheUsage")["sentence"] == "Too little was seen to judge."


def test_what_happened_before_the_first_scrape_is_told(folders):
    watched = Watched(folders)
    watched.engine.oom = {"step": 0, "load": 1}
    asyncio.run(watched.minutes(0.25))
    assert watched.states()["OutOfMemory"] == "firing"
    assert watched.states()["EngineRestarted"] == "inactive"


def test_an_hour_is_kept_and_no_more(folders):
    watched = Watched(folders)
    asyncio.run(watched.minutes(90))
    assert len(watched.watch._samples) == KEPT_S / 15 + 1


def test_a_slow_hour_is_told_against_the_baseline_of_the_days_before(folders):
    watched = Watched(folders)

    async def talk(minutes: int, ttft_s: float) -> None:
        for _ in range(minutes * 2):
            watched.engine.reply(ttft_s=ttft_s)
            await watched.minutes(0.5)

    async def story():
        await talk(40, 0.2)
        await watched.watch.write()
        assert watched.alert("TTFTRegression")["state"] == "no baseline"
        watched.day = date(2026, 5, 21)
        await talk(35, 0.2)
        alert = watched.alert("TTFTRegression")
        assert alert["state"] == "inactive" and alert["baseline"] == pytest.approx(0.2425)
        assert alert["threshold"] == pytest.approx(1.3 * 0.2425)
        assert "80 replies" in watched.watch.view()["baseline"]["words"]
        await talk(30, 0.9)
        assert watched.states()["TTFTRegression"] == "firing"
        assert watched.states()["TPOTRegression"] == "inactive"

    asyncio.run(story())


def test_the_run_writes_what_it_measured_when_it_is_ended_and_a_damaged_file_does_not_end_it(folders):
    folders.state.mkdir(parents=True)
    (folders.state / "baseline.json").write_text("{nonsense")
    watched = Watched(folders)
    watched.engine.reply()

    async def story():
        running = asyncio.create_task(watched.watch.run())
        await asyncio.sleep(0.2)
        running.cancel()
        await asyncio.wait({running})

    asyncio.run(story())
    (record,) = BaselineFile(folders.state).read().values()
    assert record.key.model == INFO["model"]
    assert sum(record.days[DAY].counts["ttft"]) == 1


def test_a_baseline_that_a_command_kept_counts_from_the_next_scrape_on(folders):
    watched = Watched(folders)

    async def story():
        await watched.minutes(0.25)
        assert watched.states()["TTFTRegression"] == "no baseline"
        save_bench_baseline(folders, baseline_key(INFO, Settings()), 0.5, 0.02, 0.8, DAY)
        await watched.minutes(0.25)
        assert watched.states()["TTFTRegression"] == "inactive"
        (folders.state / "baseline.json").unlink()
        await watched.minutes(0.25)
        assert watched.states()["TTFTRegression"] == "no baseline"

    asyncio.run(story())


def test_an_engine_that_becomes_ready_is_scraped_at_once(folders):
    save_bench_baseline(folders, baseline_key(INFO, Settings()), 0.5, 0.02, 0.8, DAY)
    watched = Watched(folders)
    info, watched.client._info = watched.client._info, {}
    watched.client.set_status("loading")

    async def story():
        running = asyncio.create_task(watched.watch.run())
        await asyncio.sleep(0.1)
        assert "no model runs" in watched.watch.view()["baseline"]["words"]
        watched.time += 1.0
        watched.client._info = info
        watched.client.set_status("ready")
        await asyncio.sleep(0.1)
        assert "bench serve" in watched.watch.view()["baseline"]["words"]
        running.cancel()
        await asyncio.wait({running})

    asyncio.run(story())


def pagedchat(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "pagedchat", *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60)


def test_the_commands_ask_the_server_of_the_data_folder(start_app, tmp_path, capsys):
    (tmp_path / "good.gguf").write_bytes(b"GGUF")
    app = start_app("--models-dir", str(tmp_path), "--model", "good", scripted=True)
    app.wait_engine()
    status, answer = app.get_json("/api/alerts")
    assert status == 200 and len(answer["alerts"]) == 7

    list_alerts(app.data_dir, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in told["alerts"]] == [one["name"] for one in answer["alerts"]]
    list_alerts(app.data_dir)
    listed = capsys.readouterr().out
    assert listed.count("\n") == 8 and "no baseline  warning   TTFTRegression" in listed
    assert "inactive     critical  OutOfMemory" in listed

    key = baseline_key(app.get_json("/health")[1], Settings())
    assert key.id == answer["baseline"]["key"]["id"]
    save_bench_baseline(find_folders(app.data_dir), key, 0.5, 0.02, 0.8)
    output = tmp_path / "rules.yml"
    render(output, app.data_dir)
    assert capsys.readouterr().out == f"{output}\n"
    rules = {rule["alert"]: rule for rule in yaml.safe_load(output.read_text())["groups"][0]["rules"]}
    assert len(rules) == 7 and "> 0.65" in rules["TTFTRegression"]["expr"]

    assert app.stop()[0] == 0
    ended = pagedchat("alerts", "list", "--data-dir", str(app.data_dir))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("pagedchat: No pagedchat runs on the data folder")
    render(data_dir=app.data_dir)
    assert capsys.readouterr().out == output.read_text()


def test_rules_that_cannot_be_written_are_said_in_a_sentence_and_leave_nothing(tmp_path):
    (tmp_path / "file").touch()
    for output in (tmp_path / "file" / "x", tmp_path / "missing" / "x", tmp_path / ("x" * 255), tmp_path):
        with pytest.raises(PagedChatError, match=r"cannot be written .*; name another --output"):
            render(output, tmp_path / "data")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
