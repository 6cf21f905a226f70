"""What a step costs: seconds = base + token * rows + slot * (slots of KV that its sequences have).

Three numbers fitted to steps that the model really ran; with them a load is served in virtual time, where only
scheduling and memory decide.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .no_model import NoModel
from .replay import Arrival, VirtualClock, replay

if TYPE_CHECKING:
    from ...engine.types import StepBatch
    from .models import BenchModel

FITTED = ((1, 64), (1, 1000), (4, 250), (16, 60), (16, 250))
"""Requests at once and tokens of their prompts."""
DECODED = 12
"""Tokens of each reply while the cost is measured."""


@dataclass(frozen=True)
class StepCost:
    """Seconds of a step.

    Attributes:
        base_s: of any step; mostly the weights that have to be read.
        token_s: of each row.
        slot_s: of each slot of KV of the step's sequences.
    """

    base_s: float
    token_s: float
    slot_s: float

    def seconds(self, rows: int, slots: int) -> float:
        """Of a step of so many rows, whose sequences are ``slots`` long together."""
        return self.base_s + self.token_s * rows + self.slot_s * slots

    def __str__(self) -> str:
        return (
            f"{self.base_s * 1e3:.2f} ms + {self.token_s * 1e3:.3f} ms a token + {self.slot_s * 1e6:.2f} us a slot read"
        )


STATED = StepCost(0.0065, 0.00055, 4.0e-7)
"""The default model on two cores, in round numbers; for when nothing is measured."""


class SimulatedModel(NoModel):
    """A model that computes nothing and takes the time that a step would cost."""

    def __init__(self, cost: StepCost, clock: VirtualClock) -> None:
        self._cost, self._clock = cost, clock

    def execute(self, batch: StepBatch) -> np.ndarray:
        """See `ModelRunner.execute`."""
        self._clock.advance(self._cost.seconds(len(batch.token_ids), int(batch.attention.seq_lens.sum())))
        return super().execute(batch)


class TimedRunner:
    """A runner that notes (rows, slots, seconds) of its steps; otherwise the one it wraps."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self.steps: list[tuple[int, int, float]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def execute(self, batch: StepBatch) -> np.ndarray:
        """See `ModelRunner.execute`."""
        began = time.perf_counter()
        logits = self._runner.execute(batch)
        self.steps.append((len(batch.token_ids), int(batch.attention.seq_lens.sum()), time.perf_counter() - began))
        return logits


def measure_cost(model: BenchModel) -> StepCost:
    """Fit the cost to a few loads on the real model, some seconds of work."""
    from .cells import PAGED, engine_for
    from .models import DEFAULT_MODE

    rng, steps = random.Random(0), []
    most = max(requests * (prompt + DECODED + 16) for requests, prompt in FITTED)
    timed = TimedRunner(model.runner(DEFAULT_MODE, 16, most // 16 + 8))
    engine = engine_for(PAGED, lambda size, blocks: timed, model.tokenizer, most + 128, model.max_model_len)
    for requests, prompt in FITTED:
        load = [Arrival(0.0, random_ids(rng, prompt, model.tokenizer.num_tokens), DECODED) for _ in range(requests)]
        timed.steps = []
        replay(engine, load)
        steps += timed.steps[1:]  # the first may still make room for its rows
    return fit(steps)


def fit(steps: list[tuple[int, int, float]]) -> StepCost:
    """Least squares of relative errors over (rows, slots, seconds), no coefficient below zero."""
    measured = np.array(steps, float)
    columns = np.stack([np.ones(len(measured)), measured[:, 0], measured[:, 1]], axis=1) / measured[:, 2:]
    kept = [0, 1, 2]
    found = np.zeros(3)
    while kept:
        values = np.linalg.lstsq(columns[:, kept], np.ones(len(measured)), rcond=None)[0]
        if (values >= 0).all():
            found[kept] = values
            break
        kept.remove(kept[int(values.argmin())])
    return StepCost(*(float(one) for one in found))


def random_ids(rng: random.Random, count: int, vocab_size: int) -> list[int]:
    """Token ids that no two prompts share by more than chance."""
    return [rng.randrange(vocab_size) for _ in range(count)]
