"""The command ``pagedchat bench scheduling``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from .options import AsJson


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
