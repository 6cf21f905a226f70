"""The engine process from birth to death: loading, failing, restarting, closing, and what outlives what."""

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

from pagedchat.engine.client import EngineClient
from pagedchat.engine.config import EngineConfig
from pagedchat.engine.errors import EngineError
from pagedchat.engine.types import RequestOutput
from support.engine_process import TESTS_FOLDER, answer, asked, running_client, scripted_client, text_of, until

PARENT = """
import asyncio, sys
from support.engine_process import asked, running_client

async def main():
    async with running_client("slow") as client:
        replies = client.generate(asked("long"))
        await anext(replies)
        print(client.engine_pid, flush=True)
        async for _ in replies:
            pass

asyncio.run(main())
"""


def test_the_status_goes_from_starting_to_ready_and_carries_the_engines_facts() -> None:
    async def test() -> None:
        client = scripted_client()
        states: list[str] = []
        client.watch_status(lambda status: states.append(status.state))
        assert client.status.state == "starting"
        client.set_fetching(0.4, "Fetching the model.")
        assert (client.status.state, client.status.progress) == ("fetching", 0.4)
        await client.start(EngineConfig("good"))
        await client.wait_ready()
        assert client.status.info["block_size"] == 16
        await client.close()
        assert [state for index, state in enumerate(states) if index == 0 or states[index - 1] != state] == [
            "fetching",
            "loading",
            "ready",
            "starting",
        ]

    asyncio.run(test())


def test_requests_sent_while_loading_are_answered_once_it_is_ready() -> None:
    async def test() -> None:
        client = scripted_client()
        early = asyncio.create_task(answer(client, asked("early")))
        await asyncio.sleep(0.01)
        await client.start(EngineConfig("good"))
        loading = asyncio.create_task(answer(client, asked("loading")))
        assert [text_of((await one)[1]) for one in (early, loading)] == ["EARLY", "LOADING"]
        await client.close()

    asyncio.run(test())


def test_a_request_cancelled_while_it_waits_for_the_engine_ends_with_abort() -> None:
    async def test() -> None:
        client = scripted_client()
        request = asked("early")
        task = asyncio.create_task(anext(client.generate(request)))
        await asyncio.sleep(0.01)
        await client.cancel(request.request_id)
        output = await task
        assert isinstance(output, RequestOutput)
        assert output.finish_reason == "abort"

    asyncio.run(test())


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("missing", "The model file missing does not exist."),
        ("broken", "internal error"),
        ("large", "Memory ran out while the model was loaded. Close other"),
        ("dies while loading", "3 times in a row"),
    ],
)
def test_an_engine_that_cannot_start_says_why_and_waiting_requests_hear_it(model: str, sentence: str) -> None:
    async def test() -> None:
        client = scripted_client()
        waiting = asyncio.create_task(answer(client, asked("x")))
        await asyncio.sleep(0.01)
        await client.start(EngineConfig(model))
        with pytest.raises(EngineError, match=sentence):
            await client.wait_ready()
        assert "secret" not in client.status.message
        with pytest.raises(EngineError, match=sentence):
            await waiting
        with pytest.raises(EngineError, match=sentence):
            await answer(client, asked("x"))
        with pytest.raises(EngineError):
            await client.snapshot()
        await client.start(EngineConfig("good"))
        assert text_of((await answer(client, asked("now")))[1]) == "NOW"
        await client.close()

    asyncio.run(test())


def test_a_killed_engine_ends_its_replies_with_a_reason_and_comes_back() -> None:
    async def test() -> None:
        async with running_client() as client:
            states: list[str] = []
            client.watch_status(lambda status: states.append(status.state))
            batches: list[list[dict]] = []
            await answer(client, asked("before"))
            newest = (await client.snapshot())["seq"]
            client.watch_events(batches.append)
            _, outputs = await answer(client, asked("crash"))
            assert text_of(outputs) == "CR"
            assert outputs[-1].finish_reason == "error"
            assert "killed" in (outputs[-1].error or "")
            _, outputs = await answer(client, asked("after"))
            assert text_of(outputs) == "AFTER"
            assert "restarting" in states
            assert states[-1] == "ready"
            events = [event for batch in batches for event in batch]
            assert "reset" in [event["type"] for event in events]
            numbers = [event["seq"] for event in events]
            assert numbers == sorted(set(numbers))
            assert await client.events_since(newest) is None

    asyncio.run(test())


def test_a_prompt_that_the_engine_never_took_raises_when_it_dies() -> None:
    async def test() -> None:
        async with running_client() as client:
            assert client.engine_pid is not None
            os.kill(client.engine_pid, signal.SIGSTOP)
            waiting = asyncio.create_task(answer(client, asked("x")))
            await asyncio.sleep(0.05)
            os.kill(client.engine_pid, signal.SIGKILL)
            with pytest.raises(EngineError, match="killed"):
                await waiting

    asyncio.run(test())


def test_an_engine_that_fails_step_after_step_is_started_anew() -> None:
    async def test() -> None:
        async with running_client() as client:
            for _ in range(3):
                _, outputs = await answer(client, asked("raise always"))
                assert outputs[-1].finish_reason == "error"
            await until(lambda: client.status.state != "ready")
            _, outputs = await answer(client, asked("fine"))
            assert text_of(outputs) == "FINE"

    asyncio.run(test())


def test_close_ends_replies_with_abort_and_the_process_within_two_seconds() -> None:
    async def test() -> None:
        async with running_client("slow") as client:
            pid = client.engine_pid
            assert pid is not None
            reply = asyncio.create_task(answer(client, asked("long")))
            await asyncio.sleep(0.1)
            begun = time.monotonic()
            await client.close()
            assert time.monotonic() - begun < 2
            assert (await reply)[1][-1].finish_reason == "abort"
            assert not psutil.pid_exists(pid)
            assert client.engine_pid is None

    asyncio.run(test())


def test_a_stopped_process_is_killed_on_close() -> None:
    async def test() -> None:
        async with running_client() as client:
            pid = client.engine_pid
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            begun = time.monotonic()
            await client.close()
            assert time.monotonic() - begun < 4
            assert not psutil.pid_exists(pid)

    asyncio.run(test())


def test_starting_another_model_closes_the_first_process() -> None:
    async def test() -> None:
        async with running_client() as client:
            first = client.engine_pid
            assert first is not None
            await client.start(EngineConfig("slow"))
            await client.wait_ready()
            assert client.status.info["model"] == "slow"
            assert not psutil.pid_exists(first)

    asyncio.run(test())


def test_closing_while_it_starts_leaves_no_process_behind() -> None:
    async def test() -> None:
        client: EngineClient = scripted_client()
        start = asyncio.create_task(client.start(EngineConfig("good")))
        await asyncio.sleep(0)
        await client.close()
        await start
        await until(lambda: not psutil.Process().children())
        assert client.engine_pid is None

    asyncio.run(test())


def test_ctrl_c_does_not_reach_the_engine() -> None:
    async def test() -> None:
        async with running_client() as client:
            assert client.engine_pid is not None
            for number in (signal.SIGINT, signal.SIGHUP):
                os.kill(client.engine_pid, number)
            _, outputs = await answer(client, asked("still here"))
            assert text_of(outputs) == "STILL HERE"

    asyncio.run(test())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_engine_ends_with_its_parent_however_that_died(number: signal.Signals) -> None:
    env = {**os.environ, "PYTHONPATH": TESTS_FOLDER}
    with subprocess.Popen([sys.executable, "-c", PARENT], env=env, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert psutil.pid_exists(pid)
        parent.send_signal(number)
        parent.wait(5)
        deadline = time.monotonic() + 2
        while _alive(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not _alive(pid)


def test_an_idle_engine_uses_no_processor_time() -> None:
    async def test() -> None:
        async with running_client() as client:
            await answer(client, asked("warm"))
            process = psutil.Process(client.engine_pid)
            before = process.cpu_times()
            await asyncio.sleep(1)
            after = process.cpu_times()
            assert after.user + after.system - before.user - before.system <= 0.01

    asyncio.run(test())


def test_what_the_engine_prints_goes_to_the_log_and_of_errors_their_place_but_not_their_words(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "logs" / "engine.log"
        async with running_client(log_path=path) as client:
            await answer(client, asked("raise"))
        log = path.read_text()
        assert "Printing while loading must not break the lines." in log
        assert "scripted_engine.py" in log and "\nValueError\n" in log
        assert "a secret detail" not in log.replace('raise ValueError("a secret detail")', "")

    asyncio.run(test())


def test_the_client_loads_no_model_code() -> None:
    code = (
        "import sys, pagedchat.engine.client; "
        "print([one for one in ('torch', 'tokenizers', 'transformers', 'gradio', 'numba') if one in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def _alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
