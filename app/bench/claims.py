"""Well-known claims about PagedAttention, what this machine says to them, and a verdict computed from the figures.

Each claim has a *measure* that brings figures (or says why it cannot) and a *judgement* of them; nothing is judged that
was not measured in this run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...engine.errors import PagedChatError
from .cells import bench_configuration
from .claim_list import CLAIMS, Claim
from .report import BenchResult, Table

if TYPE_CHECKING:
    from .models import BenchModel

VERDICTS = ("holds", "partly", "does not", "corrected", "not measured")
COLUMNS = ["claim", "source", "their figure", "here", "verdict"]
NOTE = (
    "All figures under `here` are of this run: times on the model; waste, utilization, sequences and samples by the "
    "engine's own scheduler and cache manager without one; the 7B cache by arithmetic."
)


@dataclass(frozen=True)
class Judged:
    """A claim with what this run says to it.

    Attributes:
        here: our figure in words.
        goal_met: of claims that are goals of our own; None for the others.
        figures: what was measured.
    """

    claim: str
    source: str
    figure: str
    here: str
    verdict: str
    goal_met: bool | None
    figures: dict[str, Any]
    seconds: float


def run_claims(model_path: Path, seed: int = 1, note: Callable[[str], None] = lambda text: None) -> BenchResult:
    """Judge all claims on one model, some minutes of work.

    Args:
        note: told which measure runs.
    """
    from .claim_measures import BURSTS
    from .models import BenchModel

    model = BenchModel.open(model_path)
    asked = {"seed": seed, "model": model.checkpoint.name, "bursts": [one.describe() for one in BURSTS]}
    result = BenchResult("claims", bench_configuration(model.checkpoint), asked)
    return finish_claims(result, judge_all(model, seed, note))


def judge_all(
    model: BenchModel, seed: int, note: Callable[[str], None], claims: tuple[Claim, ...] = CLAIMS
) -> list[Judged]:
    """Measure what the claims need, each measure once, and judge them in order."""
    measured: dict[Any, tuple[dict[str, Any] | str, float]] = {}
    judged = []
    for claim in claims:
        if claim.measure not in measured:
            note(claim.measure.__name__.replace("_", " "))
            measured[claim.measure] = _measure(claim, model, seed)
        found, seconds = measured[claim.measure]
        judged.append(judge(claim, found, seconds))
    return judged


def judge(claim: Claim, found: dict[str, Any] | str, seconds: float = 0.0) -> Judged:
    """A claim from its figures, or from the sentence that says why there are none."""
    if isinstance(found, str):
        return Judged(claim.text, claim.source, claim.figure, found, "not measured", None, {}, seconds)
    judgement = claim.judge(found)
    assert judgement.verdict in VERDICTS
    return Judged(
        claim.text,
        claim.source,
        claim.figure,
        judgement.here,
        judgement.verdict,
        judgement.goal_met,
        found,
        seconds,
    )


def finish_claims(result: BenchResult, judged: list[Judged]) -> BenchResult:
    """The table, and how many claims got which verdict."""
    rows: list[list[Any]] = [[one.claim, one.source, one.figure, one.here, one.verdict] for one in judged]
    result.tables = [Table("Claims about PagedAttention", COLUMNS, rows, NOTE)]
    counts = {verdict: sum(one.verdict == verdict for one in judged) for verdict in VERDICTS}
    goals = [one for one in judged if one.goal_met is not None]
    missed = [one.claim for one in goals if not one.goal_met]
    result.figures = {"claims": [asdict(one) for one in judged], "verdicts": counts, "goals_missed": missed}
    result.passed = not missed if goals else None
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    ours = f" Of {len(goals)} goals of our own {len(goals) - len(missed)} are met."
    result.verdict = f"{len(judged)} claims: {told}.{ours if goals else ''}" + "".join(
        f" Missed: {one}." for one in missed
    )
    return result.finish()


def _measure(claim: Claim, model: BenchModel, seed: int) -> tuple[dict[str, Any] | str, float]:
    began = time.monotonic()
    try:
        found: dict[str, Any] | str = claim.measure(model, seed)
    except (PagedChatError, ImportError) as error:
        found = str(error)
    return found, round(time.monotonic() - began, 1)
