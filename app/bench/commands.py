"""``pagedchat bench``: measurements a user can repeat. Everything heavy loads in the command that needs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...engine.errors import ConfigError
from ..terminal import say

if TYPE_CHECKING:
    from .quality import QualityReport
    from .regress import Outcome

bench_cli = typer.Typer(help="Measure this installation.", rich_markup_mode=None)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ModelsDir = Annotated[Path | None, typer.Option(help="Folder of the models.", show_default=False)]


@bench_cli.command("regress")
def regress(
    full: Annotated[
        bool, typer.Option("--full", help="All questions, not one of each kind, and plain torch as well: half an hour.")
    ] = False,
    models_dir: ModelsDir = None,
    as_json: AsJson = False,
) -> None:
    """Does the default model still say what it should, however it is served?

    Every two settings meet in some combination. In float32 all replies must equal plain transformers'; of other number
    formats it is told where they first differ and how often. Ends with 1 when something is wrong.
    """
    from .combinations import exact_combinations, inexact_combinations, quick_combinations
    from .models import BenchModel
    from .regress import load_cases, run_combination, share_of

    model = BenchModel.open(default_model(models_dir))
    cases = load_cases() if full else share_of(load_cases())
    outcomes = []
    for combination in exact_combinations() + inexact_combinations() if full else quick_combinations():
        outcomes.append(run_combination(model, combination, cases))
        say("\n".join(outcome_lines(outcomes[-1])), sys.stderr if as_json else sys.stdout)
    passed = all(outcome.passed for outcome in outcomes)
    if as_json:
        found = {"passed": passed, "cases": len(cases), "combinations": [one.to_dict() for one in outcomes]}
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        wrong = sum(not outcome.passed for outcome in outcomes)
        print(f"{len(outcomes)} combinations of {len(cases)} chats: {'all right' if passed else f'{wrong} wrong'}")
    raise typer.Exit(0 if passed else 1)


@bench_cli.command("quality")
def quality(
    passages: Annotated[int | None, typer.Option(min=1, max=8, help="Passages of text; fewer are quicker.")] = None,
    peer: Annotated[bool, typer.Option(help="Compare with transformers' own cache, too.")] = True,
    model: Annotated[str, typer.Option(help="GGUF file, Hugging Face folder, or a name in the models folder.")] = "",
    models_dir: ModelsDir = None,
    as_json: AsJson = False,
) -> None:
    """How far are the fast paths from float32, and from each other?"""
    from .models import DEFAULT_MODE, EXACT_MODES, BenchModel
    from .quality import load_passages, run_quality
    from .transformers_peer import cache_flip_rate

    loaded = BenchModel.open(named_model(model, models_dir) if model else default_model(models_dir))
    report = run_quality(
        loaded,
        (DEFAULT_MODE, EXACT_MODES[0]),
        load_passages(loaded, passages),
        (lambda texts: cache_flip_rate(loaded, texts)) if peer else None,
        lambda line: say(line, sys.stderr),
    )
    print(json.dumps(report.to_dict(), indent=2, ensure_ascii=False) if as_json else "\n".join(quality_lines(report)))


@bench_cli.command("scheduling")
def scheduling(
    running: Annotated[int, typer.Option(min=1, max=512, help="Requests that decode at once.")] = 64,
    num_blocks: Annotated[int, typer.Option(min=1000, help="Blocks in the pool.")] = 50_000,
    chats: Annotated[int, typer.Option(min=10, help="Chats under one system prompt.")] = 10_000,
    as_json: AsJson = False,
) -> None:
    """What does the engine's own work cost a step, without any model? Ends with 1 when a goal is missed."""
    from .scheduling import run_scheduling, scheduling_lines

    report = run_scheduling(running, num_blocks, chats)
    print(json.dumps(report.to_dict(), indent=2) if as_json else "\n".join(scheduling_lines(report)))
    raise typer.Exit(0 if report.passed else 1)


def default_model(models_dir: Path | None) -> Path:
    """The default model, fetched if it is not here."""
    from ..model_fetch import ModelFetch
    from ..terminal import fetch_display

    store = _store(models_dir)
    found = store.resolve("default")
    if found is not None:
        return found
    with fetch_display() as show:
        return ModelFetch(store, show).run()


def named_model(name: str, models_dir: Path | None) -> Path:
    """A model that is here."""
    found = _store(models_dir).resolve(name)
    if found is None:
        raise ConfigError(f"{name} is not here yet; `pagedchat models pull` fetches it.")
    return found


def outcome_lines(outcome: Outcome) -> list[str]:
    """What one combination brought: a line, and where it first differs."""
    rate = f", {len(outcome.differences)} flips in {outcome.tokens} tokens ({outcome.flip_rate:.2%})"
    verdict = "ok    " if outcome.passed else "WRONG "
    lines = [f"{verdict}{outcome.combination}: {outcome.seconds:.1f} s{rate if outcome.differences else ''}"]
    lines += [f"      first: {difference}" for difference in outcome.differences[:1]]
    return lines + [f"      {problem}" for problem in outcome.problems[:3]]


def quality_lines(report: QualityReport) -> list[str]:
    """The tables of a report."""
    lines = [f"{report.tokens:,} tokens; float32 in plain torch: perplexity {report.truth_perplexity:.4f}"]
    for mode, routes in report.measures.items():
        lines += ["", f"{mode:<22}{'perplexity':>12}{'KL f32':>11}{'flips f32':>11}{'KL whole':>11}{'flips whole':>13}"]
        for name, measure in routes.items():
            one = measure.to_dict()
            lines.append(
                f"  {name:<20}{one['perplexity']:>12.4f}{one['kl']:>11.2e}{one['flip_rate']:>11.2%}"
                f"{one['kl_whole']:>11.2e}{one['flip_rate_whole']:>13.2%}"
            )
    if report.peer_flip_rate is not None:
        lines += ["", f"transformers in bf16, cached against whole: {report.peer_flip_rate:.2%} flips"]
    elif report.peer_note:
        lines += ["", f"transformers: {report.peer_note}"]
    return [*lines, "", *(goal_line(goal) for goal in report.goals)]


def goal_line(goal: Any) -> str:
    """A goal with its verdict."""
    return f"{'met   ' if goal.met else 'MISSED'} {goal.text}: {goal.got:.3g} (goal: at most {goal.goal:.3g})"


def _store(models_dir: Path | None):
    from ..model_store import ModelStore
    from ..settings import load_settings

    return ModelStore(load_settings({"models_dir": models_dir})[1].models)
