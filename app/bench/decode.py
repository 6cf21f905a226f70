"""``bench decode``: tokens a second of chats that write at once, by how many they are and how long their prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from ...sessions.wording import counted
from .bench_run import against, side_by_side, warm_up
from .figures import median, percentile
from .http_load import Answer, Ask, LoadClient
from .options import Shown
from .report import BenchResult, Plot
from .words import sentence_text


@dataclass(frozen=True)
class DecodeSpec:
    """Cells of the table: every number of chats with every prompt length (tokens), each tried several times."""

    chats: Sequence[int] = (1, 8, 16)
    contexts: Sequence[int] = (32, 1000)
    tokens: int = 64
    repeats: int = 3
    seed: int = 0


async def run_decode(clients: Sequence[LoadClient], spec: DecodeSpec, result: BenchResult, shown: Shown) -> None:
    """Measure all cells; targets take turns within each cell."""
    per_word = await warm_up(clients)
    for context in spec.contexts:
        for chats in spec.chats:
            shown.phase(f"{counted(chats, 'chat')} at {context:,} tokens", spec.repeats * len(clients))
            random = Random(f"{spec.seed} {context} {chats}")
            prompts = [sentence_text(random, round(context / per_word)) for _ in range(chats)]
            for client in clients:  # prompts are computed once; what is measured is writing
                await client.send_all([Ask(1, prompt=prompt) for prompt in prompts])
            rounds: dict[str, list[list[Answer]]] = {client.target.name: [] for client in clients}
            for _ in range(spec.repeats):
                for client in clients:
                    asks = [Ask(spec.tokens, prompt=prompt) for prompt in prompts]
                    rounds[client.target.name].append(await client.send_all(asks))
                    shown.advance()
            for name, found in rounds.items():
                result.figures.setdefault("cells", []).append(_cell(name, chats, context, found))
    _tell(result, [client.target.name for client in clients])


def decode_rate(answers: Sequence[Answer]) -> float | None:
    """Tokens a second while all write: from the last first token to the first last one. Where they were not all
    served together, tokens of the whole time from the first token to the last."""
    good = [answer for answer in answers if len(answer.moments) > 1]
    if not good:
        return None
    begin, end = max(one.moments[0][0] for one in good), min(one.moments[-1][0] for one in good)
    total = sum(one.completion_tokens for one in good)
    within = sum(count for one in good for when, count in one.moments if begin < when <= end)
    if within * 2 < total:
        begin, end = min(one.moments[0][0] for one in good), max(one.moments[-1][0] for one in good)
        within = total - len(good)
    return within / (end - begin) if end > begin else None


def _cell(name: str, chats: int, context: int, rounds: Sequence[Sequence[Answer]]) -> dict[str, Any]:
    answers = [answer for one in rounds for answer in one]
    itl = [gap * 1e3 for answer in answers for gap in answer.itl]
    rates = [rate for one in rounds if (rate := decode_rate(one)) is not None]
    return {
        "target": name,
        "chats": chats,
        "context": context,
        "prompt_tokens": median([answer.prompt_tokens for answer in answers]),
        "tokens_per_s": median(rates),
        "rates": [round(rate, 1) for rate in rates],
        "itl_p50_ms": percentile(itl, 50),
        "itl_p99_ms": percentile(itl, 99),
    }


def _tell(result: BenchResult, names: Sequence[str]) -> None:
    cells = result.figures["cells"]
    keys = list(dict.fromkeys((cell["chats"], cell["context"]) for cell in cells))
    by_key = {(cell["target"], cell["chats"], cell["context"]): cell for cell in cells}
    for title, figure in (
        ("Tokens a second, all chats together", "tokens_per_s"),
        ("ITL P50, ms", "itl_p50_ms"),
        ("ITL P99, ms", "itl_p99_ms"),
    ):
        rows = [([chats, context], [by_key[name, chats, context][figure] for name in names]) for chats, context in keys]
        result.tables.append(side_by_side(title, ["chats", "context"], rows, names))
    series = {}
    for name in names:
        for context in dict.fromkeys(context for _, context in keys):
            points = [
                (chats, by_key[name, chats, context]["tokens_per_s"] or 0.0) for chats, at in keys if at == context
            ]
            series[f"{name}, {context:,} tokens"] = points
    result.plots.append(Plot("Decode speed", "chats at once", "tokens/s", series))
    first, last = by_key[names[0], *keys[0]]["tokens_per_s"], by_key[names[0], *keys[-1]]["tokens_per_s"]
    if first and last:
        result.verdict = (
            f"{first:,.0f} tokens/s for {keys[0][0]} chat{'s' * (keys[0][0] > 1)} at {keys[0][1]:,} tokens, "
            f"{last:,.0f} for {keys[-1][0]} at {keys[-1][1]:,}." + against(result.tables[0], names)
        )
