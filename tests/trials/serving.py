"""What trials share: requests with their replies, served to the end and compared."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pagedchat.engine import Engine, SamplingParams
from pagedchat.engine.types import RequestMetrics
from trials.models import TrialModel


@dataclass
class Sample:
    """One reply; ``reason`` is None while it runs."""

    ids: list[int] = field(default_factory=list)
    text: str = ""
    reason: str | None = None
    metrics: RequestMetrics = field(default_factory=RequestMetrics, compare=False)


@dataclass
class Asked:
    """A request and what came of it."""

    name: str
    prompt: list[int]
    params: SamplingParams
    salt: str = ""
    priority: int = 0
    ended: bool = False
    error: str | None = None

    def __post_init__(self) -> None:
        self.samples = [Sample() for _ in range(self.params.n)]

    def send(self, engine: Engine) -> None:
        """Queue it."""
        engine.add_request(self.name, self.prompt, self.params, salt=self.salt, priority=self.priority)

    @property
    def metrics(self) -> RequestMetrics:
        """Of the first sample, for which the prompt was computed; the others were forked from it."""
        return self.samples[0].metrics

    @property
    def preemptions(self) -> int:
        """Of all samples."""
        return sum(sample.metrics.preemptions for sample in self.samples)

    @property
    def computed(self) -> list[list[int]]:
        """Ids whose KV was computed, of each sample: all but the last."""
        return [[*self.prompt, *sample.ids][:-1] for sample in self.samples]


def step(engine: Engine, asked: dict[str, Asked]) -> list[Asked]:
    """One step; the requests that ended in it."""
    ended = []
    for output in engine.step():
        one = asked[output.request_id]
        sample = one.samples[output.index]
        assert not one.ended and sample.reason is None, f"{one.name} has an output after its last one"
        sample.ids += output.token_ids
        sample.text += output.text
        sample.metrics = output.metrics or sample.metrics
        one.error = output.error or one.error
        sample.reason = output.finish_reason
        if output.finish_reason is not None and not output.more:
            one.ended = True
            ended.append(one)
    return ended


def serve(engine: Engine, requests: Sequence[Asked], most_steps: int = 5000) -> None:
    """Send requests together and step until all have ended."""
    asked = {one.name: one for one in requests}
    for one in requests:
        one.send(engine)
    for _ in range(most_steps):
        if not engine.has_unfinished():
            return
        step(engine, asked)
    raise AssertionError(f"not at an end after {most_steps} steps: {[one.name for one in requests if not one.ended]}")


def check_at_rest(engine: Engine) -> None:
    """Nothing runs, nothing is held."""
    snapshot, stats = engine.snapshot(), engine.stats()
    assert not engine.has_unfinished()
    assert snapshot["active"] == 0 and snapshot["conserved"] and not snapshot["tables"], snapshot
    assert stats["running"] == stats["waiting"] == 0, stats


def check_same(model: TrialModel, got: Asked, expected: Asked, notes: Counter[str]) -> None:
    """Equal ids and texts; in float32 a close call may go the other way, which is noted."""
    for one, other in zip(got.samples, expected.samples, strict=True):
        if one.ids != other.ids:
            index = common_prefix(one.ids, other.ids)
            if model.is_close_call([*got.prompt, *other.ids[:index]]):
                notes["close calls"] += 1
                continue
        assert one == other, f"{got.name}: {one} instead of {other} after {len(got.prompt)} tokens, {got.params}"


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def random_ids(draw: random.Random, count: int) -> list[int]:
    """Ids of text, none of which ends a turn."""
    return [draw.randrange(96) for _ in range(count)]


def odd_length(draw: random.Random, block_size: int, most: int) -> int:
    """A length near a multiple of the block size, from 1 to ``most``."""
    near = draw.randrange(0, max(1, most // block_size) + 1) * block_size + draw.choice((-2, -1, -1, 0, 0, 1, 1, 2, 5))
    return min(max(1, near), most)
