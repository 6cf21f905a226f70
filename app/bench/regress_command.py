"""The command ``pagedchat bench regress``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ..terminal import say
from .options import AsJson, ModelsDir, default_model

if TYPE_CHECKING:
    from .regress import Outcome


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


def outcome_lines(outcome: Outcome) -> list[str]:
    """What one combination brought: a line, and where it first differs."""
    rate = f", {len(outcome.differences)} flips in {outcome.tokens} tokens ({outcome.flip_rate:.2%})"
    verdict = "ok    " if outcome.passed else "WRONG "
    lines = [f"{verdict}{outcome.combination}: {outcome.seconds:.1f} s{rate if outcome.differences else ''}"]
    lines += [f"      first: {difference}" for difference in outcome.differences[:1]]
    return lines + [f"      {problem}" for problem in outcome.problems[:3]]
