"""The command ``pagedchat bench regress``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ...sessions.wording import counted
from ..options import AsJson, ModelsDir
from ..terminal import say
from .options import Output, default_model, keep

if TYPE_CHECKING:
    from .regress import Outcome
    from .report import Cell, Table


def regress(
    full: Annotated[
        bool,
        typer.Option("--full", help="All questions, not one of each kind, and plain torch as well: an hour or more."),
    ] = False,
    models_dir: ModelsDir = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Does the default model still say what it should, however it is served?

    Every two settings meet in some combination. In float32 all replies must equal plain transformers'; of other number
    formats it is told where they first differ and how often. Ends with 1 when something is wrong.
    """
    from ..settings import load_settings
    from .cells import bench_configuration
    from .combinations import exact_combinations, inexact_combinations, quick_combinations
    from .models import BenchModel
    from .regress import load_cases, run_combination, share_of
    from .report import BenchResult

    model = BenchModel.open(default_model(models_dir))
    settings = load_settings({"models_dir": models_dir})[0]
    result = BenchResult("regress", bench_configuration(model.checkpoint, settings), {"full": full})
    cases = load_cases() if full else share_of(load_cases())
    outcomes = []
    for combination in exact_combinations() + inexact_combinations() if full else quick_combinations():
        outcomes.append(run_combination(model, combination, cases))
        say("\n".join(outcome_lines(outcomes[-1])), sys.stderr if as_json else sys.stdout)
    passed = all(outcome.passed for outcome in outcomes)
    found = {"passed": passed, "cases": len(cases), "combinations": [one.to_dict() for one in outcomes]}
    wrong = sum(not outcome.passed for outcome in outcomes)
    tried = f"{counted(len(outcomes), 'combination')} of {counted(len(cases), 'chat')}"
    result.verdict = f"{tried}: {'all right' if passed else f'{wrong} wrong'}"
    print(json.dumps(found, indent=2, ensure_ascii=False) if as_json else result.verdict)
    result.figures, result.passed = found, passed
    result.tables.append(outcome_table(outcomes))
    keep(result, output)
    raise typer.Exit(0 if passed else 1)


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """A row for each combination."""
    from .report import Table

    columns = ["combination", "seconds", "tokens", "differ", "verdict", "first problem or difference"]
    rows: list[list[Cell]] = []
    for one in outcomes:
        first = next((str(found) for found in [*one.problems, *one.differences]), "")
        verdict = "ok" if one.passed else "wrong"
        rows.append([str(one.combination), one.seconds, one.tokens, len(one.differences), verdict, first])
    return Table("Combinations", columns, rows)


def outcome_lines(outcome: Outcome) -> list[str]:
    """What one combination brought: a line, and where it first differs."""
    rate = f", {len(outcome.differences)} flips in {outcome.tokens} tokens ({outcome.flip_rate:.2%})"
    verdict = "ok    " if outcome.passed else "WRONG "
    lines = [f"{verdict}{outcome.combination}: {outcome.seconds:.1f} s{rate if outcome.differences else ''}"]
    lines += [f"      first: {difference}" for difference in outcome.differences[:1]]
    return lines + [f"      {problem}" for problem in outcome.problems[:3]]
