"""``bench serve --interfere``: replies stream, a long prompt arrives: what those who read feel of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from .bench_run import side_by_side, warm_up
from .figures import median, percentile, ratio
from .http_load import Answer, Ask, LoadClient
from .options import Shown
from .report import BenchResult, Plot
from .words import sentence_text

LOOK_S = 0.01
FIGURES = {
    "itl_p50_before_ms": "ITL P50 before, ms",
    "itl_p99_before_ms": "ITL P99 before, ms",
    "itl_p50_during_ms": "ITL P50 while it is computed, ms",
    "itl_p99_during_ms": "ITL P99 while it is computed, ms",
    "ttft_alone_ms": "first token of the prompt alone, ms",
    "ttft_in_company_ms": "first token of the prompt in company, ms",
}


@dataclass(frozen=True)
class InterfereSpec:
    """``streams`` replies run; each has had ``before`` tokens when the prompt of ``prompt`` tokens arrives. Nothing is
    repeated any more after ``seconds`` on each target."""

    streams: int = 4
    prompt: int = 4000
    before: int = 60
    most: int = 1500
    repeats: int = 3
    seconds: float = 120.0
    seed: int = 0


async def run_interfere(clients: Sequence[LoadClient], spec: InterfereSpec, result: BenchResult, shown: Shown) -> None:
    """Measure on every target, which take turns; the median of the repeats counts."""
    per_word = await warm_up(clients)
    longest = min(client.target.info.get("max_model_len", 8192) for client in clients)
    words = round(min(spec.prompt, longest // 2) / per_word)
    shown.phase(f"{spec.streams} replies and a long prompt", len(clients) * spec.repeats)
    found: dict[str, list[dict[str, Any]]] = {client.target.name: [] for client in clients}
    ends = time.monotonic() + spec.seconds * len(clients)
    for repeat in range(spec.repeats):
        if repeat and time.monotonic() > ends:
            break
        for client in clients:
            random = Random(f"{spec.seed} {repeat}")
            asks = [
                Ask(min(spec.most, longest // 4), prompt=sentence_text(random, round(64 / per_word)))
                for _ in range(spec.streams)
            ]
            prompts = [Ask(2, prompt=sentence_text(random, words)) for _ in range(2)]
            found[client.target.name].append(await _once(client, asks, prompts[0], prompts[1], spec.before))
            shown.advance()
    _tell(result, found)


async def _once(client: LoadClient, asks: Sequence[Ask], alone: Ask, prompt: Ask, before: int) -> dict[str, Any]:
    by_itself = await client.send(alone)
    first = len(client.answers)
    streams = [asyncio.create_task(client.send(ask)) for ask in asks]
    try:
        await asyncio.sleep(0)
        replies = client.answers[first : first + len(asks)]
        while any(len(one.moments) < before and not one.error and not one.ended for one in replies):
            await asyncio.sleep(LOOK_S)
        arrived = time.monotonic()
        answer = await client.send(prompt)
    finally:
        for task in streams:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*streams, return_exceptions=True)
    ready = answer.moments[0][0] if answer.moments else answer.ended
    begun = max((one.moments[0][0] for one in replies if one.moments), default=arrived)
    calm, disturbed = gaps(replies, begun, arrived), gaps(replies, arrived, ready)
    return {
        "itl_p50_before_ms": percentile(calm, 50),
        "itl_p99_before_ms": percentile(calm, 99),
        "itl_p50_during_ms": percentile(disturbed, 50),
        "itl_p99_during_ms": percentile(disturbed, 99),
        "ttft_alone_ms": None if by_itself.ttft is None else by_itself.ttft * 1e3,
        "ttft_in_company_ms": None if answer.ttft is None else answer.ttft * 1e3,
    }


def gaps(replies: Sequence[Answer], begin: float, end: float) -> list[float]:
    """Milliseconds between tokens, of those gaps that reach into the time from ``begin`` to ``end``."""
    return [
        (after[0] - before[0]) * 1e3
        for reply in replies
        for before, after in zip(reply.moments, reply.moments[1:], strict=False)
        if after[0] > begin and before[0] < end
    ]


def _tell(result: BenchResult, found: dict[str, list[dict[str, Any]]]) -> None:
    names = list(found)
    middle = {
        name: {figure: median([one[figure] for one in rounds if one[figure] is not None]) for figure in FIGURES}
        for name, rounds in found.items()
    }
    result.figures["interfere"] = middle
    rows = [([label], [middle[name][figure] for name in names]) for figure, label in FIGURES.items()]
    result.tables.append(side_by_side("While a long prompt arrives", [""], rows, names))
    series = {
        name: [(label, middle[name][figure] or 0.0) for figure, label in FIGURES.items() if "p99" in figure]
        for name in names
    }
    result.plots.append(Plot("ITL P99 of the replies that stream", "", "ms", series, kind="bar"))
    ours = middle[names[0]]
    slower = ratio(ours["itl_p99_during_ms"], ours["itl_p99_before_ms"])
    later = ratio(ours["ttft_in_company_ms"], ours["ttft_alone_ms"])
    if slower is not None and later is not None:
        result.verdict = (
            f"While a long prompt is computed, P99 ITL of the running replies is {ours['itl_p99_during_ms']:,.0f} ms "
            f"instead of {ours['itl_p99_before_ms']:,.0f} ({slower:.1f} times), and the prompt's first token comes "
            f"after {ours['ttft_in_company_ms']:,.0f} ms instead of {ours['ttft_alone_ms']:,.0f} ({later:.2f} times)."
        )
