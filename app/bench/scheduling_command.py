"""The command ``pagedchat bench scheduling``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..options import AsJson
from .options import Output, keep


def scheduling(
    running: Annotated[int, typer.Option(min=1, max=512, help="Requests that decode at once.")] = 64,
    num_blocks: Annotated[int, typer.Option(min=1000, help="Blocks in the pool.")] = 50_000,
    chats: Annotated[int, typer.Option(min=10, help="Chats under one system prompt.")] = 10_000,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """What does the engine's own work cost a step, without any model? Ends with 1 when a goal is missed."""
    from ..operate.snapshot import configuration_snapshot
    from .report import BenchResult
    from .scheduling import run_scheduling, scheduling_lines

    asked = {"running": running, "num_blocks": num_blocks, "chats": chats}
    result = BenchResult("scheduling", configuration_snapshot(), asked)
    report = run_scheduling(running, num_blocks, chats)
    lines = scheduling_lines(report)
    print(json.dumps(report.to_dict(), indent=2) if as_json else "\n".join(lines))
    result.figures, result.passed, result.verdict = report.to_dict(), report.passed, "\n".join(lines)
    keep(result, output)
    raise typer.Exit(0 if report.passed else 1)
