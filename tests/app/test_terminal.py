from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pagedchat.app import engine_start
from pagedchat.app.engine_start import EngineStart
from pagedchat.app.model_fetch import FetchProgress
from pagedchat.app.model_store import ModelStore
from pagedchat.app.settings import Settings
from pagedchat.app.terminal import fetch_display, local_time
from support.fake_client import FakeEngineClient

LOADING, KERNELS = "The model is being loaded.", "The compiled kernels are ready."


class SlowStart(FakeEngineClient):
    """Loads until told that it is ready; its kernels are compiled until told that they are."""

    async def start(self, config: object) -> None:
        self.set_status("loading", None, "Loading the model.")


def client(**info: object) -> SlowStart:
    return SlowStart(ready=False, info=info)


async def start(engine: SlowStart, models: Path) -> tuple[EngineStart, asyncio.Task[None]]:
    begun = EngineStart(engine, Settings(), ModelStore(models), models / "x.gguf")  # type: ignore[arg-type]
    task = asyncio.create_task(begun.run())
    await asyncio.sleep(0.02)
    return begun, task


def test_the_terminal_says_that_the_model_is_being_loaded_and_then_what_runs(tmp_path, capsys):
    async def scene() -> None:
        engine = client(kv_bytes=256 << 20)
        begun, task = await start(engine, tmp_path)
        assert capsys.readouterr().out == "", "nobody waits before the page is there"
        begun.page_is_up()
        assert capsys.readouterr().out.splitlines() == [LOADING]
        engine.set_status("ready")
        await task

    asyncio.run(scene())
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("fake-model on cpu (float32, reference kernels)")
    assert line.endswith("tokens, 256 MiB")


def test_a_model_that_was_ready_before_the_page_is_not_said_to_be_loading(tmp_path, capsys):
    async def scene() -> None:
        engine = client()
        begun, task = await start(engine, tmp_path)
        engine.set_status("ready")
        await task
        begun.page_is_up()

    asyncio.run(scene())
    assert LOADING not in capsys.readouterr().out


@pytest.mark.parametrize(("then", "said"), [("numba", KERNELS), ("reference", "")])
def test_the_terminal_says_when_compiled_kernels_take_over(tmp_path, capsys, monkeypatch, then, said):
    monkeypatch.setattr(engine_start, "KERNELS_PAUSE_S", 0.01)

    async def scene() -> None:
        engine = client(compiling=True)
        _, task = await start(engine, tmp_path)
        engine.set_status("ready")
        await asyncio.sleep(0.05)
        told = capsys.readouterr().out
        assert KERNELS not in told
        assert "until they are ready, replies are slow" in told
        assert not task.done()
        engine._info.update(compiling=False, kernels=then, reason="why not")
        await asyncio.wait_for(task, 60)

    asyncio.run(scene())
    told = capsys.readouterr()
    assert told.out.strip() == said
    assert ("why not" in told.err) == (not said)


def test_a_step_without_a_known_size_shows_neither_bytes_nor_speed(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with fetch_display() as show:
        show(FetchProgress("Fetching Tiny", 40_000_000, 92_900_000))
        time.sleep(0.25)
        show(FetchProgress("Checking Tiny"))
        time.sleep(0.25)
    before, _, after = capsys.readouterr().err.partition("Checking Tiny")
    assert "38.1/88.6 MiB" in before
    assert "MiB" not in after
    assert "bytes" not in after
    assert "Checking Tiny" in after, "more than one frame was drawn"


def test_times_are_local_and_say_of_which_zone(monkeypatch):
    if not hasattr(time, "tzset"):
        pytest.skip("the zone cannot be set here")
    monkeypatch.setenv("TZ", "XYZ-3")
    time.tzset()
    try:
        told = [local_time(one) for one in ("2026-05-20T22:30:00+00:00", datetime(2026, 5, 20, 22, 30, tzinfo=UTC))]
        assert told == ["2026-05-21 01:30 XYZ"] * 2
        assert local_time(0) == "1970-01-01 03:00 XYZ"
        assert local_time("no time") == "no time"
    finally:
        monkeypatch.undo()
        time.tzset()
