"""The regression set on the default model. PAGEDCHAT_TRIALS sets how many combinations run (all from 20 on, with all
questions); `pagedchat bench regress --full` runs everything."""

from __future__ import annotations

import json
import os

import pytest

from pagedchat.app.bench.combinations import exact_combinations
from pagedchat.app.bench.models import BenchModel
from pagedchat.app.bench.regress import DATA, load_cases, run_combination, share_of
from pagedchat.engine.prompt import PromptMessage, load_prompt_builder
from regression.conversations import CONVERSATIONS

TRIALS = int(os.environ.get("PAGEDCHAT_TRIALS", "5"))


def chosen_combinations():
    """Compiled kernels and company first, which are quickest, with and without the cache in turn."""
    order = sorted(exact_combinations(), key=lambda one: (one.mode.kernels, one.together == 1, not one.caching))
    if TRIALS >= 20:
        return order
    without = next(one for one in order if not one.caching)
    return list(dict.fromkeys([order[0], without, *order]))[: max(1, TRIALS // 2)]


@pytest.fixture(scope="module")
def model(default_model_path):
    return BenchModel.open(default_model_path)


@pytest.fixture(scope="module")
def cases():
    return load_cases() if TRIALS >= 20 else share_of(load_cases())


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("combination", chosen_combinations(), ids=str)
def test_float32_says_what_transformers_says(model, cases, combination):
    outcome = run_combination(model, combination, cases)
    assert outcome.passed, [*outcome.problems, *map(str, outcome.differences)]
    assert outcome.tokens > 200
    assert (outcome.cached_tokens > 0) == combination.caching


def test_the_questions_of_the_recipe_are_those_of_the_file(model):
    builder = load_prompt_builder(model.tokenizer)
    by_name = {(case.kind, case.name): case for case in load_cases()}
    assert set(by_name) == {(chat.kind, chat.name) for chat in CONVERSATIONS}
    for chat in CONVERSATIONS:
        messages = [PromptMessage("system", chat.system)] if chat.system else []
        for question, reply in chat.examples:
            messages += [PromptMessage("user", question), PromptMessage("assistant", reply)]
        built = builder.build([*messages, PromptMessage("user", chat.questions[0])])
        case = by_name[chat.kind, chat.name]
        assert built.token_ids == case.turns[0].prompt, f"{chat.name}: run the recipe again"
        assert len(case.turns) == len(chat.questions)


def test_each_turn_goes_on_from_the_reply_before_and_no_call_is_close():
    data = json.loads(DATA.read_text("utf-8"))
    assert data["source"].startswith("transformers")
    for case in data["cases"]:
        for turn, later in zip(case["turns"], case["turns"][1:], strict=False):
            known = turn["prompt"] + turn["reply"]
            assert later["prompt"][: len(known)] == known
        assert all(turn["closest_call"] > 0.004 for turn in case["turns"])
