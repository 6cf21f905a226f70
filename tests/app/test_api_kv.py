"""``/api/kv`` and ``/health``: what programs see of the pool, and how they follow it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pagedchat.app import kv_events
from pagedchat.engine.errors import EngineError
from pagedchat.engine.request import Request
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.scheduler import Scheduled
from pagedchat.ui.block_text import AWAY
from support.api_server import BRANCH, ApiServer, api_server
from support.fake_client import FakeEngineClient
from support.paged_client import PagedFakeClient


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with api_server(FakeEngineClient(["x" * 40])) as running:
        yield running


def ask(server: ApiServer, text: str = "Hi") -> None:
    answer = server.http.post("/v1/completions", json={"prompt": text, "max_tokens": 100})
    assert answer.status_code == 200


@contextmanager
def following(server: ApiServer, query: str = "", headers: dict[str, str] | None = None) -> Iterator[Iterator[Any]]:
    """Events of the stream as (id, data)."""
    with server.http.stream("GET", f"/api/kv/events{query}", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _parsed(answer.iter_lines())


def _parsed(lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    number = -1
    for line in lines:
        if line.startswith("id: "):
            number = int(line[4:])
        elif line.startswith("data: "):
            yield number, json.loads(line[6:])


def test_health_is_503_with_progress_until_the_engine_is_ready(server: ApiServer) -> None:
    server.call(lambda: server.engine.set_fetching(0.4, "Fetching the model."))
    answer = server.http.get("/health")
    assert answer.status_code == 503
    assert answer.json() == {"status": "fetching", "progress": 0.4, "message": "Fetching the model."}
    server.call(lambda: server.engine.set_failed("There is no such file."))
    assert server.http.get("/health").json() == {"status": "failed", "message": "There is no such file."}
    server.call(lambda: server.engine.set_status("ready"))
    answer = server.http.get("/health")
    assert answer.status_code == 200
    facts = answer.json()
    assert (facts["model"], facts["device"], facts["dtype"], facts["kernels"], facts["reason"]) == (
        "fake-model",
        "cpu",
        "float32",
        "reference",
        "a test",
    )


def test_the_snapshot_is_the_engines(server: ApiServer) -> None:
    snapshot = server.http.get("/api/kv/snapshot").json()
    assert snapshot["free"] + snapshot["cached"] + snapshot["active"] == snapshot["num_blocks"]
    assert len(snapshot["blocks"]) == snapshot["num_blocks"]
    assert snapshot["conserved"] is True


def test_a_branch_is_told_block_by_block_and_an_unknown_one_is_not_found(server: ApiServer) -> None:
    answer = server.http.get("/api/kv/branch", params={"session": "known"}).json()
    assert answer["num_tokens"] == len(BRANCH)
    assert [row["num_tokens"] for row in answer["blocks"]] == [16, 16, 8]
    assert [row["logical"] for row in answer["blocks"]] == [0, 1, 2]
    assert [token for row in answer["blocks"] for token in row["token_ids"]] == BRANCH
    assert {row["physical"] for row in answer["blocks"]} == {None}
    answer = server.http.get("/api/kv/branch", params={"session": "known", "message": "m"}).json()
    assert answer["num_tokens"] == 10
    assert server.http.get("/api/kv/branch", params={"session": "other"}).status_code == 404
    assert server.http.get("/api/kv/branch").status_code == 400


def test_the_ids_of_a_branch_are_told_only_on_this_computer(server: ApiServer) -> None:
    here = server.http.get("/api/kv/branch", params={"session": "known"}).json()
    passed_on = {"x-forwarded-for": "192.168.0.7"}
    away = server.http.get("/api/kv/branch", params={"session": "known"}, headers=passed_on).json()
    assert away.pop("why") == AWAY and "why" not in here
    for row in here["blocks"]:
        assert row.pop("token_ids")
    assert away == here


def test_a_probe_tells_what_a_prompt_would_find(server: ApiServer) -> None:
    ask(server, "The same words.")
    answer = server.http.post("/api/kv/probe", json={"prompt": "The same words. And more."}).json()
    assert answer == {"prompt_tokens": 25, "cached_tokens": 15, "to_compute": 10, "first_difference": 15}
    answer = server.http.post("/api/kv/probe", json={"prompt": list(b"The same wor")}).json()
    assert answer["cached_tokens"] == 11
    answer = server.http.post("/api/kv/probe", json={"messages": [{"role": "user", "content": "Hi"}]}).json()
    assert answer["prompt_tokens"] == 5
    assert server.http.post("/api/kv/probe", json={"prompt": ["a", "b"]}).status_code == 400
    assert server.http.post("/api/kv/probe", json={"prompt": "a", "model": "other"}).status_code == 404
    empty = server.http.post("/api/kv/probe", json={"prompt": ""})
    assert (empty.status_code, empty.json()["error"]["param"]) == (400, "prompt")


def test_a_reset_is_refused_with_409_while_blocks_are_held(server: ApiServer) -> None:
    assert server.http.post("/api/kv/reset").status_code == 200
    server.engine.delay_s = 0.05
    with server.http.stream("POST", "/v1/completions", json={"prompt": "a", "stream": True}) as answer:
        lines = answer.iter_lines()
        next(lines)
        refusal = server.http.post("/api/kv/reset")
        assert refusal.status_code == 409
        assert "hold blocks" in refusal.json()["error"]["message"]


def test_a_reset_that_an_engine_cannot_do_for_another_reason_is_no_conflict(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone() -> None:
        server.engine.die("The engine stopped: out of memory.")
        raise EngineError("The engine stopped: out of memory.")

    monkeypatch.setattr(server.engine, "reset_cache", gone)
    refusal = server.http.post("/api/kv/reset")
    assert refusal.status_code == 503
    assert refusal.json()["error"]["message"] == "The engine stopped: out of memory."
    assert server.http.post("/api/kv/reset").status_code == 503


def test_requests_are_listed(server: ApiServer) -> None:
    assert server.http.get("/api/kv/requests").json() == {"requests": []}
    server.engine.delay_s = 0.05
    with server.http.stream("POST", "/v1/completions", json={"prompt": "a", "stream": True}) as answer:
        lines = answer.iter_lines()
        next(lines)
        (one,) = server.http.get("/api/kv/requests").json()["requests"]
        assert one["state"] == "running"


def test_steps_are_told_from_a_number_on(server: ApiServer) -> None:
    assert server.http.get("/api/kv/steps").json() == {"steps": []}
    log = server.engine.step_log
    for step in (1, 2, 3):
        log.begin(step)
        log.planned([Scheduled(Request("r", [1, 2, 3], SamplingParams(), 0, 0.0, 0, 9, {"session": "s"}), 2)], step)
        log.end(failed=step == 3)
    rows = server.http.get("/api/kv/steps").json()["steps"]
    assert [(row["step"], row["waiting"], row["failed"]) for row in rows] == [
        (1, 1, False),
        (2, 2, False),
        (3, 3, True),
    ]
    chunk = {"request_id": "r", "session_id": "s", "from": 0, "tokens": 2, "total": 3}
    assert rows[0]["prefills"] == [chunk] and (rows[0]["tokens"], rows[0]["budget"]) == (2, 2048)
    assert server.http.get("/api/kv/steps?from=2").json()["steps"] == rows[2:]
    refused = server.http.get("/api/kv/steps?from=a")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "from")


def test_pins_are_made_listed_with_their_cost_and_let_go(server: ApiServer) -> None:
    assert server.http.get("/api/kv/pins").json() == {"pins": []}
    pinned = server.http.post("/api/kv/pins", json={"name": "my/system", "prompt": "x" * 20})
    assert pinned.json() == {"pins": [{"name": "my/system", "num_tokens": 20, "blocks": 2}]}
    assert server.http.get("/api/kv/pins").json() == pinned.json()
    assert server.http.delete("/api/kv/pins/my%2Fsystem").json() == {"pins": []}
    assert server.http.delete("/api/kv/pins/my%2Fsystem").status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"prompt": "x"}, 400, "name"),
        ({"name": "", "prompt": "x"}, 400, "name"),
        ({"name": ["a"], "prompt": "x"}, 400, "name"),
        ({"name": "a" * 101, "prompt": "x"}, 400, "name"),
        ({"name": "..", "prompt": "x"}, 400, "name"),
        ({"name": "a"}, 400, "prompt"),
        ({"name": "a", "prompt": "x" * 5000}, 400, None),
        ({"name": "a", "prompt": "x", "model": "other"}, 404, "model"),
    ],
)
def test_a_pin_without_sense_is_refused(server: ApiServer, body: dict[str, Any], status: int, param: str) -> None:
    answer = server.http.post("/api/kv/pins", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)
    assert server.http.get("/api/kv/pins").json() == {"pins": []}


def test_events_follow_a_snapshot_without_gap_or_repetition(server: ApiServer) -> None:
    ask(server)
    start = server.http.get("/api/kv/snapshot").json()["seq"]
    ask(server, "while nobody follows")
    with following(server, f"?from={start}") as events:
        seen = [next(events) for _ in range(3)]
        ask(server, "while somebody follows")
        seen += [next(events) for _ in range(4)]
    assert [number for number, _ in seen] == [event["seq"] for _, event in seen]
    numbers = [number for number, _ in seen]
    assert numbers == list(range(start + 1, start + 1 + len(numbers)))
    assert [event for _, event in seen] == server.engine.events[start : start + len(seen)]
    last = numbers[2]
    with following(server, headers={"last-event-id": str(last)}) as events:
        assert next(events)[0] == last + 1


def test_without_a_number_only_new_events_come(server: ApiServer) -> None:
    ask(server)
    newest = server.engine.events[-1]["seq"]
    with server.http.stream("GET", "/api/kv/events") as answer:
        lines = answer.iter_lines()
        assert next(lines) == ": following"
        ask(server)
        assert next(_parsed(lines))[0] == newest + 1


@pytest.mark.parametrize("start", [0, 999_999])
def test_events_that_are_gone_or_never_were_begin_with_a_reset(server: ApiServer, start: int) -> None:
    ask(server)
    del server.engine.events[:2]
    newest = server.engine.events[-1]["seq"]
    with following(server, f"?from={start}") as events:
        number, event = next(events)
        assert (event["type"], number) == ("reset", newest)
        ask(server)
        assert next(events)[0] == newest + 1


def test_a_client_that_falls_too_far_behind_gets_a_reset(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_events, "MAX_BEHIND", 5)
    with following(server, "?from=0") as events:
        burst = [{"seq": 100 + index, "type": "stored"} for index in range(10)]
        server.engine._seq = 109

        def all_at_once() -> None:
            for watcher in server.engine._event_watchers:
                watcher(burst)

        server.call(all_at_once)
        assert next(events)[1]["type"] == "reset"


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "٣", "9" * 30])
def test_a_number_that_is_none_is_refused(server: ApiServer, number: str) -> None:
    answer = server.http.get("/api/kv/events", params={"from": number})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "from"


def test_nothing_is_asked_of_an_engine_that_is_not_ready(server: ApiServer) -> None:
    server.call(lambda: server.engine.set_status("restarting", None, "The engine stopped."))
    for path in ("/api/kv/snapshot", "/api/kv/branch?session=known", "/api/kv/events"):
        answer = server.http.get(path)
        assert answer.status_code == 503
        assert answer.json()["error"]["message"] == "The engine stopped."


def test_a_block_is_told_but_no_tokens_of_what_no_chat_has() -> None:
    with api_server(PagedFakeClient(["x" * 40])) as server:
        ask(server, "Some words of a program, no chat's")
        block = next(row for row in server.http.get("/api/kv/snapshot").json()["blocks"] if row["num_tokens"] == 16)
        told = server.http.get("/api/kv/block", params={"id": block["id"]}).json()
        assert told["num_tokens"] == 16 and told["chain"] == [] and told["events"]
        assert "why" in told and "token_ids" not in told and "text" not in told
        assert server.http.get("/api/kv/block?id=999999").status_code == 404
        for wrong in ("", "?id=x", "?id=-1"):
            assert server.http.get(f"/api/kv/block{wrong}").status_code == 400
