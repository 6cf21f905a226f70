"""Sampling controls: what has no meaning is refused by name, what is written oddly but clearly is taken."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pagedchat.engine.errors import RequestError
from pagedchat.engine.sampling_params import SamplingParams

WRONG: list[dict[str, Any]] = [
    *({"temperature": value} for value in (-1, math.nan, math.inf, "0", None, True, 101)),
    *({"top_p": value} for value in (1.1, -0.1, math.nan, "1")),
    *({"top_k": value} for value in (-2, 1.5, "5", True, 2**70)),
    *({"min_p": value} for value in (-0.1, 1.5, None)),
    *({"repetition_penalty": value} for value in (0, -1, math.inf, math.nan)),
    *({"presence_penalty": value} for value in (2.1, -2.1, "0")),
    *({"frequency_penalty": value} for value in (2.1, -2.1, math.nan)),
    *({"dry_multiplier": value} for value in (-1, math.inf)),
    {"dry_base": 0.9},
    *({"dry_allowed_length": value} for value in (0, 1.5)),
    *({"dry_sequence_breakers": value} for value in ([""], [1], 5)),
    *({"logit_bias": value} for value in ([1], {1: 101}, {1: math.nan}, {1: math.inf}, {-1: 1}, {"a": 1}, {1.5: 1})),
    *({"logit_bias": value} for value in ({"²": 1}, {True: 1}, {"1" * 30: 1}, {1: None})),
    *({"seed": value} for value in ("x", 1.0, -(2**63) - 1)),
    *({"n": value} for value in (0, 17, 1.0, None)),
    *({"max_tokens": value} for value in (0, -1, 1.5, "16")),
    *({"min_tokens": value} for value in (-1, 17, None)),
    *({"stop": value} for value in ([""], "", [1], 5)),
    *({"stop_token_ids": value} for value in ([-1], ["1"], 5, [True], "12")),
    {"ignore_eos": 1},
    *({"logprobs": value} for value in (-1, 21, True, 1.0)),
    *({"prompt_logprobs": value} for value in (-1, 21, True, "1")),
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_meaningless_values_are_refused_by_name(wrong: dict[str, Any]) -> None:
    name = next(iter(wrong))
    with pytest.raises(RequestError, match=f"^{name} ") as refusal:
        SamplingParams(**wrong)
    assert refusal.value.param == name
    assert str(refusal.value).endswith(".")


@pytest.mark.parametrize(
    "fine",
    [
        {"temperature": 1e-9, "top_k": 10**7, "top_p": 0, "min_p": 1, "seed": -(2**63)},
        {"top_k": -1, "n": 16, "logprobs": 20, "prompt_logprobs": 0},
        {"max_tokens": None, "min_tokens": 10**9},
    ],
    ids=str,
)
def test_values_at_the_ends_of_their_ranges_are_taken(fine: dict[str, Any]) -> None:
    params = SamplingParams(**fine)
    assert all(getattr(params, name) == value for name, value in fine.items())


def test_one_text_is_a_list_of_one_and_none_is_an_empty_one() -> None:
    assert SamplingParams(stop="end").stop == ["end"]  # type: ignore[arg-type]
    params = SamplingParams(stop=None, stop_token_ids=None, logit_bias=None, dry_sequence_breakers=None)  # type: ignore[arg-type]
    assert params.stop == params.stop_token_ids == params.dry_sequence_breakers == [] and params.logit_bias == {}


def test_ids_of_a_bias_may_be_texts_as_in_json() -> None:
    assert SamplingParams(logit_bias={"15": 1, 3: -100}).logit_bias == {15: 1.0, 3: -100.0}  # type: ignore[dict-item]


def test_only_prompt_logprobs_need_every_logit() -> None:
    assert SamplingParams(prompt_logprobs=0).needs_all_logits
    assert not SamplingParams(logprobs=5).needs_all_logits
