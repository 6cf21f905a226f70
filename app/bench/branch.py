"""``bench branch``: one question answered again and again: what a regeneration computes, takes and waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from .bench_run import forget, warm_up
from .figures import median
from .http_load import Answer, Ask, LoadClient
from .options import Shown
from .report import BenchResult, Cell, Plot, Table
from .server_watch import Watch
from .words import sentence_text


@dataclass(frozen=True)
class BranchSpec:
    """Sizes in tokens."""

    regenerations: int = 8
    history: int = 1000
    reply: int = 48
    seed: int = 0


async def run_branch(clients: Sequence[LoadClient], spec: BranchSpec, result: BenchResult, shown: Shown) -> None:
    """The first reply, then its regenerations one after another, then as many at once; targets in turn."""
    per_word = await warm_up(clients)
    random = Random(f"{spec.seed} branch")
    text = sentence_text(random, round(spec.history / per_word))
    messages = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": text}]
    columns = ["on", "what", "prompt", "computed", "new blocks", "shared blocks", "copied blocks", "TTFT, ms"]
    columns.append("whole time, ms")
    rows: list[list[Cell]] = []
    series: dict[str, list[tuple[Any, float]]] = {}
    shown.phase("Regenerating", len(clients) * (2 * spec.regenerations + 1))
    for client in clients:
        await forget(client)
        name, found = client.target.name, {}
        for what, asks in _rounds(spec, messages).items():
            async with Watch(client) as watch:
                if what == "all at once":
                    answers = await client.send_all(asks)
                else:
                    answers = [await client.send(ask) for ask in asks]
            shown.advance(len(asks))
            found[what] = _figures(answers, watch)
            rows.append([name, what, *found[what].values()])
            series.setdefault(name, []).append((what, found[what]["ttft_ms"]))
        found["all at once"]["times_of_one"] = _times_of_one(found, spec.regenerations)
        result.figures[name] = found
    note = (
        "Medians of a request, and the time from the first request to the end of the last; a regeneration shares its "
        "prompt's blocks and needs its own for what it writes."
    )
    result.tables.append(Table(f"One question, {spec.regenerations} regenerations", columns, rows, note))
    result.plots.append(Plot("Time to the first token", "", "ms", series, kind="bar"))
    result.verdict = _verdict(result.figures[clients[0].target.name])


def _rounds(spec: BranchSpec, messages: list[dict[str, str]]) -> dict[str, list[Ask]]:
    def ask(seed: int) -> Ask:
        return Ask(spec.reply, messages=messages, temperature=0.8, seed=seed)

    seeds = range(1, spec.regenerations + 1)
    return {
        "first reply": [ask(0)],
        "regenerated, one by one": [ask(seed) for seed in seeds],
        "all at once": [ask(100 + seed) for seed in seeds],
    }


def _figures(answers: Sequence[Answer], watch: Watch) -> dict[str, Any]:
    known = [answer for answer in answers if answer.cached_tokens is not None]
    blocks = [row["metrics"] for row in watch.rows.values()]
    ttft = median([answer.ttft * 1e3 for answer in answers if answer.ttft])
    return {
        "prompt_tokens": median([answer.prompt_tokens for answer in answers]),
        "computed_tokens": median([answer.prompt_tokens - (answer.cached_tokens or 0) for answer in known]),
        **{name: median([one[name] for one in blocks]) for name in ("blocks_new", "blocks_shared", "blocks_copied")},
        "ttft_ms": ttft,
        "whole_ms": (max(answer.ended for answer in answers) - min(answer.sent for answer in answers)) * 1e3,
    }


def _times_of_one(found: dict[str, dict[str, Any]], regenerations: int) -> float:
    """How many times as long as one of them all regenerations at once take, to the end of the last."""
    one = found["regenerated, one by one"]["whole_ms"] / regenerations
    return found["all at once"]["whole_ms"] / one


def _verdict(found: dict[str, dict[str, Any]]) -> str:
    first, again = found["first reply"], found["regenerated, one by one"]
    if again["computed_tokens"] is None or not first["ttft_ms"] or not again["ttft_ms"]:
        return ""
    blocks = f" and {again['blocks_new']:,.0f} new blocks" if again["blocks_new"] is not None else ""
    return (
        f"A regeneration computes {again['computed_tokens']:,.0f} of {again['prompt_tokens']:,.0f} prompt tokens, "
        f"takes{blocks or ' what it writes'}, and answers after {again['ttft_ms']:,.0f} ms instead of "
        f"{first['ttft_ms']:,.0f}. All at once take {found['all at once']['times_of_one']:.2f} times as long as one."
    ).replace("takes and", "takes")
