"""The table that articles on PagedAttention print, run here: some sequences, one KV budget, three ways to hold it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...engine.errors import PagedChatError
from ...engine.models.checkpoint import open_checkpoint
from .cells import bench_configuration
from .published_side import Case
from .report import BenchResult, Plot, Table
from .shared_blocks import blocks_by_engine, blocks_by_formula, blocks_unshared

SIDES = ("transformers", "contiguous", "paged")
ARTICLE = Case(prompt=1024, output=256, sequences=(4, 8, 16), context=4096, reservations=8)
COLUMNS = ["side", "sequences", "at once", "tokens/s", "TTFT P95 s", "whole reply s", "KV MiB", "memory MiB"]
SHARED = ((16, 1000, 37, 11), (16, 1024, 37, 11), (16, 100, 200, 57), (16, 7, 5, 3))
"""Chats, prefix, own prompt tokens of the first chat (one more for each next), reply tokens: of the formula's table."""
MIB = 2**20

Report = Callable[[dict[str, Any]], None]


def run_published(
    model_path: Path,
    case: Case = ARTICLE,
    sides: tuple[str, ...] = SIDES,
    note: Callable[[str], None] = lambda text: None,
) -> BenchResult:
    """Run all sides one after another, each in a process of its own.

    Args:
        note: told which side runs.

    Raises:
        PagedChatError: a side's process failed; with its last words.
    """
    result = BenchResult(
        "published",
        bench_configuration(open_checkpoint(model_path)),
        {**case.to_dict(), "kv_budget_slots": case.budget, "caching": False, "model": model_path.name},
    )
    cells: list[dict[str, Any]] = []
    for side in sides:
        note(side)
        cells += run_side(side, model_path, case)
    return finish_published(result, case, cells)


def run_side(side: str, model_path: Path, case: Case) -> Iterator[dict[str, Any]]:
    """One side in a process of its own; its figures as they come.

    Raises:
        PagedChatError: it failed.
    """
    asked = json.dumps({"side": side, "model": str(model_path), **case.to_dict()})
    command = [sys.executable, "-P", "-m", f"{__package__}.published_side", asked]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            for line in process.stdout:
                yield json.loads(line)
            complaint = process.stderr.read().strip().splitlines()
            if process.wait():
                raise PagedChatError(
                    f"The side {side} could not be run: {complaint[-1] if complaint else 'no reason'}."
                )
        finally:
            process.kill()


def finish_published(result: BenchResult, case: Case, cells: list[dict[str, Any]]) -> BenchResult:
    """The tables from the figures of all cells."""
    shared = [shared_row(*one) for one in SHARED]
    result.figures = {"cells": cells, "shared": shared, "fits": {str(n): fits(case, n) for n in case.sequences}}
    rows = [row for cell in cells for row in rows_of(cell, case)]
    result.tables = [Table("Sequences in one KV budget", COLUMNS, rows, _note(case, cells)), shared_table(shared)]
    series: dict[str, list[tuple[Any, float]]] = {}
    for cell in cells:
        series.setdefault(cell["side"], []).append((str(cell["sequences"]), cell["tokens_per_s"]))
    result.plots = [Plot("Throughput", "sequences", "tokens/s", series, "bar")]
    result.passed = all(one["by_engine"] == one["by_formula"] for one in shared)
    result.verdict = _verdict(cells, case)
    return result.finish()


def fits(case: Case, sequences: int) -> bool:
    """Whether the budget has a reservation for each of so many sequences."""
    return sequences <= case.reservations


def rows_of(cell: dict[str, Any], case: Case) -> list[list[Any]]:
    """A cell as it is printed: where reservations do not fit, that first, and what happens instead."""
    figures = [
        cell["at_once"],
        round(cell["tokens_per_s"], 1),
        round(cell["ttft_p95_s"], 2),
        round(cell["e2e_s"], 2),
        round(cell["kv_bytes"] / MIB),
        round(cell["memory_bytes"] / MIB),
    ]
    name, sequences = cell["side"], cell["sequences"]
    if name == "contiguous" and not fits(case, sequences):
        return [[name, sequences, does_not_fit(case, sequences, cell["bytes_per_slot"]), *[None] * 5], *[
            ["contiguous, in turns", sequences, *figures]
        ]]  # fmt: skip
    return [[name, sequences, *figures]]


def does_not_fit(case: Case, sequences: int, bytes_per_slot: int) -> str:
    """The sentence of a cell whose reservations exceed the budget."""
    one = case.budget // case.reservations * bytes_per_slot / MIB
    return f"does not fit (needs {sequences * one:,.0f} MiB, has {case.reservations * one:,.0f} MiB)"


def shared_row(chats: int, prefix: int, own: int, replies: int, block_size: int = 16) -> dict[str, Any]:
    """Blocks of chats under one prefix: by formula, by the engine, and unshared."""
    held, tokens = blocks_by_engine(prefix, [own + index for index in range(chats)], replies, block_size)
    return {
        "chats": chats,
        "prefix": prefix,
        "own": sum(tokens) / chats,
        "by_formula": blocks_by_formula(prefix, tokens, block_size),
        "by_engine": held,
        "unshared": blocks_unshared(prefix, tokens, block_size),
    }


def shared_table(shared: list[dict[str, Any]]) -> Table:
    """Formula and engine side by side."""
    columns = [
        "chats",
        "shared prefix",
        "own tokens, mean",
        "blocks by formula",
        "blocks held",
        "if nothing was shared",
    ]
    note = "Formula: floor(P/B) + sum of ceil(((P mod B) + own) / B), B = 16; the engine's count must equal it."
    return Table("Blocks of chats with one prefix", columns, [list(one.values()) for one in shared], note)


def _note(case: Case, cells: list[dict[str, Any]]) -> str:
    size = next((cell["bytes_per_slot"] for cell in cells if cell["side"] != "transformers"), 0)
    dtype = next((f" (in {cell['dtype']}, the quicker here)" for cell in cells if "dtype" in cell), "")
    return (
        f"Prompts of {case.prompt:,} tokens, all different, replies of {case.output}; the budget is "
        f"{case.reservations} contexts of {case.context:,} tokens, {case.budget * size / MIB:,.0f} MiB. KV: most "
        "that was set aside at a time; memory: most that the side's process held while it served, programs and "
        "weights included (reserved slots that nothing wrote to take addresses, not memory, on this system). "
        f"transformers{dtype} has no budget: its cache grows by a token a step, in one batch that starts and ends "
        "together."
    )


def _verdict(cells: list[dict[str, Any]], case: Case) -> str:
    most = max(case.sequences)
    by_side = {cell["side"]: cell for cell in cells if cell["sequences"] == most}
    if "paged" not in by_side or "contiguous" not in by_side:
        return ""
    paged, contiguous = by_side["paged"], by_side["contiguous"]
    sentence = (
        f"{most} sequences: paged serves {paged['at_once']} at once with {paged['tokens_per_s']:.0f} tokens/s, "
        f"contiguous {contiguous['at_once']} with {contiguous['tokens_per_s']:.0f} "
        f"({paged['tokens_per_s'] / contiguous['tokens_per_s']:.2f} x)"
    )
    peer = by_side.get("transformers")
    more = f", transformers {peer['tokens_per_s']:.0f}" if peer else ""
    waits = f"{paged['ttft_p95_s']:.1f} s against {contiguous['ttft_p95_s']:.1f} s"
    return f"{sentence}{more}; the slowest first token comes after {waits}."
