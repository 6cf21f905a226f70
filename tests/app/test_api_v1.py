"""``/v1``: whole replies, streams, and every way to ask wrongly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pagedchat.engine.errors import ContextLengthError, EngineError, RequestError
from pagedchat.engine.generate_request import is_own_work
from support.api_server import ApiServer, api_server
from support.fake_client import END, HEADERS, FakeEngineClient

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HI = [{"role": "user", "content": "Hi"}]
HI_IDS = [HEADERS["user"], *b"Hi", END, HEADERS["assistant"]]


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with api_server(FakeEngineClient(["Ahoj ž!"], info={"sampling_defaults": {"temperature": 0.2}})) as running:
        yield running


@pytest.fixture
def engine(server: ApiServer) -> FakeEngineClient:
    server.engine.requests.clear()
    return server.engine


def post(server: ApiServer, path: str, **body: Any) -> Any:
    answer = server.http.post(path, json={"model": "fake-model", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(server: ApiServer, path: str, status: int = 400, **body: Any) -> dict[str, Any]:
    answer = server.http.post(path, json={"model": "fake-model", **body})
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"].endswith(".")
    return error


def nested(depth: int) -> list[Any]:
    return json.loads("[" * depth + "]" * depth)


def streamed(server: ApiServer, path: str, **body: Any) -> list[dict[str, Any]]:
    answer = server.http.post(path, json={"model": "fake-model", "stream": True, **body})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(event.startswith("data: ") and "\n" not in event for event in events[:-1])
    return [json.loads(event[6:]) for event in events[:-2]]


# -- whole replies ---------------------------------------------------------------------------------------------------


def test_the_model_is_listed_and_found_by_its_name(server: ApiServer) -> None:
    (model,) = server.http.get("/v1/models").json()["data"]
    assert (model["id"], model["object"], model["max_model_len"]) == ("fake-model", "model", 2048)
    assert server.http.get("/v1/models/fake-model").json() == model
    assert server.http.get("/v1/models/other").status_code == 404


def test_a_chat_completion_has_openais_shape(server: ApiServer, engine: FakeEngineClient) -> None:
    answer = post(server, CHAT, messages=HI)
    assert answer["object"] == "chat.completion"
    assert answer["id"].startswith("chatcmpl-")
    assert answer["model"] == "fake-model"
    (choice,) = answer["choices"]
    assert choice["message"]["content"] == "Ahoj ž!"
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] == "stop"
    assert engine.requests[0].messages == HI
    assert engine.requests[0].remember
    assert "token_ids" not in choice
    assert "prompt_token_ids" not in answer


def test_usage_counts_the_end_of_turn_and_what_was_cached(server: ApiServer) -> None:
    messages = [{"role": "user", "content": "Not sent before"}]
    first, second = (post(server, CHAT, messages=messages)["usage"] for _ in range(2))
    length = len("Not sent before") + 3
    assert first["prompt_tokens"] == second["prompt_tokens"] == length
    assert first["completion_tokens"] == len("Ahoj ž!".encode()) + 1
    assert first["total_tokens"] == first["prompt_tokens"] + first["completion_tokens"]
    assert first["prompt_tokens_details"]["cached_tokens"] < length - 1
    assert second["prompt_tokens_details"] == {"cached_tokens": length - 1}


def test_a_look_of_the_programs_own_is_marked_as_such(server: ApiServer, engine: FakeEngineClient) -> None:
    for own in (True, False):
        post(server, TEXT, prompt="abc", own_work=own)
        assert is_own_work(engine.requests[-1].request_id) is own


def test_token_ids_come_at_the_top_for_chat_and_in_the_choice_for_completions(server: ApiServer) -> None:
    reply = [*"Ahoj ž!".encode(), END]
    answer = post(server, CHAT, messages=HI, return_token_ids=True)
    assert answer["choices"][0]["token_ids"] == reply
    assert answer["prompt_token_ids"] == HI_IDS
    answer = post(server, TEXT, prompt="abc", return_token_ids=True)
    assert answer["choices"][0]["token_ids"] == reply
    assert answer["choices"][0]["prompt_token_ids"] == list(b"abc")
    assert "prompt_token_ids" not in answer


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("abc", [list(b"abc")]),
        (["abc", "d"], [list(b"abc"), list(b"d")]),
        ([1, 2, 3], [[1, 2, 3]]),
        ([[1, 2], [3]], [[1, 2], [3]]),
    ],
)
def test_a_prompt_is_a_text_texts_ids_or_lists_of_ids(server: ApiServer, prompt: Any, ids: list[list[int]]) -> None:
    answer = post(server, TEXT, prompt=prompt, return_token_ids=True)
    assert [one["prompt_token_ids"] for one in answer["choices"]] == ids
    assert [one["index"] for one in answer["choices"]] == list(range(len(ids)))
    assert answer["usage"]["prompt_tokens"] == sum(map(len, ids))
    chunks = streamed(server, TEXT, prompt=prompt, return_token_ids=True)
    firsts = {}
    for chunk in chunks:
        firsts.setdefault(chunk["choices"][0]["index"], chunk["choices"][0])
    assert [firsts[index]["prompt_token_ids"] for index in range(len(ids))] == ids
    for index in range(len(ids)):
        texts = [one["choices"][0]["text"] for one in chunks if one["choices"][0]["index"] == index]
        assert "".join(texts) == "Ahoj ž!"


def test_text_parts_are_joined_and_a_developer_is_the_system(server: ApiServer, engine: FakeEngineClient) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    post(server, CHAT, messages=[{"role": "developer", "content": "Rules."}, {"role": "user", "content": parts}])
    assert engine.requests[0].messages == [
        {"role": "system", "content": "Rules."},
        {"role": "user", "content": "ab"},
    ]


# -- sampling --------------------------------------------------------------------------------------------------------


def test_sampling_left_unset_follows_the_model_and_the_rest_of_the_context(
    server: ApiServer, engine: FakeEngineClient
) -> None:
    post(server, CHAT, messages=HI, temperature=None, top_p=None, stop=None, seed=None)
    post(server, CHAT, messages=HI, temperature=0, top_p=0.5, top_k=3, min_p=0.1, seed=7, stop="x", ignore_eos=True)
    unset, given = (one.params for one in engine.requests)
    assert (unset.temperature, unset.top_p, unset.max_tokens, unset.stop, unset.seed) == (0.2, 1.0, None, [], None)
    assert (given.temperature, given.top_p, given.top_k, given.min_p, given.seed) == (0.0, 0.5, 3, 0.1, 7)
    assert (given.stop, given.ignore_eos) == (["x"], True)


def test_token_limits_go_by_both_names_and_completions_have_openais_default(
    server: ApiServer, engine: FakeEngineClient
) -> None:
    for body in ({"max_tokens": 3}, {"max_completion_tokens": 2}, {"max_tokens": 9, "max_completion_tokens": 2}):
        answer = post(server, CHAT, messages=HI, **body)
        assert answer["choices"][0]["finish_reason"] == "length"
    post(server, TEXT, prompt="a")
    post(server, TEXT, prompt="a", max_tokens=4, cache_salt="mine")
    assert [one.params.max_tokens for one in engine.requests] == [3, 2, 2, 16, 4]
    assert [one.salt for one in engine.requests] == ["", "", "", "", "mine"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", "0"),
        ("temperature", -1),
        ("temperature", True),
        ("temperature", 1e308),
        ("top_p", 1.5),
        ("top_p", [1]),
        ("top_k", 2.5),
        ("top_k", -2),
        ("min_p", "x"),
        ("seed", "7"),
        ("seed", 2**63),
        ("max_tokens", 0),
        ("max_tokens", "many"),
        ("max_completion_tokens", -3),
        ("stop", 3),
        ("stop", ["a", ""]),
        ("ignore_eos", "yes"),
        ("stream", 1),
        ("stream_options", "usage"),
        ("return_token_ids", "true"),
        ("cache_salt", 7),
        ("n", 17),
        ("n", 0),
        ("n", True),
        ("logprobs", 1),
        ("top_logprobs", 3),
        ("frequency_penalty", 2.5),
        ("presence_penalty", "a"),
        ("repetition_penalty", 0),
        ("logit_bias", {"5": 1000}),
        ("logit_bias", {"a": 1}),
        ("logit_bias", [5]),
        ("min_tokens", -1),
        ("stop_token_ids", ["a"]),
        ("dry_multiplier", -1),
        ("dry_allowed_length", 0),
        ("dry_sequence_breakers", [7]),
        ("prompt_logprobs", 21),
        ("bad_words", ["a"]),
        ("tools", [{"type": "function"}]),
        ("response_format", {"type": "json_object"}),
        ("messages", None),
        ("messages", []),
        ("messages", "Hi"),
        ("messages", ["Hi"]),
        ("messages", nested(500)),
        ("model", 7),
    ],
)
def test_a_wrong_field_of_a_chat_is_named(server: ApiServer, engine: FakeEngineClient, field: str, value: Any) -> None:
    error = refused(server, CHAT, **{"messages": HI, field: value})
    assert error["type"] == "invalid_request_error"
    assert (error["param"] or "").startswith(field)
    assert field in error["message"]
    assert engine.requests == []


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"content": "x"}, "messages[1].role"),
        ({"role": "wizard", "content": "x"}, "messages[1].role"),
        ({"role": "tool", "content": "x"}, "messages[1].role"),
        ({"role": "user"}, "messages[1].content"),
        ({"role": "user", "content": 7}, "messages[1].content"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, "messages[1].content"),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "x"}]}, "messages[1].tool_calls"),
    ],
)
def test_a_wrong_message_is_named(server: ApiServer, message: dict[str, Any], param: str) -> None:
    assert refused(server, CHAT, messages=[*HI, message])["param"] == param


@pytest.mark.parametrize("prompt", [None, 7, [], [[]], [[1], "a"], [1, "a"], [True], [1.5], {"a": 1}, ["a"] * 300])
def test_a_prompt_of_another_kind_is_refused(server: ApiServer, prompt: Any) -> None:
    assert refused(server, TEXT, prompt=prompt)["param"] == "prompt"


def test_harmless_fields_are_ignored(server: ApiServer) -> None:
    harmless = {"user": "me", "n": 1, "presence_penalty": 0, "logprobs": False, "tools": [], "metadata": {"a": 1}}
    assert post(server, CHAT, messages=HI, **harmless)["choices"] == post(server, CHAT, messages=HI)["choices"]


def test_an_unknown_model_is_not_found(server: ApiServer) -> None:
    error = refused(server, CHAT, 404, messages=HI, model="gpt-4")
    assert (error["code"], error["param"]) == ("model_not_found", "model")


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"temperature": NaN}', "application/json", 400),
        (b'{"messages": "\xff"}', "application/json", 400),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', "application/json; charset=utf-8", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"{}", "text/plain", 415),
        (b"{}", "", 415),
        (b'"' + b"x" * (5 << 20) + b'"', "application/json", 413),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(server: ApiServer, content: bytes, kind: str, status: int) -> None:
    answer = server.http.post(CHAT, content=content, headers={"content-type": kind})
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/embeddings", "/v1/chat", "/v1/chat/completions/x", "/api/kv/none"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_address_that_is_not_served_is_not_found(server: ApiServer, method: str, path: str) -> None:
    answer = server.http.request(method, path)
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "unknown_url")
    assert path in error["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CHAT, "POST"),
        ("PUT", TEXT, "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", "/v1/models/fake-model", "GET"),
        ("GET", "/api/kv/reset", "POST"),
        ("PATCH", "/api/kv/snapshot", "GET"),
    ],
)
def test_a_method_that_is_not_served_names_the_one_that_is(
    server: ApiServer, method: str, path: str, allowed: str
) -> None:
    answer = server.http.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert allowed in answer.json()["error"]["message"]


def test_what_the_engine_refuses_is_told_in_its_words_also_when_streaming(
    server: ApiServer, engine: FakeEngineClient
) -> None:
    for stream in (False, True):
        engine.refuse = RequestError("The prompt has 9 tokens, and 4 fit.")
        assert refused(server, CHAT, messages=HI, stream=stream)["message"] == "The prompt has 9 tokens, and 4 fit."
        engine.refuse = ContextLengthError("The prompt has 9 tokens, but the context holds 4 with the reply.")
        assert refused(server, CHAT, messages=HI, stream=stream)["code"] == "context_length_exceeded"
        engine.refuse = EngineError("The engine stopped.")
        assert refused(server, CHAT, 503, messages=HI, stream=stream)["type"] == "server_error"
        engine.refuse = KeyError("a secret")  # type: ignore[assignment]
        assert "secret" not in refused(server, CHAT, 500, messages=HI, stream=stream)["message"]


def test_a_model_that_loads_is_answered_with_503(server: ApiServer, engine: FakeEngineClient) -> None:
    engine.set_status("loading", 0.3, "Loading the model.")
    try:
        answer = server.http.post(CHAT, json={"messages": HI})
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
        assert answer.json()["error"]["message"] == "Loading the model."
        assert server.http.get("/v1/models").status_code == 503
    finally:
        engine.set_status("ready")


def test_variables_for_the_chat_template_are_passed_on_and_chats_are_never_trimmed(
    server: ApiServer, engine: FakeEngineClient
) -> None:
    for given, sent in ((None, {}), ({"enable_thinking": False}, {"enable_thinking": False})):
        server.http.post(CHAT, json={"messages": HI, "chat_template_kwargs": given})
        assert (engine.requests[-1].template_args, engine.requests[-1].trim) == (sent, False)
    assert refused(server, CHAT, messages=HI, chat_template_kwargs="x")["param"] == "chat_template_kwargs"


# -- streams ---------------------------------------------------------------------------------------------------------


def test_a_chat_stream_has_one_chunk_a_step_and_the_role_in_the_first(server: ApiServer) -> None:
    chunks = streamed(server, CHAT, messages=HI)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert [delta["content"] for delta in deltas] == ["A", "h", "o", "j", " ", "ž", "!", ""]
    assert ["role" in delta for delta in deltas] == [True, *[False] * 7]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [*[None] * 7, "stop"]
    assert all("usage" not in chunk for chunk in chunks)


def test_a_streams_usage_comes_last_and_without_choices(server: ApiServer) -> None:
    *chunks, last = streamed(server, CHAT, messages=HI, stream_options={"include_usage": True})
    assert all(chunk["usage"] is None for chunk in chunks)
    assert last["choices"] == []
    whole = post(server, CHAT, messages=HI)["usage"]
    assert last["usage"] == whole
    assert last["usage"]["prompt_tokens_details"]["cached_tokens"] == len(HI_IDS) - 1


def test_streamed_ids_are_deltas_and_the_prompts_ids_come_once(server: ApiServer) -> None:
    chunks = streamed(server, CHAT, messages=HI, return_token_ids=True)
    assert [token for chunk in chunks for token in chunk["choices"][0]["token_ids"]] == [*"Ahoj ž!".encode(), END]
    assert [chunk.get("prompt_token_ids") for chunk in chunks] == [HI_IDS, *[None] * 7]


def test_a_reply_the_engine_gives_up_ends_with_an_error(server: ApiServer, engine: FakeEngineClient) -> None:
    engine.replies = lambda request: (engine.die("The engine stopped."), "x")[1]
    try:
        assert refused(server, CHAT, 500, messages=HI)["message"] == "The engine stopped."
        engine.set_status("ready")
        (chunk,) = streamed(server, CHAT, messages=HI)
        assert chunk["error"]["message"] == "The engine stopped."
    finally:
        engine.replies = ["Ahoj ž!"]
        engine.set_status("ready")
