"""``bench prefill``: how fast prompts are computed that nobody has sent before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from .bench_run import against, side_by_side, warm_up
from .figures import median
from .http_load import Ask, LoadClient
from .options import Shown
from .report import BenchResult, Plot
from .words import sentence_text


@dataclass(frozen=True)
class PrefillSpec:
    """Prompt lengths in tokens, each tried several times with other words."""

    lengths: Sequence[int] = (128, 512, 1024, 4096)
    repeats: int = 3
    seed: int = 0


async def run_prefill(clients: Sequence[LoadClient], spec: PrefillSpec, result: BenchResult, shown: Shown) -> None:
    """Measure all lengths; targets take turns within each length. Prompts run alone, for one token each."""
    per_word, cells = await warm_up(clients), []
    for length in spec.lengths:
        shown.phase(f"Prompts of {length:,} tokens", spec.repeats * len(clients))
        found = {client.target.name: [] for client in clients}
        for repeat in range(spec.repeats):
            prompt = sentence_text(Random(f"{spec.seed} {length} {repeat}"), round(length / per_word))
            for client in clients:
                found[client.target.name].append(await client.send(Ask(1, prompt=prompt)))
                shown.advance()
        for name, answers in found.items():
            good = [answer for answer in answers if answer.ttft]
            ttft = median([answer.ttft * 1e3 for answer in good])
            computed = median([answer.prompt_tokens - (answer.cached_tokens or 0) for answer in good])
            rate = computed / ttft * 1e3 if ttft and computed else None
            cells.append(
                {
                    "target": name,
                    "length": length,
                    "prompt_tokens": median([answer.prompt_tokens for answer in good]),
                    "computed_tokens": computed,
                    "ttft_ms": ttft,
                    "tokens_per_s": rate,
                }
            )
    result.figures["cells"] = cells
    _tell(result, [client.target.name for client in clients], spec.lengths)


def _tell(result: BenchResult, names: Sequence[str], lengths: Sequence[int]) -> None:
    by_key = {(cell["target"], cell["length"]): cell for cell in result.figures["cells"]}
    for title, figure in (("Prompt tokens a second", "tokens_per_s"), ("Time to the first token, ms", "ttft_ms")):
        rows = [([length], [by_key[name, length][figure] for name in names]) for length in lengths]
        result.tables.append(side_by_side(title, ["prompt"], rows, names))
    series = {name: [(length, by_key[name, length]["ttft_ms"] or 0.0) for length in lengths] for name in names}
    result.plots.append(Plot("Time to the first token of a new prompt", "prompt tokens", "ms", series))
    best = max(cell["tokens_per_s"] or 0.0 for cell in result.figures["cells"] if cell["target"] == names[0])
    result.verdict = f"New prompts are computed at up to {best:,.0f} tokens/s." + against(result.tables[0], names)
