"""``pagedchat bench``: what the commands print, on a tiny model, and how they end."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from pagedchat.app.bench import combinations, models, quality, quality_command, regress, regress_command
from pagedchat.app.commands import cli
from regression.tiny_set import ids, tiny_cases, tiny_model


@pytest.fixture(scope="module")
def made():
    model, plain = tiny_model()
    return model, tiny_cases(plain)


@pytest.fixture
def tiny(made, monkeypatch, tmp_path):
    model, cases = made[0], list(made[1])
    monkeypatch.setenv("PAGEDCHAT_DATA_DIR", str(tmp_path / "data"))
    few = combinations.exact_combinations()[:2]
    monkeypatch.setattr(regress_command, "default_model", lambda folder: tmp_path)
    monkeypatch.setattr(quality_command, "chosen_model", lambda name, folder: tmp_path)
    monkeypatch.setattr(models.BenchModel, "open", classmethod(lambda kind, path: model))
    monkeypatch.setattr(regress, "load_cases", lambda: cases)
    monkeypatch.setattr(combinations, "exact_combinations", lambda: few)
    monkeypatch.setattr(combinations, "quick_combinations", lambda: few)
    monkeypatch.setattr(combinations, "inexact_combinations", lambda: [])
    return cases


def run(*arguments):
    return CliRunner().invoke(cli, ["bench", *arguments])


def test_regress_says_of_each_combination_that_it_is_right_ends_with_0_and_keeps_a_report(tiny, tmp_path):
    done = run("regress", "--full")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("\nok ") + done.stdout.startswith("ok ") == 2
    assert f"2 combinations of {len(tiny)} chats: all right" in done.stdout
    kept = list((tmp_path / "data" / "state" / "bench").iterdir())
    assert sorted(path.suffix for path in kept) == [".html", ".json"]
    result = json.loads(next(path for path in kept if path.suffix == ".json").read_text("utf-8"))
    assert result["passed"] and len(result["tables"][0]["rows"]) == 2 and result["configuration"]["packages"]
    assert result["configuration"]["model"] == {"name": "tiny", "fingerprint": "tiny"}


def test_regress_says_which_combination_differs_and_where_first_and_ends_with_1(tiny):
    turn = tiny[0].turns[0]
    wrong = [*turn.reply[:-1], (turn.reply[-1] + 1) % 96]
    tiny[0] = replace(tiny[0], turns=[replace(turn, reply=wrong)])
    done = run("regress", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert not found["passed"] and found["cases"] < len(tiny)
    first = found["combinations"][0]["differences"][0]
    assert (first["name"], first["turn"], first["index"]) == (tiny[0].name, 0, len(wrong) - 1)
    assert (first["got"], first["expected"]) == (turn.reply[-1], wrong[-1])
    assert f"token {len(wrong) - 1}" in run("regress").stdout


def test_quality_prints_its_goals_with_verdicts(tiny, monkeypatch):
    draw = random.Random(1)
    passages = [ids(draw, 24) for _ in range(3)]
    monkeypatch.setattr(quality, "load_passages", lambda model, count: passages[:count])
    done = run("quality", "--passages", "2", "--no-peer")
    assert done.exit_code == 0, done.output
    assert "48 tokens; float32 in plain torch" in done.stdout
    assert "met    cpu float32: KL against float32, largest mean" in done.stdout
    report = json.loads(run("quality", "--no-peer", "--json").stdout)
    assert report["tokens"] == 72 and set(report["modes"]) == {"cpu bfloat16", "cpu float32"}


def test_bench_without_a_command_lists_them():
    assert "regress" in run("--help").stdout and "quality" in run("--help").stdout
