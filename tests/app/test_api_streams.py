"""Streams over real connections and a real engine process: clients that go away, and a server that shuts down."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from support.api_server import ApiServer, api_server

LONG = {"prompt": "long", "max_tokens": 4000}


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with api_server() as running:
        yield running


def stats(server: ApiServer) -> dict[str, Any]:
    return server.call(server.engine.stats)


def test_a_client_that_leaves_a_stream_cancels_its_request_within_two_steps(server: ApiServer) -> None:
    with server.http.stream("POST", "/v1/completions", json={**LONG, "stream": True}) as answer:
        lines = answer.iter_lines()
        for _ in range(5):
            next(lines)
        assert stats(server)["running"] == 1
    time.sleep(0.05)
    after = stats(server)
    assert after["running"] == 0
    time.sleep(0.1)
    assert stats(server)["steps"] - after["steps"] <= 1


def test_a_client_that_leaves_before_the_whole_reply_cancels_too(server: ApiServer) -> None:
    with pytest.raises(httpx.ReadTimeout):
        server.http.post("/v1/completions", json=LONG, timeout=0.2)
    time.sleep(0.05)
    assert stats(server)["running"] == 0
    assert server.http.post("/v1/completions", json={"prompt": "next"}).json()["choices"][0]["text"] == "NEXT"


def test_sixteen_streams_run_at_once(server: ApiServer) -> None:
    texts: dict[int, str] = {}

    def read(index: int) -> None:
        body = {"prompt": f"stream {index} " * 5, "max_tokens": 500, "stream": True}
        with httpx.stream("POST", f"http://127.0.0.1:{server.port}/v1/completions", json=body, timeout=120) as answer:
            events = [line[6:] for line in answer.iter_lines() if line.startswith("data: {")]
        texts[index] = "".join(json.loads(event)["choices"][0]["text"] for event in events)

    threads = [threading.Thread(target=read, args=(index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert texts == {index: f"STREAM {index} " * 5 for index in range(16)}
    assert stats(server)["steps"] < 16 * 50


@pytest.mark.parametrize("path", ["/v1/completions", "/api/kv/events"])
def test_streams_end_at_once_when_the_server_shuts_down(server: ApiServer, path: str) -> None:
    method, body = ("GET", None) if path.startswith("/api") else ("POST", {**LONG, "stream": True})
    with server.http.stream(method, path, json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        server.shut_down()
        begun = time.monotonic()
        for _ in lines:
            pass
        assert time.monotonic() - begun < 1
    assert stats(server)["running"] == 0


def test_a_server_that_shuts_down_answers_waiting_requests_with_503(server: ApiServer) -> None:
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(server.http.post("/v1/completions", json=LONG)))
    thread.start()
    while stats(server)["running"] == 0:
        time.sleep(0.01)
    server.shut_down()
    thread.join(60)
    assert answers[0].status_code == 503
    assert "shutting down" in answers[0].json()["error"]["message"]
