"""The claims: text, source and figure as published, how each is measured here and how its verdict follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .models import BenchModel

PAPER = "PagedAttention paper (SOSP 2023)"
BLOG = "vLLM launch post (2023)"
ARTICLES = "articles on PagedAttention"
OURS = "a goal of this project"
GIB = 2**30
SEQUENCES = 16
ALMOST = 1.05
"""Up to here two times are called the same: 5 %."""


class Judgement(NamedTuple):
    """What a run says to a claim."""

    here: str
    verdict: str
    goal_met: bool | None = None


@dataclass(frozen=True)
class Claim:
    """One claim.

    Attributes:
        figure: as published.
        measure: brings figures from a model and a seed; claims that share one share its run.
        judge: verdict from these figures.
    """

    text: str
    source: str
    figure: str
    measure: Callable[[BenchModel, int], dict[str, Any]]
    judge: Callable[[dict[str, Any]], Judgement]


# -- measures -------------------------------------------------------------------------------------------------------


def allocators(model: BenchModel, seed: int) -> dict[str, Any]:
    """The four allocators on one trace, without a model."""
    from .memory import MemoryLoad, run_memory

    load = MemoryLoad(chats=100, seed=seed)
    return {**run_memory(load).figures, "block_size": load.block_size}


def bursts(model: BenchModel, seed: int) -> dict[str, Any]:
    """Bursts of shorter and of longer replies on the model, contiguous and paged."""
    from .claim_measures import BURSTS, burst_figures

    return {str(one): burst_figures(model, replace(one, seed=seed)) for one in BURSTS}


def sequences_at_once(model: BenchModel, seed: int) -> dict[str, Any]:
    """Who runs at once in a budget of eight reservations."""
    from .claim_measures import sequences_held
    from .published import ARTICLE

    return {**sequences_held(ARTICLE, SEQUENCES), "reservations": ARTICLE.reservations}


def cached_prefix(model: BenchModel, seed: int) -> dict[str, Any]:
    """A known prefix before new tokens."""
    from .claim_measures import cached_prefix_figures

    return {str(known): one for known, one in cached_prefix_figures(model, seed=seed).items()}


def block_table(model: BenchModel, seed: int) -> dict[str, Any]:
    """Attention alone and a whole step of one chat, blocks in random order against one block."""
    from .table_cost import attention_model, attention_ratio, table_cost

    context = 1024
    alone, step = attention_ratio(attention_model(context), context), table_cost(model, context)
    return {"attention": alone, "step": step.ratio, "step_paged_s": step.paged_s, "context": context}


def cache_of_7b(model: BenchModel, seed: int) -> dict[str, Any]:
    """Arithmetic: keys and values, 32 layers, 4,096 numbers of two bytes."""
    a_token = 2 * 32 * 4096 * 2
    return {"bytes_a_token": a_token, "bytes": a_token * 2048}


def shared_samples(model: BenchModel, seed: int) -> dict[str, Any]:
    """Samples of one prompt, without a model."""
    from .claim_measures import sample_blocks

    return {**sample_blocks()}


def regression_set(model: BenchModel, seed: int) -> dict[str, Any]:
    """A share of the regression set: float32 in two ways, bfloat16 in one."""
    from .combinations import quick_combinations
    from .regress import load_cases, run_combination, share_of

    cases = share_of(load_cases())
    ways = quick_combinations()
    exact = [one for one in ways if one.mode.exact and one.caching]
    rounded = [one for one in ways if not one.mode.exact and one.caching]
    found = [run_combination(model, one, cases) for one in (*exact[:2], rounded[0])]
    return {
        "exact_tokens": sum(one.tokens for one in found[:2]),
        "exact_differences": sum(len(one.differences) for one in found[:2]),
        "rounded_tokens": found[2].tokens,
        "rounded_differences": len(found[2].differences),
        "problems": [problem for one in found for problem in one.problems],
    }


# -- judgements -----------------------------------------------------------------------------------------------------


def judge_waste(found: dict[str, Any]) -> Judgement:
    """Waste of reservation and of paging."""
    before, after = found["reserve"]["waste_of_used"], found["paged"]["waste_of_used"]
    here = f"{before:.0%} → {after:.1%} of the slots in use (doubling: {found['doubling']['waste_of_used']:.0%})"
    return Judgement(here, graded(before >= 0.6 and after < 0.04, after < 0.04))


def judge_utilization(found: dict[str, Any]) -> Judgement:
    """Utilization of reservation and of paging."""
    before, after = found["reserve"]["utilization"], found["paged"]["utilization"]
    here = f"{before:.0%} → {after:.1%} (doubling: {found['doubling']['utilization']:.0%})"
    return Judgement(here, graded(before <= 0.5 and after >= 0.95, after >= 0.95), after >= 0.95)


def judge_throughput(found: dict[str, Any]) -> Judgement:
    """Tokens a second at equal memory, by burst; what all of them show counts."""
    told, gains = [], []
    for name, one in found.items():
        paged, contiguous = one["paged"], one["contiguous"]
        gains.append(paged["tokens_per_s"] / contiguous["tokens_per_s"])
        told.append(
            f"{gains[-1]:.2f} x for {name} tokens ({contiguous['tokens_per_s']:.0f} → {paged['tokens_per_s']:.0f} "
            f"tokens/s, {contiguous['running_peak']} → {paged['running_peak']} requests at once)"
        )
    return Judgement("; ".join(told), graded(min(gains) >= 2, max(gains) >= 1.1))


def judge_sequences(found: dict[str, Any]) -> Judgement:
    """Sixteen at once."""
    here = f"reservation runs {found['contiguous']} at once, paging {found['paged']}"
    return Judgement(
        here,
        graded(
            found["paged"] >= SEQUENCES and found["contiguous"] < SEQUENCES,
            found["paged"] > found["contiguous"],
        ),
    )


def judge_burst(found: dict[str, Any]) -> Judgement:
    """The slowest first tokens, by burst; the goal is met when it is met in all of them."""
    told, ratios = [], []
    for name, one in found.items():
        contiguous, paged = (one[memory]["ttft_p95_s"] for memory in ("contiguous", "paged"))
        ratios.append(paged / contiguous)
        told.append(f"{ratios[-1]:.2f} x for {name} tokens ({contiguous:.1f} → {paged:.1f} s)")
    met = max(ratios) <= 0.5
    return Judgement("; ".join(told), graded(met, min(ratios) < 1 / ALMOST), met)


def judge_cached_prefix(found: dict[str, Any]) -> Judgement:
    """A known prefix is nearly free; its attention is not."""
    told = [
        f"{one['ratio']:.2f} x after {int(known):,} known ({1e3 * one['alone_s']:.0f} → {1e3 * one['after_s']:.0f} ms)"
        for known, one in found.items()
    ]
    met = [one["ratio"] <= 1.2 for one in found.values()]
    return Judgement("; ".join(told), graded(all(met), any(met)), all(met))


def judge_block_table(found: dict[str, Any]) -> Judgement:
    """What the table costs: theirs is a slower kernel, our goal is one that is not."""
    attention, step = found["attention"], found["step"]
    here = f"attention alone {attention:.2f} x contiguous, a whole step {step:.2f} x (context {found['context']:,})"
    return Judgement(here, graded(attention >= 1.2, attention > ALMOST), attention <= ALMOST)


def judge_7b(found: dict[str, Any]) -> Judgement:
    """A sum that anybody can do."""
    size = found["bytes"] / GIB
    here = f"{size:g} GiB: 2 x 32 x 4,096 x 2 bytes are {found['bytes_a_token'] / 2**10:g} KiB a token"
    return Judgement(here, "holds" if size > 8 else "corrected")


def judge_fragmentation(found: dict[str, Any]) -> Judgement:
    """What is left of internal fragmentation."""
    most, allowed = found["paged"]["most_waste_a_branch"], found["block_size"] - 1
    share = found["paged"]["waste_of_used"]
    here = f"{share:.1%} remains: no branch has more than {most} empty slots (a part block: {allowed})"
    return Judgement(here, "holds" if most == 0 else graded(False, most <= allowed))


def judge_output(found: dict[str, Any]) -> Judgement:
    """Whether replies are what they would be without paging."""
    exact, rounded = found["exact_differences"], found["rounded_differences"]
    here = (
        f"float32: {exact} of {found['exact_tokens']:,} tokens differ from transformers'; bfloat16: "
        f"{rounded} of {found['rounded_tokens']:,}"
    ) + (f"; {found['problems'][0]}" if found["problems"] else "")
    right = not exact and not found["problems"]
    return Judgement(here, graded(right and not rounded, right), right)


def judge_one_request(found: dict[str, Any]) -> Judgement:
    """Whether a lone chat writes faster with a table than without."""
    ratio = found["step"]
    here = f"a decoding step takes {ratio:.2f} x that on one block; by design nothing is gained alone"
    return Judgement(here, "holds" if ratio < 1 / ALMOST else "does not")


def judge_sharing(found: dict[str, Any]) -> Judgement:
    """Memory that samples of one prompt share."""
    saved = 1 - found["held"] / found["alone"]
    here = f"{saved:.0%} saved by 8 samples of a prompt of 512 tokens, 64 tokens into the replies"
    return Judgement(here, graded(saved >= 0.37, saved >= 0.06))


def graded(holds: bool, partly: bool) -> str:
    """The verdict of a claim that can be reached in full or in part."""
    return "holds" if holds else "partly" if partly else "does not"


CLAIMS = (
    Claim("waste of KV memory falls", BLOG, "60-80 % → under 4 %", allocators, judge_waste),
    Claim(
        "utilization rises",
        f"{ARTICLES}; the paper has 20-38 % → 96 %",
        "30-50 % → 95 %",
        allocators,
        judge_utilization,
    ),
    Claim("throughput at equal memory", PAPER, "2-4 x", bursts, judge_throughput),
    Claim(
        "16 sequences where reservation runs out at 8",
        ARTICLES,
        "16 of 1,024 + 256 tokens",
        sequences_at_once,
        judge_sequences,
    ),
    Claim("P95 TTFT of a burst, equal budget", OURS, "at most half", bursts, judge_burst),
    Claim(
        "known tokens cost next to nothing: TTFT of 100 new ones",
        OURS,
        "at most 1.2 x without the known ones",
        cached_prefix,
        judge_cached_prefix,
    ),
    Claim(
        "the block table slows attention, one chat",
        f"{PAPER}, own ablation; our goal",
        "20-26 %; goal at most 1.05 x",
        block_table,
        judge_block_table,
    ),
    Claim("a 7B cache of 2,048 tokens", ARTICLES, "over 8 GB", cache_of_7b, judge_7b),
    Claim("internal fragmentation is gone", ARTICLES, "none left", allocators, judge_fragmentation),
    Claim(
        "sharing saves memory (samples of one prompt)",
        PAPER,
        "6-10 % samples, 37-55 % beam",
        shared_samples,
        judge_sharing,
    ),
    Claim("output never changes", ARTICLES, "same tokens", regression_set, judge_output),
    Claim("one request gets faster", ARTICLES, "faster alone", block_table, judge_one_request),
)
