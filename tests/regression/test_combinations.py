"""The regression set's machinery on a tiny random model: all ways to serve say the same in float32, and a difference is
found where it is. PAGEDCHAT_TRIALS sets how many of all combinations run beside the covering set's share."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from itertools import combinations

import pytest

from pagedchat.app.bench import regress
from pagedchat.app.bench.combinations import (
    axis_values,
    every_combination,
    exact_combinations,
    inexact_combinations,
    quick_combinations,
)
from pagedchat.app.bench.models import DEFAULT_MODE, EXACT_MODES
from pagedchat.app.bench.regress import Turn, run_combination
from regression.tiny_set import tiny_cases, tiny_model

TRIALS = int(os.environ.get("PAGEDCHAT_TRIALS", "5"))


@pytest.fixture(scope="module")
def tiny():
    model, plain = tiny_model()
    return model, tiny_cases(plain)


def all_pairs(chosen):
    return {pair for one in chosen for pair in combinations(axis_values(one), 2)}


def test_any_two_values_of_two_axes_meet_in_the_covering_set():
    chosen = exact_combinations()
    assert all_pairs(chosen) == all_pairs(every_combination(EXACT_MODES))
    assert len(chosen) == len(set(chosen)) < 16
    quick = [one for one in quick_combinations() if one.mode.exact]
    assert all_pairs(quick) == all_pairs(every_combination(EXACT_MODES[:1]))
    assert all(one.mode.exact for one in chosen) and not any(one.mode.exact for one in inexact_combinations())


@pytest.mark.parametrize("combination", exact_combinations(), ids=str)
def test_float32_says_the_same_in_every_combination_of_the_covering_set(tiny, combination):
    model, cases = tiny
    outcome = run_combination(model, combination, cases)
    assert outcome.passed, [*outcome.problems, *map(str, outcome.differences)]
    assert outcome.tokens >= 100
    assert (outcome.cached_tokens > 0) == combination.caching
    if combination.pool == "tiny" and combination.together > 1 and combination.block_size <= 8:
        assert outcome.preemptions > 0


def test_float32_says_the_same_in_further_combinations(tiny):
    model, cases = tiny
    every = every_combination(EXACT_MODES)
    for combination in random.Random(1).sample(every, min(len(every), TRIALS)):
        outcome = run_combination(model, combination, cases)
        assert outcome.passed, (str(combination), outcome.problems, list(map(str, outcome.differences)))


def test_other_dtypes_report_where_they_differ_and_how_often_and_nothing_else_is_wrong(tiny):
    model, cases = tiny
    combination = next(one for one in inexact_combinations() if one.mode == DEFAULT_MODE and one.caching)
    outcome = run_combination(model, combination, cases)
    assert outcome.passed and not outcome.problems
    assert outcome.flip_rate == len(outcome.differences) / outcome.tokens < 0.2
    assert outcome.to_dict()["combination"]["mode"]["dtype"] == "bfloat16"


def test_a_difference_is_named_by_chat_turn_and_token_and_what_follows_is_not_compared(tiny):
    model, cases = tiny
    case = next(one for one in cases if one.kind == "turns")
    turn = case.turns[1]
    wrong = [*turn.reply[:3], (turn.reply[3] + 1) % 96, *turn.reply[4:]]
    spoilt = replace(case, turns=[case.turns[0], Turn(turn.prompt, wrong, turn.text), case.turns[2]])
    combination = next(one for one in exact_combinations() if not one.caching)
    outcome = run_combination(model, combination, [spoilt])
    (difference,) = outcome.differences
    assert (difference.name, difference.turn, difference.index) == (case.name, 1, 3)
    assert (difference.got, difference.expected) == (turn.reply[3], wrong[3])
    assert outcome.tokens == sum(len(one.reply) for one in case.turns) - len(wrong) + 4
    assert not outcome.passed and "turn 1, token 3" in str(difference)


def test_a_cache_that_finds_nothing_does_not_pass_for_one_that_works(tiny, monkeypatch):
    model, cases = tiny
    combination = next(one for one in exact_combinations() if one.caching and one.pool == "huge")
    serve_all = regress.serve_all

    def forgetful(engine, *arguments):
        for reply in serve_all(engine, *arguments):
            engine.reset_cache()
            yield reply

    monkeypatch.setattr(regress, "serve_all", forgetful)
    outcome = run_combination(model, replace(combination, together=1), cases[:4])
    assert not outcome.differences and not outcome.passed
    assert any("were found in the cache" in problem for problem in outcome.problems)
