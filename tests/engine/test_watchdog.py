"""An engine process that hangs is ended and started again; one that is slow, idle or asleep is left alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pagedchat.engine import watchdog
from pagedchat.engine.config import EngineConfig
from pagedchat.engine.errors import ConfigError, EngineError
from pagedchat.engine.step_allowance import StepAllowance
from pagedchat.engine.watchdog import Watchdog
from support.engine_process import answer, asked, running_client, text_of, until

SOON = {"hang_timeout_s": 0.5}


@pytest.mark.parametrize("prompt", ["hang", "spin"])
def test_an_engine_that_hangs_in_a_step_is_ended_and_comes_back(prompt: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with asyncio.timeout(30), running_client("slow", config=SOON, log_path=tmp_path / "log") as client:
            first = client.engine_pid
            assert first is not None
            await answer(client, asked("before"))
            neighbour = asyncio.create_task(answer(client, asked("long")))
            await asyncio.sleep(0.1)
            begun = time.monotonic()
            _, outputs = await answer(client, asked(prompt))
            assert time.monotonic() - begun < 4
            assert text_of(outputs) == prompt[:2].upper()
            assert outputs[-1].finish_reason == "error"
            assert "made no progress for" in (outputs[-1].error or "")
            assert (await neighbour)[1][-1].finish_reason == "error"
            _, outputs = await answer(client, asked("after"))
            assert text_of(outputs) == "AFTER"
            assert client.engine_pid != first
            assert not psutil.pid_exists(first)
        log = (tmp_path / "log").read_text()
        assert "in _advance" in log and "Current thread" in log

    asyncio.run(test())


def test_a_stopped_process_that_owes_an_answer_is_ended_too() -> None:
    async def test() -> None:
        async with asyncio.timeout(30), running_client(config=SOON) as client:
            assert client.engine_pid is not None
            os.kill(client.engine_pid, signal.SIGSTOP)
            with pytest.raises(EngineError, match="made no progress"):
                await client.stats()
            await until(lambda: client.status.state == "ready")
            assert text_of((await answer(client, asked("after")))[1]) == "AFTER"

    asyncio.run(test())


def test_an_idle_engine_is_left_alone_also_when_an_answer_is_not_fetched() -> None:
    async def test() -> None:
        async with asyncio.timeout(30), running_client(config=SOON) as client:
            first = client.engine_pid
            unread = client.generate(asked("a reply that nobody reads to its end"))
            await anext(unread)
            await asyncio.sleep(1.5)
            assert client.engine_pid == first and client.status.state == "ready"
            await unread.aclose()

    asyncio.run(test())


def test_a_slow_engine_is_left_alone() -> None:
    async def test() -> None:
        async with asyncio.timeout(30), running_client("slow", config={"hang_timeout_s": 0.2}) as client:
            first = client.engine_pid
            _, outputs = await answer(client, asked("x" * 60))
            assert outputs[-1].finish_reason == "stop" and client.engine_pid == first

    asyncio.run(test())


def test_memory_that_runs_out_in_a_step_ends_its_requests_and_not_the_engine() -> None:
    async def test() -> None:
        async with asyncio.timeout(30), running_client() as client:
            first = client.engine_pid
            _, outputs = await answer(client, asked("memory"))
            assert outputs[-1].finish_reason == "error"
            assert (outputs[-1].error or "").startswith("Memory ran out in this step")
            assert text_of((await answer(client, asked("after")))[1]) == "AFTER"
            assert client.engine_pid == first

    asyncio.run(test())


def test_a_model_switch_ends_the_old_process_before_the_new_one_exists() -> None:
    async def test() -> None:
        async with asyncio.timeout(30), running_client() as client:
            old = client.engine_pid
            assert old is not None
            seen: list[tuple[str, bool]] = []
            client.watch_status(lambda status: seen.append((status.state, psutil.pid_exists(old))))
            await client.start(EngineConfig("slow"))
            await client.wait_ready()
            assert client.engine_pid not in (None, old)
            assert seen and not any(alive for state, alive in seen if state in ("loading", "ready"))

    asyncio.run(test())


# The watchdog alone


async def _hangs(dog_timeout: float, seconds: float, allowance: float = 0.0, heard_every: float | None = None) -> bool:
    found: list[float] = []
    dog = Watchdog(dog_timeout, lambda: True, found.append)
    dog.asked()
    dog.heard(allowance)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(heard_every or seconds)
        if heard_every:
            dog.heard()
    dog.close()
    return bool(found)


def test_only_silence_beyond_the_allowance_counts() -> None:
    assert asyncio.run(_hangs(0.1, 0.5))
    assert not asyncio.run(_hangs(0.1, 0.5, allowance=1.0))
    assert not asyncio.run(_hangs(0.2, 0.6, heard_every=0.05))
    assert not asyncio.run(_hangs(0.0, 0.3))


def test_time_in_which_the_machine_slept_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        slept = 0.0

        @classmethod
        def monotonic(cls) -> float:
            return time.monotonic() + cls.slept

    async def test() -> list[float]:
        found: list[float] = []
        monkeypatch.setattr(watchdog, "time", Clock)
        dog = Watchdog(1.0, lambda: True, found.append)
        dog.asked()
        await asyncio.sleep(0.2)
        Clock.slept = 8 * 3600
        await asyncio.sleep(0.3)
        dog.close()
        return found

    assert asyncio.run(test()) == []


def test_the_parents_own_pauses_do_not_count() -> None:
    async def test() -> list[float]:
        found: list[float] = []
        dog = Watchdog(0.5, lambda: True, found.append)
        dog.asked()
        await asyncio.sleep(0.06)
        time.sleep(1)
        await asyncio.sleep(0.1)
        dog.close()
        return found

    assert asyncio.run(test()) == []


def test_first_steps_and_large_ones_are_given_more_time() -> None:
    allowance = StepAllowance(60.0)
    assert [allowance.begin(1) for _ in range(4)] == [540.0, 540.0, 540.0, None]
    assert allowance.begin(512) == 256.0
    time.sleep(0.05)
    allowance.end()
    measured = allowance.begin(512)
    assert measured is not None and 0.4 <= measured < 4


def test_steps_of_few_tokens_bound_one_of_many() -> None:
    allowance = StepAllowance(3.0)
    for _ in range(4):
        allowance.begin(1)
        time.sleep(0.01)
        allowance.end()
    unmeasured = allowance.begin(512)
    assert unmeasured is not None and 512 * 0.02 <= unmeasured < 100


def test_a_log_on_a_full_disk_loses_what_is_printed_and_nothing_else(tmp_path: Path) -> None:
    script = (
        "import sys, traceback\n"
        "from pagedchat.engine.worker import Unfailing\n"
        "full = open('/dev/full', 'w')\n"
        "try:\n"
        "    print('x' * 100_000, file=full, flush=True)\n"
        "    raise SystemExit('this disk is not full')\n"
        "except OSError as error:\n"
        "    log = Unfailing(full)\n"
        "    print('x' * 100_000, file=log, flush=True)\n"
        "    traceback.print_exception(error, file=log)\n"
        "print('goes on', file=Unfailing(sys.stdout), flush=True)\n"
        "import os; os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "goes on\n"


def test_a_timeout_without_meaning_is_refused() -> None:
    with pytest.raises(ConfigError, match="hang-timeout-s"):
        EngineConfig("m", hang_timeout_s=-1)
    with pytest.raises(ConfigError, match="context-policy"):
        EngineConfig("m", context_policy="forget")
