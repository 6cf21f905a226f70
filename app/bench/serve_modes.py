"""The ways to run ``bench serve``: one load, two runs compared, or one run for each size of the KV pool."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...engine.errors import ConfigError
from .bench_run import Setup, Side, close_result, new_result, run_load, running, warm_up
from .figures import disagreement, knee, paging_worth
from .http_load import LoadClient, clients_for
from .loads import Load, LoadProfile
from .options import Shown
from .report import BenchResult, Cell, Plot, Table
from .serve import Pace, PhaseRun, merged, pace_for, run_phases
from .serve_figures import paging_facts, phase_plots, ratio_table, run_figures, spread_tables, totals_table
from .target import Target

COMPARISONS = {
    "prefix-caching": (
        Side("caching on", ["--enable-prefix-caching"]),
        Side("caching off", ["--no-enable-prefix-caching"]),
    )
}
SWEEPS = ("num-blocks",)
SWEEP_STEPS = 5
SWEEP_CHATS = 60
LONGEST = 8192
ENOUGH_REQUESTS = 4
"""Fewer say nothing about a P95."""


Keep = Callable[[BenchResult, dict[str, Any]], None]


@dataclass(frozen=True)
class ServeSpec:
    """What is sent, for how many seconds on each target, and the limits in milliseconds that a request should keep."""

    profile: LoadProfile
    duration: float
    slo: dict[str, float] = field(default_factory=dict)
    seed: int = 0

    def parameters(self, **more: Any) -> dict[str, Any]:
        """For the result."""
        asked = {"load": self.profile.to_dict(), "duration": self.duration, "slo": self.slo, "seed": self.seed}
        return {**asked, **more}


def bench_phases(
    spec: ServeSpec, setup: Setup, shown: Shown, compare: str = "", keep: Keep | None = None
) -> BenchResult:
    """All phases on our server, on a second one of other settings (``compare``), and on the peer.

    Args:
        keep: gets the result and what our server's engine said of itself.
    """

    async def run(clients: Sequence[LoadClient], result: BenchResult) -> None:
        load = await _load(clients, spec)
        targets = [client.target for client in clients]
        _tell(result, await run_phases(clients, load, spec.duration, shown), targets, spec)

    name, sides = ("serve-compare", COMPARISONS[compare]) if compare else ("serve", (Side(),))
    result, targets = run_load(name, run, setup, shown, sides, **spec.parameters(compare=compare))
    if keep is not None:
        keep(result, targets[0].info)
    return result


async def _load(clients: Sequence[LoadClient], spec: ServeSpec, longest: int = LONGEST) -> Load:
    per_word = await warm_up(clients)
    for client in clients:
        info = client.target.info
        longest = min(longest, info.get("max_model_len", longest), info.get("capacity", longest))
    return Load(spec.profile, spec.seed, longest, per_word)


def _tell(result: BenchResult, runs: Sequence[PhaseRun], targets: Sequence[Target], spec: ServeSpec) -> None:
    names, by_name = [target.name for target in targets], {target.name: target for target in targets}
    wholes = [merged([run for run in runs if run.target == name]) for name in names]
    found = [run_figures(run, by_name[run.target], spec.slo) for run in runs]
    totals = [run_figures(run, by_name[run.target], spec.slo) for run in wholes]
    result.figures |= {"phases": found, "all": totals, "error_rate": max(one["error_rate"] for one in totals)}
    result.tables.append(totals_table([*found, *totals]))
    result.tables += spread_tables([*found, *totals])
    if len(names) > 1:
        result.tables.append(ratio_table([*found, *totals], names))
    result.plots += phase_plots(runs, found)
    result.verdict = verdict(found, totals, targets)


def verdict(found: Sequence[dict[str, Any]], totals: Sequence[dict[str, Any]], targets: Sequence[Target]) -> str:
    """Where two runs disagree, and last what paging is worth for the load."""
    lines = []
    mine = [one for one in [*found, *totals] if one["target"] == targets[0].name]
    for target in targets[1:]:
        theirs = {one["phase"]: one for one in [*found, *totals] if one["target"] == target.name}
        for one in mine:
            other = theirs[one["phase"]]
            said = disagreement(one, other)
            if said and min(one["requests"], other["requests"]) >= ENOUGH_REQUESTS:
                where = "all phases" if one["phase"] == "all" else f"{one['phase']} phase"
                lines.append(f"{where}, {targets[0].name} against {target.name}: {said}")
    facts = paging_facts(totals[0], targets[0])
    if facts is not None:
        lines.append(paging_worth(facts))
    return "\n".join(lines)


# -- sweep --------------------------------------------------------------------------------------------------------


def sweep_values(text: str, profile: LoadProfile, seed: int, block_size: int) -> list[int]:
    """Pool sizes of ``num-blocks`` (chosen for the load) or ``num-blocks=64,128,256``.

    Chosen ones go from what the longest chat needs to twice what all users' longest chats need, evenly in ratio.

    Raises:
        ConfigError: anything else.
    """
    name, given, values = text.partition("=")
    parts = [part.strip() for part in values.split(",")]
    if name not in SWEEPS or (given and not all(part.isdecimal() and int(part) > 0 for part in parts)):
        raise ConfigError(f"--sweep can be num-blocks or, say, num-blocks=64,128,256, not {text!r}.")
    if given:
        return sorted({int(part) for part in parts})
    longest = max(_tokens_of_chats(profile, seed)) * 1.25
    low = math.ceil(longest / block_size) + 4
    high = max(2 * low, 2 * profile.chats * low)
    return sorted({round(low * (high / low) ** (step / (SWEEP_STEPS - 1))) for step in range(SWEEP_STEPS)})


def _tokens_of_chats(profile: LoadProfile, seed: int) -> list[int]:
    chats = Load(profile, seed, LONGEST).chats("steady user 0")
    return [
        len(chat.system.split()) + sum(len(turn.text.split()) + turn.reply_tokens for turn in chat.turns)
        for chat, _ in zip(chats, range(SWEEP_CHATS), strict=False)
    ]


def bench_sweep(spec: ServeSpec, setup: Setup, shown: Shown, values: Sequence[int]) -> BenchResult:
    """The steady and the burst phase for each pool size; the same load for all."""
    longest = min(LONGEST, int(min(values) * setup.settings().block_size * 0.9))
    results: list[BenchResult] = []
    found: list[dict[str, Any]] = []
    all_clients: list[LoadClient] = []
    seconds = spec.duration / len(values)
    pace: Pace | None = None

    async def measure(targets: Sequence[Target]) -> PhaseRun:
        nonlocal pace
        async with clients_for(targets) as clients:
            all_clients.extend(clients)
            load = await _load(clients, spec, longest)
            runs = await run_phases(clients, load, seconds, shown, ("steady", "burst"), pace)
            pace = pace or pace_for(runs, load, seconds / 3)  # bursts as large as on the first one
            return merged(runs)

    for value in values:
        side = Side(f"{value} blocks", ["--num-blocks", str(value)])
        with running(setup, shown, [side]) as targets:
            results.append(new_result("serve-sweep", setup, targets, **spec.parameters(sweep=list(values))))
            run = asyncio.run(measure(targets))
            found.append({"num_blocks": value, **run_figures(run, targets[0], spec.slo)})
    result = results[0]
    _tell_sweep(result, found)
    return close_result(result, all_clients)


def _tell_sweep(result: BenchResult, found: Sequence[dict[str, Any]]) -> None:
    figures = ("tokens_per_s", "goodput_per_s", "ttft_p95_ms", "queue_p95_ms", "itl_p95_ms", "preemptions")
    marked = knee([(one["num_blocks"], one["tokens_per_s"]) for one in found])
    rows: list[list[Cell]] = []
    for one in found:
        peak = one["kv_usage_peak"]
        cached = one["cached_total"] / one["prompt_total"] if one["prompt_total"] and one["cached_total"] else 0.0
        mark = "knee" if one["num_blocks"] == marked else ""
        rows.append(
            [
                one["num_blocks"],
                *(one[name] for name in figures),
                peak and 100 * peak,
                100 * cached,
                one["errors"],
                mark,
            ]
        )
    columns = ["blocks", "tokens/s", "goodput/s", "TTFT P95", "queue P95", "ITL P95", "preemptions"]
    columns += ["KV peak, %", "cached, %", "errors", ""]
    result.tables.insert(0, Table("Size of the KV pool", columns, rows, "Times in ms."))
    for label, name in (("Throughput", "tokens_per_s"), ("TTFT P95", "ttft_p95_ms")):
        points: list[tuple[Any, float]] = [(one["num_blocks"], one[name] or 0.0) for one in found]
        unit = "tokens/s" if name == "tokens_per_s" else "ms"
        result.plots.append(Plot(f"{label} by pool size", "blocks", unit, {label: points}))
    result.figures |= {"sweep": list(found), "knee": marked}
    against = disagreement(found[-1], found[0])
    if against:
        against = f"{found[-1]['num_blocks']:,} against {found[0]['num_blocks']:,} blocks: {against}"
    result.verdict = "\n".join(filter(None, [_knee_words(marked, found), against]))


def _knee_words(marked: float | None, found: Sequence[dict[str, Any]]) -> str:
    if marked is None:
        low, high = found[0]["num_blocks"], found[-1]["num_blocks"]
        return f"No knee: throughput does not bend between {low:,} and {high:,} blocks."
    return f"The knee is at {marked:,.0f} blocks: a smaller pool costs throughput, a larger one brings little."
