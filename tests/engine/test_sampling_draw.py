"""Drawing: the distribution is transformers', off means off, and rows have nothing to do with each other."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pagedchat.engine.sampling_draw import TOP_K_OFF, Drawer, Filters, likeliest
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.sampling_state import SamplingState
from support.sampling import request, tokens, transformers_scores, vocabulary

CONTROLS = [
    {},
    {"temperature": 0.2},
    {"temperature": 0.2, "top_p": 0.9},
    {"temperature": 0.8, "top_p": 0.9},
    {"temperature": 1.7, "top_p": 0.5},
    {"top_k": 5},
    {"top_k": 40, "top_p": 0.7},
    {"temperature": 0.3, "top_k": 40, "top_p": 0.95},
    {"top_k": 300},
    {"temperature": 0.6, "top_k": 300, "top_p": 0.8, "min_p": 0.02},
    {"min_p": 0.1},
    {"temperature": 2.0, "min_p": 0.05},
    {"temperature": 0.25, "min_p": 0.05},
    {"temperature": 1.5, "top_p": 0.9, "min_p": 0.03},
    {"temperature": 0.7, "top_k": 20, "min_p": 0.05},
    {"temperature": 0.9, "top_k": 7, "top_p": 0.6, "min_p": 0.2},
]


def some_logits(vocab: int, seed: int = 0) -> np.ndarray:
    """Like a model's: a few tokens far above a broad rest."""
    rng = np.random.default_rng(seed)
    return (rng.normal(scale=2.5, size=vocab) + 9 * (rng.random(vocab) < 12 / vocab)).astype(np.float32)


def filters(count: int, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0) -> Filters:
    return Filters(
        np.full(count, temperature, np.float32),
        np.full(count, top_k or TOP_K_OFF, np.int64),
        np.full(count, top_p, np.float64),
        np.full(count, min_p, np.float32),
    )


def draw(logits: np.ndarray, numbers: np.ndarray, **controls) -> np.ndarray:
    """One row of logits drawn from once for each number."""
    rows = np.repeat(logits[None], len(numbers), axis=0)
    return Drawer().draw(rows, rows.max(axis=1), filters(len(numbers), **controls), numbers)


def draws(logits, count=400, **controls):
    """First ids of requests with different seeds."""
    params = SamplingParams(**controls)
    requests = [request(params, seed=seed) for seed in range(count)]
    return tokens(np.repeat(np.asarray(logits, np.float32)[None], count, axis=0), requests)


@pytest.mark.parametrize(("vocab", "count"), [(97, 2000), (4999, 800), (20480, 200)])
@pytest.mark.parametrize("controls", CONTROLS, ids=str)
def test_the_distribution_is_that_of_transformers(vocab: int, count: int, controls: dict) -> None:
    logits = some_logits(vocab)
    scores = transformers_scores(logits, SamplingParams(**controls), [0], [], [])
    wanted = np.exp(scores.astype(np.float64) - scores.max())
    wanted /= wanted.sum()
    numbers = (np.arange(count) + 0.5) / count  # evenly spaced: counts may differ by one, not by chance
    got = np.bincount(draw(logits, numbers, **controls), minlength=vocab)
    assert np.abs(got - wanted * count).max() <= 1.01
    assert not got[np.isneginf(scores)].any()
    assert got[wanted * count > 1.01].all()


@pytest.mark.parametrize("controls", CONTROLS, ids=str)
def test_a_row_gets_the_same_whatever_rows_stand_beside_it(controls: dict) -> None:
    vocab, count = 3001, 24
    logits = np.stack([some_logits(vocab, seed) * (1 + seed % 3) for seed in range(count)])
    numbers = np.random.default_rng(3).random(count)
    peaks, drawer = logits.max(axis=1), Drawer()
    mixed = [filters(1, **CONTROLS[row % len(CONTROLS)]) for row in range(count)]
    mixed[7] = filters(1, **controls)
    together = Filters(*(np.concatenate([vars(one)[name] for one in mixed]) for name in vars(mixed[0])))
    chosen = drawer.draw(logits, peaks, together, numbers)
    for row in range(count):
        alone = drawer.draw(logits[row : row + 1], peaks[row : row + 1], mixed[row], numbers[row : row + 1])
        assert alone[0] == chosen[row]


def test_every_number_gives_a_token_that_can_come() -> None:
    logits = some_logits(1500)
    logits[::2] = -np.inf
    for controls in CONTROLS:
        got = draw(logits, np.array([0.0, 5e-324, 0.5, 1 - 2.0**-53]), **controls)
        assert np.isfinite(logits[got]).all()


def test_padded_rows_of_a_wider_array_change_nothing() -> None:
    wide = np.stack([some_logits(2100, seed) for seed in range(8)])
    narrow, numbers = wide[:, :2001], np.linspace(0.05, 0.95, 8)
    for controls in CONTROLS:
        one, other = (
            Drawer().draw(rows, rows.max(axis=1), filters(8, **controls), numbers) for rows in (narrow, narrow.copy())
        )
        assert one.tolist() == other.tolist()


def test_the_likeliest_come_in_order_and_equal_ones_by_id() -> None:
    for vocab in (50, 12000):
        logits = np.stack([np.round(some_logits(vocab, seed) * 4) for seed in range(5)])
        for count in (1, 7, 20):
            ids, values = likeliest(logits, count)
            order = np.argsort(-logits, axis=1, kind="stable")[:, :count]
            assert ids.tolist() == order.tolist()
            assert values.tolist() == np.take_along_axis(logits, order, axis=1).tolist()


# Temperature near zero, and values that mean nothing


@pytest.mark.parametrize("temperature", [0, 1e-9, 1e-6, 0.0])
def test_zero_and_tiny_temperatures_take_the_best_id(temperature: float) -> None:
    assert draws([0, 100, 99], 100, temperature=temperature) == [1] * 100


def test_the_smallest_random_temperature_overflows_nowhere() -> None:
    with np.errstate(all="raise", under="ignore"):
        assert draws([0, 100, 99], 100, temperature=1e-5) == [1] * 100
        assert draws([0, 100, 99], 100, temperature=1e-5, top_p=0.5, top_k=2, min_p=0.5) == [1] * 100


def test_a_batch_with_a_greedy_and_a_random_row_keeps_both_right() -> None:
    logits = np.zeros((2, 50), np.float32)
    logits[0, 7] = 1
    cold, warm = SamplingParams(temperature=0), SamplingParams(temperature=0.8)
    rows = [tokens(logits, [request(cold), request(warm, seed=seed)]) for seed in range(60)]
    assert {row[0] for row in rows} == {7}
    assert len({row[1] for row in rows}) > 20


# Filters at their ends


@pytest.mark.parametrize("top_k", [0, -1, 50, 51, 10**7])
def test_top_k_off_or_beyond_the_vocabulary_keeps_everything(top_k: int) -> None:
    assert len(set(draws(np.zeros(50), 600, top_k=top_k))) == 50


def test_top_k_one_and_tiny_top_p_keep_the_best() -> None:
    logits = np.linspace(0, 1, 30)
    assert set(draws(logits, 50, top_k=1)) == {29}
    assert set(draws(logits, 50, top_p=1e-9)) == {29}
    assert set(draws(logits, 50, top_p=0)) == {29}
    assert set(draws(logits, 50, min_p=1)) == {29}
    flat = np.zeros(49_152, np.float32)
    assert draw(flat, np.array([0.0, 0.9]), top_p=0).tolist() == [0, 0]


def test_temperature_comes_before_min_p() -> None:
    logits = np.log([0.60, 0.05, *[0.005] * 70])
    assert set(draws(logits, 1500, temperature=2.0, min_p=0.1)) == {0, 1}


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    assert set(draws(np.log([0.5, 0.3, 0.15, 0.05]), 2000, top_p=0.79)) == {0, 1}
    assert set(draws(np.log([0.5, 0.3, 0.15, 0.05]), 2000, top_p=0.81)) == {0, 1, 2}


def test_of_equal_tokens_top_p_keeps_the_lower_ids_and_top_k_all() -> None:
    assert set(draws(np.zeros(40), 2000, top_p=0.25)) == set(range(10))
    assert set(draws([1, 0, 0, 0, -1], 2000, top_k=2)) == {0, 1, 2, 3}


def test_top_p_counts_what_top_k_left() -> None:
    assert set(draws(np.log([0.4, 0.3, 0.2, 0.1]), 2000, top_k=2, top_p=0.56)) == {0}


def test_frequencies_follow_the_probabilities() -> None:
    wanted = np.array([0.5, 0.25, 0.125, 0.125])
    for more in ({}, {"top_p": 0.99999}, {"top_k": 4}, {"min_p": 0.001}):
        got = np.bincount(draws(np.log(wanted), 4000, **more), minlength=4) / 4000
        assert np.abs(got - wanted).max() < 0.03


def test_numbers_of_one_seed_are_even_and_do_not_repeat() -> None:
    state = SamplingState(request(SamplingParams(), seed=-5), vocabulary(4))
    numbers = np.array([state.number(place) for place in range(5000)])
    assert len(set(numbers)) == 5000 and numbers.min() >= 0 and numbers.max() < 1
    assert np.abs(np.histogram(numbers, 10, (0, 1))[0] - 500).max() < 5 * math.sqrt(450)
    assert state.number(70) == numbers[70] != SamplingState(request(SamplingParams(), seed=6), vocabulary(4)).number(70)
