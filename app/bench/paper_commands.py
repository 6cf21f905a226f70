"""The commands that ask what paging is worth: ``ablate``, ``memory``, ``block-size``, ``published``, ``long``,
``claims``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import AsJson, ModelsDir
from .http_commands import numbers
from .options import ModelName, Output, Seed, chosen_model, finish, progress

StepCostSource = Annotated[
    bool,
    typer.Option(
        "--measure/--no-measure",
        help="Measure what a step costs on this machine first, or take the stated cost; without a model then.",
    ),
]


def ablate(
    requests: Annotated[int, typer.Option(min=1, help="Requests of the load.")] = 96,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Requests a second; 0 is all at once.  [default: what contiguous memory with static batches serves "
            "when all wait]",
        ),
    ] = None,
    reservations: Annotated[int, typer.Option(min=1, help="KV budget, in whole contexts.")] = 8,
    context: Annotated[int, typer.Option(min=2048, help="Longest sequence, which a reservation takes.")] = 2048,
    measure: StepCostSource = True,
    seed: Seed = 1,
    model: ModelName = "",
    models_dir: ModelsDir = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Is it the memory or the scheduling? One load, contiguous or paged KV, static or continuous batches."""
    from .ablate import AblateLoad, run_ablate

    load = AblateLoad(requests, rate, reservations=reservations, max_model_len=context, seed=seed)
    if not measure:
        finish(run_ablate(load), as_json, output)
    from .models import BenchModel

    path = chosen_model(model, models_dir)
    with progress() as shown:
        shown.phase("measuring what a step costs, then serving")
        found = run_ablate(load, open_model=lambda: BenchModel.open(path))
    finish(found, as_json, output)


def memory(
    chats: Annotated[int, typer.Option(min=1, help="Chats of the trace.")] = 200,
    budget: Annotated[int, typer.Option(min=2048, help="KV in all, in tokens.")] = 16_384,
    block_size: Annotated[int, typer.Option(min=1, max=128, help="Tokens a block.")] = 16,
    seed: Seed = 1,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """How many chats fit, and what is wasted, with reservation, doubling, virtual memory and paging?

    Ends with 1 when less than 95 % of the slots that paging has in use hold a token.
    """
    from .memory import MemoryLoad, run_memory

    finish(run_memory(MemoryLoad(chats, budget=budget, block_size=block_size, seed=seed)), as_json, output)


def block_size(
    sizes: Annotated[str, typer.Option(help="Tokens a block.")] = "1,8,16,32,64,128",
    rounds: Annotated[int, typer.Option(min=0, help="Rounds on the model; 0 leaves it out.")] = 3,
    measure: StepCostSource = True,
    seed: Seed = 1,
    model: ModelName = "",
    models_dir: ModelsDir = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """What does the size of a block cost and bring?"""
    from .block_size import BlockSizeLoad, run_block_size
    from .report import warn_if_busy
    from .step_cost import STATED

    load, loaded, cost = BlockSizeLoad(tuple(numbers(sizes, "--sizes")), rounds=rounds, seed=seed), None, STATED
    with progress() as shown:
        if rounds or measure:
            from .models import BenchModel

            loaded = BenchModel.open(chosen_model(model, models_dir))
        if measure and loaded is not None:
            from .step_cost import measure_cost

            shown.phase("measuring what a step costs")
            cost = measure_cost(loaded)
        result = run_block_size(load, loaded if rounds else None, cost, shown.phase)
    finish(warn_if_busy(result) if rounds else result, as_json, output)


def published(
    prompt: Annotated[int, typer.Option(min=1, help="Tokens of each prompt.")] = 1024,
    reply: Annotated[int, typer.Option(min=2, help="Tokens of each reply.")] = 256,
    sequences: Annotated[str, typer.Option(help="How many at once.")] = "4,8,16",
    context: Annotated[int, typer.Option(min=2, help="Longest sequence, which a reservation takes.")] = 4096,
    reservations: Annotated[int, typer.Option(min=1, help="KV budget, in whole contexts.")] = 8,
    peer: Annotated[bool, typer.Option(help="Run transformers, too; it takes longest.")] = True,
    seed: Seed = 1,
    model: ModelName = "",
    models_dir: ModelsDir = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """The table that articles on PagedAttention print, run here. Ends with 1 when blocks do not follow the formula."""
    from .published import SIDES, Case, run_published
    from .report import warn_if_busy

    case = Case(prompt, reply, tuple(numbers(sequences, "--sequences")), context, reservations, seed)
    with progress() as shown:
        found = run_published(chosen_model(model, models_dir), case, SIDES if peer else SIDES[1:], shown.phase)
    finish(warn_if_busy(found), as_json, output)


def long(
    lengths: Annotated[str, typer.Option(help="Tokens of the contexts.")] = "8192,32768,131072",
    reply: Annotated[int, typer.Option(min=3, help="Tokens of the replies.")] = 16,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """What do long contexts cost? Up to 128k tokens, on a small model with random weights."""
    from .long import LongLoad, run_long
    from .report import warn_if_busy

    with progress() as shown:
        result = run_long(LongLoad(tuple(numbers(lengths, "--lengths")), reply), shown.phase)
    finish(warn_if_busy(result), as_json, output)


def claims(
    seed: Seed = 1,
    model: ModelName = "",
    models_dir: ModelsDir = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Which well-known claims about PagedAttention hold here? Ends with 1 when a goal of our own is missed."""
    from .claims import run_claims
    from .report import warn_if_busy

    with progress() as shown:
        result = run_claims(chosen_model(model, models_dir), seed, shown.phase)
    finish(warn_if_busy(result), as_json, output)
