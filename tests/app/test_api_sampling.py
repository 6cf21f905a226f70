"""Sampling controls over ``/v1``: they act, log probabilities have OpenAI's shapes, samples share their prompt."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from support.api_server import ApiServer, api_server
from support.paged_model import ByteTokenizer, make_engine
from support.stepped_client import SteppedClient

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
SAID = "How many roads?"
GREEDY = {"temperature": 0, "max_tokens": 6}


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with api_server(SteppedClient(make_engine(512))) as running:
        yield running


def ask(server: ApiServer, path: str = TEXT, **body: Any) -> dict[str, Any]:
    asked = {"prompt": SAID} if path == TEXT else {"messages": [{"role": "user", "content": SAID}]}
    answer = server.http.post(path, json={**asked, **GREEDY, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def chunks(server: ApiServer, path: str, **body: Any) -> list[dict[str, Any]]:
    asked = {"prompt": SAID} if path == TEXT else {"messages": [{"role": "user", "content": SAID}]}
    answer = server.http.post(path, json={**asked, **GREEDY, "stream": True, **body})
    assert answer.status_code == 200, answer.text
    return [json.loads(event[6:]) for event in answer.text.split("\n\n") if event.startswith("data: {")]


def refused(server: ApiServer, path: str = TEXT, **body: Any) -> dict[str, Any]:
    asked = {"prompt": SAID} if path == TEXT else {"messages": [{"role": "user", "content": SAID}]}
    answer = server.http.post(path, json={**asked, **body})
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]


# -- controls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [TEXT, CHAT])
def test_every_control_reaches_the_engine(server: ApiServer, path: str) -> None:
    given = {
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 9,
        "min_p": 0.01,
        "repetition_penalty": 1.2,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "dry_multiplier": 0.8,
        "dry_base": 1.5,
        "dry_allowed_length": 3,
        "dry_sequence_breakers": ["."],
        "seed": 11,
        "n": 2,
        "max_tokens": 9,
        "min_tokens": 4,
        "stop": ["##"],
        "stop_token_ids": [96],
        "ignore_eos": True,
        "prompt_logprobs": 1,
    }
    ask(server, path, **given, logit_bias={"5": 2, "7": -100})
    params = server.engine.requests[-1].params
    assert {name: getattr(params, name) for name in given} == given
    assert params.logit_bias == {5: 2.0, 7: -100.0}


def test_bias_stop_ids_and_min_tokens_act(server: ApiServer) -> None:
    zero = ByteTokenizer().encode("0")[0]
    bias = {str(zero): 100}
    assert ask(server, logit_bias=bias)["choices"][0]["text"] == "000000"
    choice = ask(server, logit_bias=bias, stop_token_ids=[zero], return_token_ids=True)["choices"][0]
    assert (choice["text"], choice["finish_reason"], choice["token_ids"]) == ("", "stop", [zero])
    choice = ask(server, logit_bias=bias, stop_token_ids=[zero], min_tokens=3, return_token_ids=True)["choices"][0]
    assert choice["finish_reason"] == "stop" and choice["token_ids"].index(zero) == len(choice["token_ids"]) - 1 == 3


def test_a_seed_repeats_a_reply_and_its_samples_differ(server: ApiServer) -> None:
    body = {"temperature": 1.0, "seed": 3, "n": 3, "max_tokens": 12}
    texts = [[one["text"] for one in ask(server, **body)["choices"]] for _ in range(2)]
    assert texts[0] == texts[1] and len(set(texts[0])) == 3
    other = ask(server, **{**body, "seed": 4})["choices"]
    assert [one["text"] for one in other] != texts[0]


@pytest.mark.parametrize("path", [TEXT, CHAT])
def test_samples_are_choices_side_by_side_and_their_prompt_counts_once(server: ApiServer, path: str) -> None:
    body = {"temperature": 1.0, "seed": 5, "n": 3, "return_token_ids": True}
    whole = ask(server, path, **body)
    assert [one["index"] for one in whole["choices"]] == [0, 1, 2]
    assert whole["usage"]["prompt_tokens"] == len(SAID)
    assert whole["usage"]["completion_tokens"] == sum(len(one["token_ids"]) for one in whole["choices"])
    parts = chunks(server, path, **body)
    for choice in whole["choices"]:
        own = [one["choices"][0] for one in parts if one["choices"][0]["index"] == choice["index"]]
        assert [token for one in own for token in one["token_ids"]] == choice["token_ids"]
        assert [one["finish_reason"] for one in own][-1] == choice["finish_reason"]


def test_several_prompts_have_several_samples_each(server: ApiServer) -> None:
    answer = ask(server, prompt=["One.", "Two, longer."], n=2, temperature=1.0, seed=1, return_token_ids=True)
    prompts = [ByteTokenizer().encode(text) for text in ("One.", "Two, longer.")]
    assert [one["prompt_token_ids"] for one in answer["choices"]] == [prompts[0]] * 2 + [prompts[1]] * 2
    assert answer["usage"]["prompt_tokens"] == len(prompts[0]) + len(prompts[1])


# -- log probabilities -------------------------------------------------------------------------------------------------


def test_every_sample_tells_the_log_probabilities_of_its_prompt(server: ApiServer) -> None:
    answer = ask(server, TEXT, prompt=["abc", "xy"], n=2, prompt_logprobs=0, max_tokens=2)
    told = [choice["prompt_logprobs"] for choice in answer["choices"]]
    assert told[0] == told[1] and told[2] == told[3] and len(told[0]) > len(told[2])


def test_a_chat_tells_logprobs_as_openai_does(server: ApiServer) -> None:
    choice = ask(server, CHAT, logprobs=True, top_logprobs=3, return_token_ids=True)["choices"][0]
    content = choice["logprobs"]["content"]
    assert "".join(one["token"] for one in content) == choice["message"]["content"]
    assert len(content) == len(choice["token_ids"]) == 6
    for one in content:
        assert set(one) == {"token", "logprob", "bytes", "top_logprobs"}
        assert bytes(one["bytes"]).decode() == one["token"] and one["logprob"] < 0
        top = one["top_logprobs"]
        assert [set(each) for each in top] == [{"token", "logprob", "bytes"}] * 3
        assert top[0] == {name: one[name] for name in ("token", "logprob", "bytes")}, "greedy takes the likeliest"
        assert sum(math.exp(each["logprob"]) for each in top) <= 1 + 1e-6
    only = ask(server, CHAT, logprobs=True)["choices"][0]["logprobs"]["content"]
    assert [one["logprob"] for one in only] == [one["logprob"] for one in content]
    assert all(one["top_logprobs"] == [] for one in only)
    assert ask(server, CHAT, logprobs=False, top_logprobs=0)["choices"][0]["logprobs"] is None


def test_a_completion_tells_logprobs_as_openai_does(server: ApiServer) -> None:
    choice = ask(server, logprobs=2, temperature=1.5, seed=1)["choices"][0]
    told = choice["logprobs"]
    assert set(told) == {"tokens", "token_logprobs", "top_logprobs", "text_offset"}
    assert "".join(told["tokens"]) == choice["text"]
    for token, logprob, top, offset in zip(*told.values(), strict=True):
        assert choice["text"][offset : offset + len(token)] == token
        assert top[token] == logprob and 2 <= len(top) <= 3
        assert max(top.values()) == next(iter(top.values()))
    assert ask(server)["choices"][0]["logprobs"] is None
    assert all(len(one) == 1 for one in ask(server, logprobs=0)["choices"][0]["logprobs"]["top_logprobs"])


def test_a_stream_tells_the_same_in_pieces(server: ApiServer) -> None:
    whole = ask(server, CHAT, logprobs=True, top_logprobs=2)["choices"][0]["logprobs"]["content"]
    parts = [one["choices"][0]["logprobs"] for one in chunks(server, CHAT, logprobs=True, top_logprobs=2)]
    assert [one for part in parts if part for one in part["content"]] == whole and len(whole) == 6
    told = ask(server, logprobs=2)["choices"][0]["logprobs"]
    parts = [one["choices"][0]["logprobs"] for one in chunks(server, TEXT, logprobs=2)]
    assert {name: [one for part in parts if part for one in part[name]] for name in told} == told


@pytest.mark.parametrize("path", [TEXT, CHAT])
def test_prompt_logprobs_have_vllms_shape_and_come_whatever_is_cached(server: ApiServer, path: str) -> None:
    ask(server, path)
    answer = ask(server, path, prompt_logprobs=2)
    told = (answer if path == CHAT else answer["choices"][0])["prompt_logprobs"]
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert told[0] is None and len(told) == len(SAID)
    for token, entry in zip(ByteTokenizer().encode(SAID)[1:], told[1:], strict=True):
        own = entry[str(token)]
        assert set(own) == {"logprob", "rank", "decoded_token"} and own["decoded_token"] == chr(token + 32)
        assert {1, 2} <= {one["rank"] for one in entry.values()} and len(entry) in (2, 3)


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (CHAT, {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        (CHAT, {"logprobs": False, "top_logprobs": 2}, "top_logprobs"),
        (CHAT, {"top_logprobs": True, "logprobs": True}, "top_logprobs"),
        (TEXT, {"logprobs": 21}, "logprobs"),
        (TEXT, {"logprobs": True}, "logprobs"),
        (TEXT, {"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        (TEXT, {"min_tokens": 17}, "min_tokens"),
        (CHAT, {"max_completion_tokens": 0}, "max_completion_tokens"),
        (TEXT, {"logit_bias": {"97": 1}}, "logit_bias"),
        (CHAT, {"logit_bias": {"5": 101}}, "logit_bias"),
    ],
)
def test_a_wrong_control_is_named(server: ApiServer, path: str, body: dict[str, Any], param: str) -> None:
    error = refused(server, path, **body)
    assert error["param"] == param and param in error["message"]
    assert error["type"] == "invalid_request_error"
