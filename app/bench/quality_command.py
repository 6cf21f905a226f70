"""The command ``pagedchat bench quality``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..options import AsJson, ModelsDir
from ..terminal import say
from .options import Output, chosen_model, keep

if TYPE_CHECKING:
    from .quality import QualityReport
    from .report import Cell, Table


def quality(
    passages: Annotated[int | None, typer.Option(min=1, max=8, help="Passages of text; fewer are quicker.")] = None,
    peer: Annotated[bool, typer.Option(help="Compare with transformers' own cache, too.")] = True,
    model: Annotated[str, typer.Option(help="GGUF file, Hugging Face folder, or a name in the models folder.")] = "",
    models_dir: ModelsDir = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """How far are the fast paths from float32, and from each other?"""
    from .cells import bench_configuration
    from .models import DEFAULT_MODE, EXACT_MODES, BenchModel
    from .quality import load_passages, run_quality
    from .report import BenchResult
    from .transformers_peer import cache_flip_rate

    asked = {"passages": passages, "model": model or "default"}
    loaded = BenchModel.open(chosen_model(model, models_dir))
    result = BenchResult("quality", bench_configuration(loaded.checkpoint), asked)
    report = run_quality(
        loaded,
        (DEFAULT_MODE, EXACT_MODES[0]),
        load_passages(loaded, passages),
        (lambda texts: cache_flip_rate(loaded, texts)) if peer else None,
        lambda line: say(line, sys.stderr),
    )
    print(json.dumps(report.to_dict(), indent=2, ensure_ascii=False) if as_json else "\n".join(quality_lines(report)))
    result.figures, result.passed = report.to_dict(), all(goal.met for goal in report.goals)
    result.tables += quality_tables(report)
    keep(result, output)


def quality_tables(report: QualityReport) -> list[Table]:
    """A table for each mode, and the goals."""
    from .report import Table

    figures = ["perplexity", "kl", "flip_rate", "kl_whole", "flip_rate_whole"]
    heads = ["route", "perplexity", "KL to float32", "flips to float32", "KL to whole", "flips to whole"]
    tables = []
    for mode, routes in report.measures.items():
        rows: list[list[Cell]] = [[name, *(one.to_dict()[key] for key in figures)] for name, one in routes.items()]
        tables.append(Table(mode, heads, rows))
    goals: list[list[Cell]] = [[one.text, one.got, one.goal, "met" if one.met else "missed"] for one in report.goals]
    return [*tables, Table("Goals", ["figure", "here", "at most", ""], goals)]


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
