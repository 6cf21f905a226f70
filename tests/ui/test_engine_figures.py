"""What the panel is told of the engine's work: the last minute's figures equal the metrics, steps take few bytes."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import orjson
import pytest

from pagedchat.engine.histogram import percentile
from pagedchat.ui.engine_figures import EngineFigures
from pagedchat.ui.step_packing import MOST_BYTES, MOST_STEPS, pack_steps
from support.paged_client import PagedFakeClient
from support.paged_model import drain, greedy, make_engine, prompt_of


def name(who: str) -> dict[str, str | None]:
    return {"request_id": f"request of {who}", "session_id": who}


def step(number: int, decodes: int = 2, waiting: int = 0, **more: Any) -> dict[str, Any]:
    row = {"step": number, "time": 0.0, "seconds": number / 1000, "budget": 2048, "tokens": decodes}
    rest = {"decodes": [name("a")] * decodes, "prefills": [], "waiting": waiting, "preempted": [], "failed": False}
    return {**row, **rest, **more}


def test_steps_that_are_alike_are_one_run_and_others_say_what_they_ran() -> None:
    chunk = {**name("b"), "from": 256, "tokens": 256, "total": 1380}
    rows = [step(1), step(2), step(4), step(5, 3), step(6, 3, prefills=[chunk]), step(7, 3, preempted=[name("a")])]
    packed = pack_steps([*rows, step(8, failed=True)])
    assert packed is not None and (packed["budget"], packed["owners"]) == (2048, ["a", "b"])
    assert packed["runs"] == [
        [1, [1.0, 2.0], 2, 0],
        [4, [4.0], 2, 0],
        [5, [5.0], 3, 0],
        [6, [6.0], 3, 0, [[1, 256, 256, 1380]]],
        [7, [7.0], 3, 0, [], [0]],
        [8, [8.0], 2, 0, [], [], 1],
    ]
    assert pack_steps([]) is None


def test_the_newest_steps_fit_into_a_frame_whatever_they_ran() -> None:
    chance = random.Random(3)
    alike = pack_steps([step(number) for number in range(1, 500)])
    assert alike is not None and [len(run[1]) for run in alike["runs"]] == [MOST_STEPS]
    rows = []
    for number in range(1, 200):
        chunk = {**name(f"{chance.randrange(1 << 60):x}"), "from": 0, "tokens": 100, "total": 2000}
        rows.append(step(number, chance.randrange(30), prefills=[chunk]))
    packed = pack_steps(rows)
    assert packed is not None and len(orjson.dumps(packed)) < MOST_BYTES + 100
    assert packed["runs"][-1][0] == 199 and len(packed["runs"]) > 10
    assert {place for run in packed["runs"] for place, *_ in run[4]} == set(range(len(packed["owners"])))


def test_what_a_real_engine_ran_is_told_whole() -> None:
    engine = make_engine(num_blocks=24, max_num_batched_tokens=16, max_num_seqs=4)
    for number in range(4):
        engine.add_request(f"r{number}", prompt_of(14, number), greedy(16), labels={"session": f"s{number}"})
    drain(engine)
    rows = engine.steps_since(0, MOST_STEPS)
    packed = pack_steps(rows)
    assert packed is not None and any(row["preempted"] for row in rows)
    told = {run[0] + at: run for run in packed["runs"] for at in range(len(run[1]))}
    for row in rows[-len(told) :]:
        run = [*told[row["step"]], [], []]
        assert (run[2], run[3]) == (len(row["decodes"]), row["waiting"])
        assert [packed["owners"][place] for place, *_ in run[4]] == [one["session_id"] for one in row["prefills"]]
        assert [packed["owners"][place] for place in run[5]] == [one["session_id"] for one in row["preempted"]]
        assert run[2] + sum(chunk[2] for chunk in run[4]) == row["tokens"]


def test_the_last_minute_is_what_the_metrics_counted_in_it() -> None:
    client, times = PagedFakeClient(), [100.0]
    figures = EngineFigures(client, lambda: times[0])

    async def look(at: float) -> dict[str, Any]:
        times[0] = at
        return (await figures.look())["recent"]

    async def story() -> None:
        client.counted.note_tokens([0.5] * 10)  # before anybody looked
        assert (await look(100))["itl"] == {"p50": None, "p95": None, "counted": 0}
        before = (await client.metrics())["histograms"]["inter_token_latency_seconds"]
        client.counted.note_tokens([0.02] * 20)
        client.prompt_tokens, client.cached_tokens = 30, 10
        recent = await look(130)
        now = (await client.metrics())["histograms"]["inter_token_latency_seconds"]
        assert recent["itl"] == {
            "p50": percentile(0.5, now, before),
            "p95": percentile(0.95, now, before),
            "counted": 20,
        }
        assert recent["itl"]["p95"] == pytest.approx(0.0243, abs=1e-3) and recent["ttft"]["counted"] == 0
        assert (recent["prompt_tokens"], recent["cached_tokens"]) == (30, 10)
        assert (await look(155))["itl"]["counted"] == 20
        assert (await look(191))["itl"]["counted"] == 0, "a minute has passed"
        client.counted.note_tokens([0.02])
        figures.begin()
        assert (await look(192))["itl"]["counted"] == 0

    asyncio.run(story())
