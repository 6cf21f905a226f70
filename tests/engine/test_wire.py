"""The lines between parent and child: cut anywhere, and the same values on both sides."""

from __future__ import annotations

import math

import pytest

from pagedchat.engine import wire
from pagedchat.engine.errors import EngineError, ModelFileError, RequestError
from pagedchat.engine.generate_request import GenerateRequest, RequestStarted
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.types import RequestMetrics, RequestOutput, TokenLogprob, TokenLogprobs

ODD = bytes(range(256))


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_lines_are_found_whatever_the_sizes_in_which_bytes_arrive(size: int) -> None:
    lines = [b'{"a":1}', b"", b'{"text":"' + "žluťoučký".encode() * 20 + b'"}', b"[]"]
    data = b"".join(line + b"\n" for line in lines)
    splitter = wire.LineSplitter()
    found = [line for start in range(0, len(data), size) for line in splitter.feed(data[start : start + size])]
    assert found == lines


def test_an_unfinished_line_waits_for_its_end() -> None:
    splitter = wire.LineSplitter()
    assert list(splitter.feed(b"half")) == []
    assert list(splitter.feed(b" a line\nnext")) == [b"half a line"]


@pytest.mark.parametrize(
    "output",
    [
        RequestOutput("a", [1], "x"),
        RequestOutput("a", [1, 2], "", None, None, RequestMetrics(prompt_tokens=3, ttft_s=0.5)),
        RequestOutput("a", [], "né", "error", "A sentence.", None),
        RequestOutput("a", [2], "", "stop", None, RequestMetrics(cached_tokens=7, preemptions=1)),
        RequestOutput("a", [3], "x", logprobs=[TokenLogprobs(3, -math.inf, 9, b"x", [TokenLogprob(4, -0.1, 1, ODD)])]),
        RequestOutput("a", [3], prompt_logprobs=[None, TokenLogprobs(5, -2.5, 3, ODD)]),
    ],
)
def test_an_output_survives_the_way(output: RequestOutput) -> None:
    line = wire.encode({"outputs": [wire.output_to_wire(output)]})
    assert line.count(b"\n") == 1
    assert wire.output_from_wire(wire.decode(line)["outputs"][0]) == output


def test_a_request_survives_the_way() -> None:
    controls = {"temperature": 0.5, "top_k": 3, "seed": 2**62, "stop": ["\n", "end"], "max_tokens": None}
    more = {"logit_bias": {5: -1.5, 70_000: 100.0}, "stop_token_ids": [3], "logprobs": 0, "dry_multiplier": 0.8}
    params = SamplingParams(**controls, **more)
    messages = [{"role": "user", "content": "line\nbreak \u2028 and \0", "token_ids": None}]
    request = GenerateRequest(params, messages=messages, labels={"session": "s"}, salt="x", priority=2)
    assert wire.request_from_wire(wire.decode(wire.encode(wire.request_to_wire(request)))) == request


def test_a_started_prompt_is_put_together_from_its_segments() -> None:
    started = RequestStarted("a", [1, 2, 3, 4], [[1, 2], [3]], [4], 2, "A note.")
    fields = wire.decode(wire.encode(wire.started_to_wire(started)))
    assert fields["prompt_token_ids"] is None
    assert wire.started_from_wire(fields) == started
    without = RequestStarted("a", [1, 2])
    assert wire.started_from_wire(wire.decode(wire.encode(wire.started_to_wire(without)))) == without


def test_half_a_character_is_refused_in_words() -> None:
    with pytest.raises(RequestError, match="surrogate"):
        wire.encode({"text": "\ud83d"})


def test_errors_of_ours_keep_class_and_text_and_others_tell_no_details() -> None:
    error = wire.error_from_wire(wire.error_to_wire(ModelFileError("The file is cut.")))
    assert type(error) is ModelFileError
    assert str(error) == "The file is cut."
    error = wire.error_from_wire(wire.error_to_wire(KeyError("secret")))
    assert type(error) is EngineError
    assert "secret" not in str(error)
    assert "KeyError" in str(error)


def test_a_refusal_keeps_the_field_to_blame() -> None:
    for error in (RequestError("n must be 1.", "n"), RequestError("No field.")):
        got = wire.error_from_wire(wire.decode(wire.encode(wire.error_to_wire(error))))
        assert isinstance(got, RequestError) and (str(got), got.param) == (str(error), error.param)


def test_an_error_that_only_the_child_knows_arrives_as_the_public_one_it_is() -> None:
    class TemplateError(RequestError):
        pass

    error = wire.error_from_wire(wire.error_to_wire(TemplateError("The template wants another order.")))
    assert type(error) is RequestError


def test_a_kind_that_is_no_error_of_ours_cannot_be_smuggled_in() -> None:
    assert type(wire.error_from_wire({"kind": "annotations", "text": "x"})) is EngineError


@pytest.mark.parametrize("given", [{}, {"prompt": "a", "prompt_token_ids": [1]}, {"prompt": "", "messages": []}])
def test_a_request_has_exactly_one_prompt(given: dict) -> None:
    with pytest.raises(RequestError, match="exactly one"):
        GenerateRequest(SamplingParams(), **given)
