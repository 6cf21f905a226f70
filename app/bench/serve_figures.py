"""From the answers of a phase to its figures, tables and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .figures import SHARES, PagingFacts, meets, percentile, percentiles, ratio
from .http_load import Answer
from .report import Cell, Plot, Table
from .serve import PhaseRun
from .target import Target

SPREADS = {
    "prompt_tokens": "Prompt, tokens",
    "reply_tokens": "Reply, tokens",
    "ttft_ms": "TTFT, ms",
    "tpot_ms": "TPOT, ms",
    "itl_ms": "ITL, ms",
    "queue_ms": "Queue time, ms",
    "e2e_ms": "E2E, ms",
}


def answer_ms(answer: Answer) -> dict[str, float | None]:
    """TTFT, TPOT, E2E and the request's P95 ITL in milliseconds, as `figures.meets` compares them with an SLO."""
    itl = percentile(answer.itl, 95)
    return {
        "ttft": None if answer.ttft is None else answer.ttft * 1e3,
        "tpot": None if answer.tpot is None else answer.tpot * 1e3,
        "itl": None if itl is None else itl * 1e3,
        "e2e": answer.e2e * 1e3,
    }


def run_figures(run: PhaseRun, target: Target, slo: Mapping[str, float]) -> dict[str, Any]:
    """All figures of a phase; what was not measured is None."""
    good = [answer for answer in run.answers if not answer.error]
    prompt = sum(answer.prompt_tokens for answer in good)
    reply = sum(answer.completion_tokens for answer in good)
    known = [answer.cached_tokens for answer in good if answer.cached_tokens is not None]
    kept = sum(meets(answer_ms(answer), slo) for answer in good)
    spreads = _spreads(run, good)
    figures: dict[str, Any] = {
        "target": run.target,
        "phase": run.phase,
        "seconds": round(run.seconds, 2),
        "requests": len(run.answers),
        "errors": len(run.answers) - len(good),
        "error_rate": (len(run.answers) - len(good)) / len(run.answers) if run.answers else 0.0,
        "prompt_total": prompt,
        "cached_total": sum(known) if known else None,
        "reply_total": reply,
        "tokens_per_s": reply / run.seconds if run.seconds else None,
        "goodput_per_s": kept / run.seconds if run.seconds else None,
        "good_share": kept / len(run.answers) if run.answers else None,
        **{name: percentiles(values) for name, values in spreads.items()},
        **_watched(run, target, prompt + reply),
    }
    for name in ("ttft", "itl", "queue", "e2e"):
        figures[f"{name}_p95_ms"] = figures[f"{name}_ms"]["p95"]
    return figures


def _spreads(run: PhaseRun, good: Sequence[Answer]) -> dict[str, list[float]]:
    return {
        "prompt_tokens": [float(answer.prompt_tokens) for answer in good],
        "reply_tokens": [float(answer.completion_tokens) for answer in good],
        "ttft_ms": [answer.ttft * 1e3 for answer in good if answer.ttft is not None],
        "tpot_ms": [answer.tpot * 1e3 for answer in good if answer.tpot is not None],
        "itl_ms": [gap * 1e3 for answer in good for gap in answer.itl],
        "queue_ms": run.watch.queue_ms() if run.watch else [],
        "e2e_ms": [answer.e2e * 1e3 for answer in good],
    }


def _watched(run: PhaseRun, target: Target, tokens: int) -> dict[str, Any]:
    watch, blocks = run.watch, target.info.get("num_blocks")
    if watch is None:
        return {}
    samples = [one for one in watch.samples if one.running]
    active = [one.active_blocks for one in samples]
    live = sum(one.live_tokens for one in samples if one.live_tokens)
    held = sum(one.active_blocks for one in samples if one.live_tokens)
    mean = sum(active) / len(active) if active else None
    return {
        "kv_usage_mean": mean / blocks if mean is not None and blocks else None,
        "kv_usage_peak": max(active) / blocks if active and blocks else None,
        "kv_blocks_peak": max(active, default=None),
        "running_mean": sum(one.running for one in samples) / len(samples) if samples else None,
        "running_peak": max((one.running for one in samples), default=None),
        "waiting_peak": max((one.waiting for one in watch.samples), default=None),
        "preemptions": watch.preemptions,
        "cpu_s_per_1000_tokens": watch.cpu_s / tokens * 1e3 if watch.cpu_s is not None and tokens else None,
        "kv_bytes_per_1000_tokens": held * target.block_bytes / live * 1e3 if live and target.block_bytes else None,
        "resident_bytes": watch.resident,
    }


def paging_facts(figures: Mapping[str, Any], target: Target) -> PagingFacts | None:
    """What the closing sentence needs; None where the target does not tell."""
    info = target.info
    if not figures.get("kv_blocks_peak") or not info.get("max_model_len"):
        return None
    return PagingFacts(
        prompt_tokens=figures["prompt_total"],
        cached_tokens=figures["cached_total"] or 0,
        held_tokens=figures["kv_blocks_peak"] * info["block_size"],
        reserved_tokens=figures["running_peak"] * info["max_model_len"],
        pool_tokens=info["num_blocks"] * info["block_size"],
        longest=info["max_model_len"],
        mean_running=figures["running_mean"],
        preemptions=figures["preemptions"] or 0,
    )


TOTALS: tuple[tuple[str, str, float], ...] = (
    # figure, what it is called, factor
    ("requests", "requests", 1),
    ("error_rate", "error rate, %", 100),
    ("tokens_per_s", "reply tokens/s", 1),
    ("goodput_per_s", "goodput, requests/s", 1),
    ("good_share", "within the SLO, %", 100),
    ("prompt_total", "prompt tokens", 1),
    ("cached_total", "cached of them", 1),
    ("kv_usage_mean", "KV usage mean, %", 100),
    ("kv_usage_peak", "KV usage peak, %", 100),
    ("running_mean", "running, mean", 1),
    ("running_peak", "running, peak", 1),
    ("waiting_peak", "waiting, peak", 1),
    ("preemptions", "preemptions", 1),
    ("cpu_s_per_1000_tokens", "CPU s per 1,000 tokens", 1),
    ("kv_bytes_per_1000_tokens", "KV MB per 1,000 tokens", 1e-6),
    ("resident_bytes", "resident memory, MB", 1e-6),
)


def totals_table(found: Sequence[Mapping[str, Any]]) -> Table:
    """One column for each phase and target, one row for each figure."""
    several = len({one["target"] for one in found}) > 1
    heads = [f"{one['phase']}, {one['target']}" if several else one["phase"] for one in found]
    rows: list[list[Cell]] = []
    for name, label, factor in TOTALS:
        cells = [_scaled(one.get(name), factor) for one in found]
        if any(cell is not None for cell in cells):
            rows.append([label, *cells])
    note = "Tokens of CPU time and KV are prompt and reply tokens; shared KV counts for each chat that uses it."
    return Table("Phases", ["", *heads], rows, note)


def _scaled(value: Any, factor: float) -> Cell:
    return value if value is None or factor == 1 else float(value * factor)


def spread_tables(found: Sequence[Mapping[str, Any]]) -> list[Table]:
    """P50, P95 and P99 of lengths and latencies, one table for each target."""
    tables = []
    for target in dict.fromkeys(one["target"] for one in found):
        mine = [one for one in found if one["target"] == target]
        rows: list[list[Cell]] = []
        for name, label in SPREADS.items():
            for share in SHARES:
                cells = [one[name][f"p{share}"] for one in mine]
                if any(cell is not None for cell in cells):
                    rows.append([label if share == SHARES[0] else "", f"P{share}", *cells])
        columns = ["", "", *(one["phase"] for one in mine)]
        tables.append(Table(f"Lengths and latencies on {target}", columns, rows))
    return tables


def ratio_table(found: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Table:
    """The first target's figures of every phase divided by each other's; under 1 is less."""
    by_key = {(one["target"], one["phase"]): one for one in found}
    figures = {
        "tokens_per_s": "reply tokens/s",
        "goodput_per_s": "goodput",
        "ttft_p95_ms": "TTFT P95",
        "itl_p95_ms": "ITL P95",
        "e2e_p95_ms": "E2E P95",
        "cpu_s_per_1000_tokens": "CPU time",
    }
    rows: list[list[Cell]] = []
    for other in names[1:]:
        for phase in dict.fromkeys(one["phase"] for one in found):
            mine, theirs = by_key[names[0], phase], by_key[other, phase]
            rows.append([other, phase, *(ratio(mine[name], theirs[name]) for name in figures)])
    return Table(f"{names[0]} divided by", ["by", "phase", *figures.values()], rows)


def phase_plots(runs: Sequence[PhaseRun], found: Sequence[Mapping[str, Any]]) -> list[Plot]:
    """Latencies by phase, and the pool and the queue over time."""
    plots = []
    for title, name in (("TTFT", "ttft_ms"), ("ITL", "itl_ms")):
        series = {
            f"{target} P{share}": [
                (one["phase"], one[name][f"p{share}"]) for one in found if one["target"] == target and one[name]["p50"]
            ]
            for target in dict.fromkeys(one["target"] for one in found)
            for share in (50, 95)
        }
        plots.append(Plot(f"{title} by phase", "phase", "ms", series, kind="bar"))
    usage: dict[str, list[tuple[Any, float]]] = {}
    queue: dict[str, list[tuple[Any, float]]] = {}
    for run in runs:
        if run.watch is None or not run.watch.samples:
            continue
        start = sum(one.seconds for one in runs[: runs.index(run)] if one.target == run.target)
        blocks = run.watch.client.target.info.get("num_blocks") or 1
        for sample in run.watch.samples:
            at = start + sample.at - run.began
            usage.setdefault(run.target, []).append((at, 100 * sample.active_blocks / blocks))
            queue.setdefault(f"running, {run.target}", []).append((at, float(sample.running)))
            queue.setdefault(f"waiting, {run.target}", []).append((at, float(sample.waiting)))
    plots.append(Plot("KV blocks in use", "seconds", "% of the pool", usage))
    plots.append(Plot("Requests", "seconds", "requests", queue))
    return plots
