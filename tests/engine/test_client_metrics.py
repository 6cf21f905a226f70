"""Metrics as the client tells them: fresh or the last known, and totals that never go back."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import pytest

from pagedchat.engine import supervisor
from pagedchat.engine.client import EngineClient
from pagedchat.engine.client_metrics import ClientMetrics
from pagedchat.engine.config import EngineConfig
from pagedchat.engine.errors import EngineError, RequestError
from pagedchat.engine.generate_request import OWN_WORK
from pagedchat.engine.metric_catalogue import METRICS
from support.engine_process import answer, asked, running_client, scripted_client, until, with_client
from support.paged_model import make_engine, prompt_of, run


def ran(length: int, seed: int = 0) -> dict[str, Any]:
    """Metrics of an engine that served one prompt of so many tokens."""
    engine = make_engine()
    run(engine, {"a": prompt_of(length, seed)}, 4)
    return engine.metrics()


def totals(metrics: dict[str, Any]) -> list[float]:
    """All that must never fall."""
    found: list[float] = []
    for value in metrics["counters"].values():
        found += value.values() if isinstance(value, dict) else [value]
    for value in metrics["histograms"].values():
        found += [*value["counts"], value["sum"]]
    return found


def never_fall(seen: list[dict[str, Any]]) -> bool:
    """Whether no total of any of these moments is below what it was before."""
    columns = zip(*map(totals, seen), strict=True)
    return all(list(column) == sorted(column) for column in columns)


def errors_of(metrics: dict[str, Any]) -> dict[str, int]:
    return {reason: count for reason, count in metrics["counters"]["request_errors_total"].items() if count}


def test_totals_of_engines_add_up_and_gauges_are_the_running_ones():
    told, first, second = ClientMetrics(), ran(10), ran(7)
    told.heard(first)
    seen = [told.told(True, 0)]
    told.engine_gone()
    seen.append(told.told(False, 2))
    told.heard(second)
    seen.append(told.told(True, 0))
    assert [one["counters"]["prompt_tokens_total"] for one in seen] == [10, 10, 17]
    assert [sum(one["histograms"]["request_prompt_tokens"]["counts"]) for one in seen] == [1, 1, 2]
    assert seen[2]["counters"]["request_success_total"] == {"stop": 0, "length": 2, "abort": 0}
    assert never_fall(seen)
    assert [one["gauges"]["engine_up"] for one in seen] == [1, 0, 1]
    assert [one["gauges"]["kv_blocks"]["cached"] > 0 for one in seen] == [True, False, True]
    assert seen[1]["gauges"]["num_requests_waiting"] == 2
    assert seen[1]["gauges"]["num_requests_waiting_by_reason"]["engine"] == 2
    assert seen[1]["info"] == first["info"]
    told.engine_gone()
    told.engine_gone()
    assert told.told(False, 0)["counters"]["prompt_tokens_total"] == 17


def test_what_an_engine_held_when_it_died_counts_as_released():
    told, engine = ClientMetrics(), ran(10)
    engine["counters"]["kv_blocks_released_total"] -= 2
    told.heard(engine)
    told.engine_gone()
    told.heard(ran(7))
    counters = told.told(True, 0)["counters"]
    assert counters["kv_blocks_allocated_total"] == counters["kv_blocks_released_total"] > 0


def test_every_metric_is_told_before_there_is_an_engine_and_with_all_its_labels():
    metrics = ClientMetrics().told(False, 0)
    for name, metric in METRICS.items():
        value = metrics[f"{metric.kind}s"][name]
        if metric.label:
            assert set(value) == set(metric.values)
    told = ClientMetrics()
    told.heard(ran(5))
    assert set(told.told(True, 0)["counters"]["oom_total"]) == {"step", "load", "killed"}


def test_refusals_are_counted_by_what_they_blame():
    told = ClientMetrics()
    told.note_refusal(RequestError("too long"))
    told.note_refusal(EngineError("1,000 requests are waiting already"))
    told.note_refusal(EngineError("an internal error"), of_ours=False)
    assert errors_of(told.told(True, 0)) == {"refused": 1, "queue_full": 1, "internal": 1}


def test_the_programs_own_requests_are_neither_counted_nor_told_to_who_watches_replies() -> None:
    async def test(client: EngineClient) -> None:
        ends: list[Any] = []
        client.watch_ends(ends.append)
        with pytest.raises(RequestError):
            await answer(client, asked("refuse", request_id=f"{OWN_WORK}a"))
        await answer(client, asked("hello", request_id=f"{OWN_WORK}b"))
        assert ends == [] and errors_of(await client.metrics()) == {}
        await answer(client, asked("hello"))
        assert len(ends) == 1

    with_client(test)


def test_a_running_engine_tells_its_own_and_refusals_are_counted_beside_them() -> None:
    async def test(client: EngineClient) -> None:
        await answer(client, asked("hello"))
        for prompt in ("refuse", "half \ud83d"):
            with pytest.raises(RequestError):
                await answer(client, asked(prompt))
        with pytest.raises(EngineError):
            await answer(client, asked("internal"))
        await answer(client, asked("raise"))
        await answer(client, asked("memory"))
        metrics = await client.metrics()
        assert metrics["gauges"]["engine_up"] == 1
        assert metrics["counters"]["request_success_total"] == {"stop": 1, "length": 0, "abort": 0}
        assert errors_of(metrics) == {"refused": 2, "internal": 1, "step_failed": 1, "out_of_memory": 1}
        assert metrics["counters"]["oom_total"] == {"step": 1, "load": 0, "killed": 0}
        assert sum(metrics["histograms"]["time_to_first_token_seconds"]["counts"]) == 3
        assert metrics["info"]["build_info"]["model"] == "good"

    with_client(test)


def test_a_killed_engine_is_counted_and_totals_go_on_from_where_they_were() -> None:
    async def test(client: EngineClient) -> None:
        await answer(client, asked("hello"))
        await until(lambda: client._metrics.told(True, 0)["counters"]["generation_tokens_total"] == 6)
        seen = [client._metrics.told(True, 0)]  # nobody asked: the engine told it by itself
        states: list[str] = []
        client.watch_status(lambda status: states.append(status.state))
        neighbour = asyncio.create_task(answer(client, asked("long")))
        _, outputs = await answer(client, asked("crash"))
        assert outputs[-1].finish_reason == "error"
        await neighbour
        metrics = await client.metrics()
        assert metrics["gauges"]["engine_up"] == 0 and metrics["gauges"]["num_requests_running"] == 0
        seen.append(metrics)
        await until(lambda: client.status.state == "ready")
        await answer(client, asked("again"))
        seen.append(await client.metrics())
        counters = seen[-1]["counters"]
        assert counters["engine_restarts_total"] == 1
        assert counters["oom_total"] == {"step": 0, "load": 0, "killed": 1}
        assert errors_of(seen[-1]) == {"engine_stopped": 2}
        assert counters["request_success_total"]["stop"] == 2
        assert never_fall(seen)

    with_client(test, model="slow")


def test_an_engine_that_hangs_is_told_as_it_was_last_within_a_second(monkeypatch) -> None:
    monkeypatch.setattr(supervisor, "QUIET_S", 0.3)

    async def test(client: EngineClient) -> None:
        await answer(client, asked("hello"))
        fresh = await client.metrics()
        assert client.engine_pid is not None
        os.kill(client.engine_pid, signal.SIGSTOP)
        begun = time.monotonic()
        metrics = await client.metrics()
        assert time.monotonic() - begun < 1.5
        os.kill(client.engine_pid, signal.SIGCONT)
        assert metrics["gauges"]["engine_up"] == 0
        assert totals(metrics) == totals(fresh)
        await until(lambda: not client._calls)
        assert (await client.metrics())["gauges"]["engine_up"] == 1

    with_client(test)


def test_a_long_step_that_was_announced_is_no_hang() -> None:
    async def test() -> None:
        async with asyncio.timeout(30), running_client() as client:
            assert client.engine_pid is not None
            client._supervisor._on_line({"type": "step", "seconds": 60.0})
            os.kill(client.engine_pid, signal.SIGSTOP)
            metrics = await client.metrics()
            os.kill(client.engine_pid, signal.SIGCONT)
            assert metrics["gauges"]["engine_up"] == 1

    asyncio.run(test())


def test_memory_that_runs_out_while_loading_is_counted_and_requests_that_waited_too() -> None:
    async def test() -> None:
        client = scripted_client()
        waiting = asyncio.create_task(answer(client, asked("early")))
        cancelled = asyncio.create_task(answer(client, asked("never")))
        await asyncio.sleep(0.05)
        cancelled.cancel()
        await asyncio.sleep(0.05)
        metrics = await client.metrics()
        assert metrics["gauges"]["engine_up"] == 0 and metrics["gauges"]["num_requests_waiting"] == 1
        await client.start(EngineConfig("too large"))
        with pytest.raises(EngineError, match="emory"):
            await client.wait_ready()
        with pytest.raises(EngineError, match="emory"):
            await waiting
        metrics = await client.metrics()
        assert metrics["counters"]["oom_total"] == {"step": 0, "load": 1, "killed": 0}
        assert errors_of(metrics) == {"engine_failed": 1}
        assert metrics["counters"]["request_success_total"]["abort"] == 1
        assert metrics["counters"]["engine_restarts_total"] == 0
        await client.close()

    asyncio.run(test())


def test_another_model_is_no_restart_and_takes_no_totals_away() -> None:
    async def test() -> None:
        async with asyncio.timeout(30), running_client() as client:
            await answer(client, asked("hello"))
            before = await client.metrics()
            await client.start(EngineConfig("slow"))
            loading = await client.metrics()
            assert totals(loading) == totals(before) and loading["gauges"]["engine_up"] == 0
            await client.wait_ready()
            await answer(client, asked("more"))
            after = await client.metrics()
            assert after["counters"]["engine_restarts_total"] == 0
            assert after["counters"]["prompt_tokens_total"] == 9
            assert after["info"]["build_info"]["model"] == "slow"

    asyncio.run(test())
