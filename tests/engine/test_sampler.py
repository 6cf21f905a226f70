"""Sampling: bad values are refused, off means off, and each request has a random stream of its own."""

import math

import numpy as np
import pytest

from pagedchat.engine.errors import RequestError
from pagedchat.engine.sampler import sample
from pagedchat.engine.sampling_params import SamplingParams


def draws(logits, count=400, **params):
    one = SamplingParams(**params)
    rows = np.tile(np.asarray(logits, np.float32), (count, 1))
    return sample(rows, [one] * count, [11] * count, list(range(count)))


@pytest.mark.parametrize("temperature", [0, 1e-9, 1e-6, 0.0])
def test_zero_and_tiny_temperatures_take_the_best_id(temperature):
    assert draws([0, 100, 99], 100, temperature=temperature) == [1] * 100


@pytest.mark.parametrize("temperature", [-1, math.nan, math.inf, "0", None, True])
def test_meaningless_temperatures_are_refused_by_name(temperature):
    with pytest.raises(RequestError, match="temperature"):
        SamplingParams(temperature=temperature)


@pytest.mark.parametrize(
    "wrong",
    [{"top_p": 1.1}, {"top_k": -2}, {"top_k": 1.5}, {"min_p": -0.1}, {"max_tokens": 0}, {"seed": "x"}, {"stop": [""]}],
)
def test_other_meaningless_values_are_refused_by_name(wrong):
    with pytest.raises(RequestError, match=next(iter(wrong))):
        SamplingParams(**wrong)


def test_a_batch_with_a_greedy_and_a_random_row_keeps_both_right():
    logits = np.zeros((2, 50), np.float32)
    logits[0, 7] = 1
    params = [SamplingParams(temperature=0), SamplingParams(temperature=0.8)]
    rows = [sample(logits, params, [1, 2], [place, place]) for place in range(60)]
    assert {row[0] for row in rows} == {7}
    assert len({row[1] for row in rows}) > 20


@pytest.mark.parametrize("top_k", [0, -1, 50, 51, 10**7])
def test_top_k_off_or_beyond_the_vocabulary_keeps_everything(top_k):
    assert len(set(draws(np.zeros(50), 600, top_k=top_k))) == 50


def test_top_k_one_and_tiny_top_p_keep_the_best():
    logits = np.linspace(0, 1, 30)
    assert set(draws(logits, 50, top_k=1)) == {29}
    assert set(draws(logits, 50, top_p=1e-9)) == {29}
    assert set(draws(logits, 50, top_p=0)) == {29}
    assert set(draws(logits, 50, min_p=1)) == {29}


def test_temperature_comes_before_min_p():
    logits = np.log([0.60, 0.05, *[0.005] * 70])
    assert set(draws(logits, 4000, temperature=2.0, min_p=0.1)) == {0, 1}


def test_top_p_keeps_the_smallest_set_that_reaches_it():
    assert set(draws(np.log([0.5, 0.3, 0.15, 0.05]), 2000, top_p=0.79)) == {0, 1}
    assert set(draws(np.log([0.5, 0.3, 0.15, 0.05]), 2000, top_p=0.81)) == {0, 1, 2}


def test_top_p_counts_what_top_k_left():
    assert set(draws(np.log([0.4, 0.3, 0.2, 0.1]), 2000, top_k=2, top_p=0.56)) == {0}


def test_frequencies_follow_the_probabilities():
    wanted = np.array([0.5, 0.25, 0.125, 0.125])
    for more in ({}, {"top_p": 0.99999}, {"top_k": 4}):
        got = np.bincount(draws(np.log(wanted), 8000, **more), minlength=4) / 8000
        assert np.abs(got - wanted).max() < 0.02


def test_a_seed_and_a_place_decide_whatever_row_and_company():
    rng = np.random.default_rng(5)
    logits = rng.normal(size=(6, 40)).astype(np.float32)
    params = [SamplingParams(temperature=0.9, top_p=0.95)] * 6
    together = sample(logits, params, [3, 1, 4, 1, 5, 9], [0, 1, 2, 3, 4, 5])
    alone = [sample(logits[i : i + 1], params[:1], [s], [i])[0] for i, s in enumerate([3, 1, 4, 1, 5, 9])]
    assert together == alone


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_row_that_is_no_number_gives_no_token(value):
    logits = np.zeros((2, 5), np.float32)
    logits[0, 2] = value
    logits[1, 3] = 1
    assert sample(logits, [SamplingParams(temperature=0)] * 2, [0, 0], [0, 0]) == [None, 3]
    assert sample(np.full((1, 5), -math.inf, np.float32), [SamplingParams()], [0], [0]) == [None]
