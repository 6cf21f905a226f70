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
class Asked:
    """A request and what came of it; ``reason`` is None while it runs."""

    name: str
    prompt: list[int]
    params: SamplingParams
    salt: str = ""
    priority: int = 0
    ids: list[int] = field(default_factory=list)
    text: str = ""
    reason: str | None = None
    error: str | None = None
    metrics: RequestMetrics = field(default_factory=RequestMetrics)

    def send(self, engine: Engine) -> None:
        """Queue it."""
        engine.add_request(self.name, self.prompt, self.params, salt=self.salt, priority=self.priority)

    @property
    def computed(self) -> list[int]:
        """Ids whose KV was computed: all but the last."""
        return [*self.prompt, *self.ids][:-1]


def step(engine: Engine, asked: dict[str, Asked]) -> list[Asked]:
    """One step; the requests that ended in it."""
    ended = []
    for output in engine.step():
        one = asked[output.request_id]
        assert one.reason is None, f"{one.name} has an output after its last one"
        one.ids += output.token_ids
        one.text += output.text
        one.metrics = output.metrics or one.metrics
        if output.finish_reason is not None:
            one.reason, one.error = output.finish_reason, output.error
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
    raise AssertionError(f"not at an end after {most_steps} steps: {[one.name for one in requests if not one.reason]}")


def check_at_rest(engine: Engine) -> None:
    """Nothing runs, nothing is held."""
    snapshot, stats = engine.snapshot(), engine.stats()
    assert not engine.has_unfinished()
    assert snapshot["active"] == 0 and snapshot["conserved"] and not snapshot["tables"], snapshot
    assert stats["running"] == stats["waiting"] == 0, stats


def check_same(model: TrialModel, got: Asked, expected: Asked, notes: Counter[str]) -> None:
    """Equal ids and text; in float32 a close call may go the other way, which is noted."""
    prompt = got.prompt
    if got.ids != expected.ids:
        index = common_prefix(got.ids, expected.ids)
        if model.is_close_call([*prompt, *expected.ids[:index]]):
            notes["close calls"] += 1
            return
    assert got.ids == expected.ids, f"{got.name}: {got.ids} instead of {expected.ids} after {len(prompt)} tokens"
    assert (got.text, got.reason) == (expected.text, expected.reason), (got, expected)


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
