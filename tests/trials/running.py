"""Runs many trials of one kind, remembers how far it came, and says what the result means."""

from __future__ import annotations

import json
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from trials import equality, kills, pools, scheduler
from trials.models import model_named

SAVE_EVERY_S = 10.0
MOST_FAILURES = 10
"""As many are enough to look at."""
DEFAULT_MODELS = {"equality": "llama", "kills": "scripted", "pools": "scripted", "scheduler": "scripted"}


@dataclass
class Plan:
    """What to run.

    Attributes:
        name: ``equality``, ``kills``, ``pools`` or ``scheduler``.
        steps: of one run of the scheduler.
    """

    name: str
    seed: int = 0
    model: str = ""
    steps: int = scheduler.STEPS

    def __post_init__(self) -> None:
        self.model = self.model or DEFAULT_MODELS[self.name]

    def run(self, number: int) -> Counter[str]:
        """Trial ``number``, the same whenever it is run. Raises what went wrong."""
        draw = random.Random(f"{self.name} {self.seed} {number}")
        if self.name == "scheduler":
            return scheduler.trial(draw, self.steps, pressure=number % 2 == 1)
        if self.name == "kills":
            return kills.trial(draw)
        return {"equality": equality, "pools": pools}[self.name].trial(draw, model_named(self.model))


@dataclass
class Tally:
    """How far a plan came."""

    done: int = 0
    failures: list[dict] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)

    def summary(self) -> str:
        """Trials, failures and what follows: with none in n, the rate is under 3/n with 95 % confidence."""
        if self.failures:
            verdict = f"{len(self.failures) / self.done:.2%} of them"
        elif self.done:
            verdict = f"failure rate under 3/n = {3 / self.done:.3g} with 95 % confidence"
        else:
            verdict = "nothing known yet"
        seen = ", ".join(f"{name} {count:,}" for name, count in sorted(self.notes.items()))
        return f"{self.done:,} trials, {len(self.failures)} failures: {verdict}" + (f" ({seen})" if seen else "")


def run_trials(plan: Plan, count: int, state: Path | None, say: Callable[[str], None] = print) -> Tally:
    """Run trials up to ``count``, going on where ``state`` ends.

    Raises:
        ValueError: when ``state`` belongs to another plan.
    """
    tally, saved = load(plan, state), time.monotonic()
    for number in range(tally.done, count):
        try:
            tally.notes = dict(Counter(tally.notes) + plan.run(number))
        except Exception:
            tally.failures.append({"trial": number, "error": traceback.format_exc()})
            say(f"trial {number} failed: {tally.failures[-1]['error'].strip().splitlines()[-1]}")
        tally.done = number + 1
        if len(tally.failures) >= MOST_FAILURES:
            break
        if time.monotonic() - saved > SAVE_EVERY_S:
            save(plan, tally, state)
            say(f"{plan.name}: {tally.done:,} of {count:,}, {len(tally.failures)} failures")
            saved = time.monotonic()
    save(plan, tally, state)
    return tally


def load(plan: Plan, state: Path | None) -> Tally:
    """The tally of an earlier run of the same plan, or a new one."""
    if state is None or not state.exists():
        return Tally()
    kept = json.loads(state.read_text("utf-8"))
    if kept["plan"] != asdict(plan):
        raise ValueError(f"{state} belongs to other trials: {kept['plan']}. Name another file with --state.")
    return Tally(**kept["tally"])


def save(plan: Plan, tally: Tally, state: Path | None) -> None:
    """Write the tally, whole or not at all."""
    if state is None:
        return
    part = state.with_name(state.name + ".part")
    part.write_text(json.dumps({"plan": asdict(plan), "tally": asdict(tally)}, indent=1), encoding="utf-8")
    part.replace(state)
