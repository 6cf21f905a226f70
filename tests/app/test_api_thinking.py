"""``/v1`` for models that mark their thinking: it comes apart from the content of chats, and raw in completions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.api_server import ApiServer, api_server
from support.fake_client import FakeEngineClient

CHAT = {"model": "fake-model", "messages": [{"role": "user", "content": "Hi"}]}
REPLIES = {
    "<think>plan</think>\n\nDone": ("plan", "Done"),
    "</think>Hi": ("", "Hi"),
    "<think>never closed</th": ("never closed</th", ""),
    "a < b, `</think>`": ("", "a < b, `</think>`"),
    "<thi": ("", "<thi"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    engine = FakeEngineClient()
    engine.marks_thinking = True
    with api_server(engine) as running:
        yield running


def deltas(server: ApiServer, path: str, **body: Any) -> list[dict[str, Any]]:
    answer = server.http.post(path, json={"model": "fake-model", "stream": True, **body})
    assert answer.status_code == 200, answer.text
    return [json.loads(event[6:])["choices"][0] for event in answer.text.split("\n\n")[:-2]]


@pytest.mark.parametrize("text", REPLIES)
def test_a_chat_tells_thinking_apart(server: ApiServer, text: str) -> None:
    server.engine.replies = [text]
    reasoning, content = REPLIES[text]
    choice = server.http.post("/v1/chat/completions", json=CHAT).json()["choices"][0]
    told = {"reasoning_content": reasoning} if reasoning else {}
    assert choice["message"] == {"role": "assistant", "content": content, "refusal": None, **told}
    chunks = deltas(server, "/v1/chat/completions", **CHAT)
    assert chunks[0]["delta"]["role"] == "assistant" and chunks[-1]["finish_reason"] == "stop"
    assert "".join(one["delta"].get("reasoning_content", "") for one in chunks) == reasoning
    assert "".join(one["delta"].get("content", "") for one in chunks) == content


def test_thinking_that_meets_the_limit_is_told(server: ApiServer) -> None:
    server.engine.replies = ["<think>plan</think>Done"]
    limited = server.http.post("/v1/chat/completions", json={**CHAT, "max_tokens": 9}).json()["choices"][0]
    assert limited["message"]["reasoning_content"] == "pl" and limited["finish_reason"] == "length"


def test_completions_stay_raw(server: ApiServer) -> None:
    server.engine.replies = ["<think>plan</think>Done"]
    body = {"model": "fake-model", "prompt": "Hi", "max_tokens": 100}
    choice = server.http.post("/v1/completions", json=body).json()["choices"][0]
    assert choice["text"] == "<think>plan</think>Done"
    assert "".join(one["text"] for one in deltas(server, "/v1/completions", **body)) == choice["text"]
