"""Bias, bans, penalties and DRY: which tokens they count, in which order they work, and whom they spare."""

from __future__ import annotations

import numpy as np
import pytest

from pagedchat.engine.errors import RequestError
from pagedchat.engine.sampler import Sampler
from pagedchat.engine.sampling_params import SamplingParams
from support.sampling import request, tokens, transformers_scores, vocabulary


def shaped(logits, params: SamplingParams, prompt, output, tokenizer=None) -> np.ndarray:
    """A row's logits as the draw sees them."""
    rows = np.array([logits], np.float32)
    one = request(params, prompt, output)
    Sampler(tokenizer or vocabulary(rows.shape[1])).choose([one], rows)
    return rows[0]


def test_repetition_looks_at_prompt_and_reply_and_comes_before_presence_and_frequency() -> None:
    params = SamplingParams(repetition_penalty=2, presence_penalty=0.5, frequency_penalty=0.25)
    got = shaped([2.0] * 5, params, prompt=[1, 1], output=[2, 2])
    assert got.tolist() == [2.0, 1.0, 1.0 - 0.5 - 2 * 0.25, 2.0, 2.0]


def test_at_the_first_token_only_the_prompt_counts_and_only_for_repetition() -> None:
    params = SamplingParams(repetition_penalty=2, presence_penalty=0.5, frequency_penalty=0.25)
    assert shaped([2.0] * 5, params, prompt=[1, 1], output=[]).tolist() == [2.0, 1.0, 2.0, 2.0, 2.0]
    params = SamplingParams(presence_penalty=0.5, frequency_penalty=0.25)
    assert shaped([2.0] * 5, params, prompt=[1, 1], output=[]).tolist() == [2.0] * 5


def test_counts_grow_token_by_token_as_if_counted_anew() -> None:
    rng = np.random.default_rng(1)
    params = SamplingParams(repetition_penalty=1.3, presence_penalty=0.4, frequency_penalty=-0.2)
    logits, sampler = rng.normal(size=300).astype(np.float32), Sampler(vocabulary(300))
    growing = request(params, rng.integers(300, size=40).tolist())
    for _ in range(120):
        rows = logits[None].copy()
        sampler.choose([growing], rows)
        prompt, output = growing.prompt_token_ids, growing.token_ids[40:]
        assert rows[0].tolist() == shaped(logits, params, prompt, output).tolist()
        growing.token_ids.append(int(rng.integers(300)))


@pytest.mark.parametrize("output_length", [0, 1, 3, 9])
@pytest.mark.parametrize(
    "controls",
    [
        {"repetition_penalty": 1.7},
        {"repetition_penalty": 0.6},
        {"logit_bias": {3: 4.5, 17: -100}},
        {"min_tokens": 4},
        {"repetition_penalty": 1.3, "logit_bias": {5: -3.0, 9: 7.0}, "min_tokens": 4},
        {"temperature": 0, "repetition_penalty": 1.3, "logit_bias": {5: -3.0, 9: 7.0}, "min_tokens": 4},
    ],
    ids=str,
)
def test_logits_are_changed_as_transformers_changes_them(controls: dict, output_length: int) -> None:
    rng = np.random.default_rng(output_length)
    logits = (rng.normal(size=60) * 3).astype(np.float32)
    prompt, output = rng.integers(50, size=12).tolist(), rng.integers(50, size=output_length).tolist()
    ends = [55, 58]
    params = SamplingParams(**controls)
    got = shaped(logits, params, prompt, output, vocabulary(60, end_ids=ends))
    wanted = transformers_scores(logits, params, prompt, output, ends)
    np.testing.assert_array_equal(got, wanted)


def test_all_of_it_together_draws_as_transformers_would() -> None:
    rng = np.random.default_rng(5)
    logits = (rng.normal(size=600) * 3).astype(np.float32)
    prompt, output = rng.integers(600, size=200).tolist(), rng.integers(600, size=3).tolist()
    controls = {"temperature": 0.8, "top_k": 60, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.2}
    params = SamplingParams(**controls, logit_bias={3: 9.0, 40: -20.0}, min_tokens=5)
    scores = transformers_scores(logits, params, prompt, output, [599])
    wanted = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    count = 3000
    requests = [request(params, prompt, output, seed=seed) for seed in range(count)]
    got = tokens(np.repeat(logits[None], count, axis=0), requests, vocabulary(600, end_ids=[599]))
    shares = np.bincount(np.array(got), minlength=600) / count
    assert not shares[np.isneginf(scores)].any()
    assert np.abs(shares - wanted).max() < 0.03


def test_a_turn_may_always_end_whatever_the_penalties() -> None:
    tokenizer = vocabulary(20, end_ids=[7], special_ids=[8])
    params = SamplingParams(
        repetition_penalty=1.5, presence_penalty=2, frequency_penalty=2, dry_multiplier=5, stop_token_ids=[9]
    )
    history = [7, 8, 9, 4, 5, 6] * 10
    got = shaped([3.0] * 20, params, prompt=history, output=[1, 2, 7, 8, 9], tokenizer=tokenizer)
    assert got[7] == got[8] == got[9] == 3.0
    assert (got[[1, 2, 4, 5, 6]] < 3.0).all()


def test_rows_with_and_without_controls_share_a_batch() -> None:
    logits = np.tile(np.array([1.0, 2.0, 1.9, 0.5], np.float32), (4, 1))
    greedy = {"temperature": 0}
    requests = [
        request(SamplingParams(**greedy)),
        request(SamplingParams(**greedy, presence_penalty=1), output=[1]),
        request(SamplingParams(**greedy, logit_bias={3: 10})),
        request(SamplingParams(**greedy)),
    ]
    assert tokens(logits, requests) == [1, 2, 3, 1]


def test_min_tokens_holds_back_every_end_but_nothing_the_request_lets_pass() -> None:
    tokenizer = vocabulary(6, end_ids=[4])
    logits = [0.0, 1.0, 0.0, 0.0, 9.0, 8.0]

    def best(output, **more):
        one = request(SamplingParams(temperature=0, min_tokens=2, **more), output=output)
        return tokens([logits], [one], tokenizer)[0]

    assert best([], stop_token_ids=[5]) == best([0], stop_token_ids=[5]) == 1
    assert best([0, 0], stop_token_ids=[5]) == 4
    assert best([]) == 5
    assert best([], ignore_eos=True) == 4


def test_a_request_that_leaves_no_token_or_names_an_unknown_one_is_refused() -> None:
    sampler = Sampler(vocabulary(3, end_ids=[2]))
    with pytest.raises(RequestError, match="every token") as refusal:
        sampler.check(SamplingParams(min_tokens=1, stop_token_ids=[0, 1, 77]))
    assert refusal.value.param == "stop_token_ids"
    with pytest.raises(RequestError, match=r"token 3, .* ends at 2") as refusal:
        sampler.check(SamplingParams(logit_bias={0: 1, 3: 1}))
    assert refusal.value.param == "logit_bias"
    sampler.check(SamplingParams(logit_bias={2: 1}, min_tokens=1, stop_token_ids=[0, 77]))


# DRY


def dry_by_the_book(history, breakers, multiplier, base, allowed) -> dict[int, float]:
    """What each token would lose: its longest match by comparing every pair of places."""
    longest: dict[int, int] = {}
    for place in range(1, len(history)):
        token, length = history[place], 0
        if token in breakers:
            continue
        while length < place and length < 50:
            one, other = history[place - 1 - length], history[-1 - length]
            if one != other or one in breakers:
                break
            length += 1
        longest[token] = max(longest.get(token, 0), length)
    return {token: multiplier * base ** (length - allowed) for token, length in longest.items() if length >= allowed}


@pytest.mark.parametrize("allowed", [1, 2, 4])
def test_dry_is_what_comparing_all_places_gives(allowed: int) -> None:
    rng = np.random.default_rng(allowed)
    seen = 0
    for trial in range(150):
        history = rng.integers(1 + trial % 5, size=rng.integers(2, 40)).tolist()
        breakers = {3} if trial % 2 else set()
        controls = {"dry_multiplier": 0.8, "dry_base": 1.5, "dry_allowed_length": allowed}
        params = SamplingParams(**controls, dry_sequence_breakers=[f"[{one}]" for one in breakers])
        cut = int(rng.integers(1, len(history) + 1))
        got = shaped([0.0] * 6, params, history[:cut], history[cut:])
        wanted = dry_by_the_book(history, breakers, 0.8, 1.5, allowed)
        seen += len(wanted)
        np.testing.assert_allclose(-got, [wanted.get(token, 0) for token in range(6)], rtol=1e-5)
    assert seen > 50


def test_dry_stops_a_loop_and_a_breaker_lets_it_be() -> None:
    loop = [1, 2, 3] * 6
    off = {"dry_sequence_breakers": []}
    assert shaped([0.0] * 5, SamplingParams(dry_multiplier=1, **off), [0], loop)[1] < -1000
    assert not shaped([0.0] * 5, SamplingParams(dry_multiplier=1, dry_sequence_breakers=["[3]"]), [0], loop).any()
    assert not shaped([0.0] * 5, SamplingParams(**off), [0], loop).any()


def test_a_breaker_that_no_token_holds_is_the_last_token_it_is_written_with() -> None:
    params = SamplingParams(dry_multiplier=1, dry_sequence_breakers=["[1][3]"])
    assert not shaped([0.0] * 5, params, [0], [1, 2, 3] * 6).any()


def test_a_long_loop_leaves_numbers_that_are_still_numbers() -> None:
    params = SamplingParams(temperature=0, dry_multiplier=100, dry_base=100, dry_sequence_breakers=[])
    got = shaped([0.0] * 3, params, [0], [1] * 200)
    assert got[1] == np.float32(-1e30) and tokens([[0.0, 5.0, 1.0]], [request(params, [0], [1] * 200)]) == [2]
