"""A small share of each long trial, and the runner's own promises. PAGEDCHAT_TRIALS sets the share."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.paged_model import cold
from trials import pools, running, scheduler
from trials.models import model_named
from trials.running import Plan, Tally, run_trials

TRIALS = int(os.environ.get("PAGEDCHAT_TRIALS", "5"))


def quiet(line: str) -> None:
    pass


@pytest.mark.parametrize(("model", "share"), [("llama", 2), ("scripted", 6)])
def test_warm_conversations_say_what_cold_ones_say_and_find_all_that_was_computed(model, share):
    tally = run_trials(Plan("equality", model=model), share * TRIALS, None, quiet)
    assert not tally.failures, tally.failures[0]["error"]
    assert tally.notes["cached tokens"] > 10 * tally.notes["requests"]
    assert tally.notes.get("close calls", 0) <= 1


@pytest.mark.parametrize(("model", "share"), [("llama", 1), ("scripted", 6)])
def test_mixed_workloads_say_the_same_in_a_tiny_pool_as_in_a_huge_one(model, share):
    tally = run_trials(Plan("pools", model=model), share * TRIALS, None, quiet)
    assert not tally.failures, tally.failures[0]["error"]
    assert tally.notes["tiny: preemptions"] > 0 and tally.notes["tiny: evictions"] > 0


@pytest.mark.timeout(600)
def test_a_long_life_with_and_without_pressure_ends_with_nothing_held():
    tally = run_trials(Plan("scheduler", steps=200 * TRIALS), 2, None, quiet)
    assert not tally.failures, tally.failures[0]["error"]
    for state in ("waiting", "prefilling", "decoding"):
        assert tally.notes[f"cancelled {state}"] > 0
    assert tally.notes["ended by stop"] > 0 and tally.notes["ended by length"] > 0


def test_a_stale_slot_is_noticed(monkeypatch):
    model = model_named("scripted")
    honest = model.engine

    def confused(block_size, num_blocks, **settings):
        engine = honest(block_size, num_blocks, **settings)
        if num_blocks < 100:
            execute = engine.runner.execute

            def forget_copies(batch):
                batch.copies = []
                return execute(batch)

            monkeypatch.setattr(engine.runner, "execute", forget_copies)
        return engine

    monkeypatch.setattr(model, "engine", confused)
    with pytest.raises(AssertionError):
        for number in range(50):
            pools.trial(random.Random(number), model)


def test_the_script_is_what_the_scripted_model_says():
    prompt = [5, 4, 3, 90, 91]
    assert scheduler.spell(prompt, 6, ignore_eos=True)[:6] == cold(prompt, 6)


def test_trials_go_on_where_they_stopped_and_give_the_bound(tmp_path, monkeypatch):
    ran = []

    def trial(plan, number):
        ran.append(number)
        if number == 2 and plan.seed == 1:
            raise AssertionError("on purpose")
        return Counter(seen=1)

    monkeypatch.setattr(running.Plan, "run", trial)
    state = tmp_path / "state.json"
    assert run_trials(Plan("equality"), 3, state, quiet).done == 3
    tally = run_trials(Plan("equality"), 300, state, quiet)
    assert ran == list(range(300))
    assert tally.notes == {"seen": 300}
    assert "300 trials, 0 failures: failure rate under 3/n = 0.01" in tally.summary()
    with pytest.raises(ValueError, match="other trials"):
        run_trials(Plan("equality", seed=1), 3, state, quiet)
    failed = run_trials(Plan("equality", seed=1), 4, tmp_path / "other.json", quiet)
    assert [one["trial"] for one in failed.failures] == [2] and "25.00%" in failed.summary()
    assert Tally().summary().startswith("0 trials")


def test_the_command_runs_from_the_root(tmp_path):
    command = [sys.executable, "-m", "tests.trials", "pools", "--n", "2", "--state", str(tmp_path / "pools.json")]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "pools, seed 0, scripted model: 2 trials, 0 failures: failure rate under 3/n = 1.5" in done.stdout
