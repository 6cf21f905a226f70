"""The regression set: what the default model says to fixed questions, served in many ways and compared with
plain transformers' replies (``data/regression.json``; `tests/regression/renew.py` is the recipe).
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...engine.sampling_params import SamplingParams
from ...engine.types import RequestMetrics

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from .combinations import Combination
    from .models import BenchModel

DATA = Path(__file__).parent / "data" / "regression.json"
STREAMS = "streams"
MOST_SEQS = 16


@dataclass(frozen=True)
class Turn:
    """One question: ids of the whole prompt, and of the expected reply with its text."""

    prompt: list[int]
    reply: list[int]
    text: str


@dataclass(frozen=True)
class Case:
    """One chat of the set; cases of the kind ``streams`` are served all at once."""

    name: str
    kind: str
    turns: list[Turn]


@dataclass(frozen=True)
class Difference:
    """Where a reply leaves the expected one.

    Attributes:
        turn, index: question of the chat and token of its reply, both from 0.
        cached: the prompt had been served before.
        got: id, or None where the reply ended early.
    """

    kind: str
    name: str
    turn: int
    index: int
    cached: bool
    got: int | None
    expected: int

    def __str__(self) -> str:
        again = ", from the cache" if self.cached else ""
        got = "the end" if self.got is None else str(self.got)
        return (
            f"{self.kind} {self.name!r}, turn {self.turn}, token {self.index}{again}: {got} instead of {self.expected}"
        )


@dataclass
class Outcome:
    """What one combination brought.

    Attributes:
        tokens: compared ones; what follows a difference is not, since its context is another.
        problems: sentences about what is wrong beside ids: text, cache hits, errors.
    """

    combination: Combination
    tokens: int = 0
    differences: list[Difference] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    preemptions: int = 0
    cached_tokens: int = 0
    seconds: float = 0.0

    @property
    def flip_rate(self) -> float:
        """Differing share of the compared tokens."""
        return len(self.differences) / max(1, self.tokens)

    @property
    def passed(self) -> bool:
        """In float32 everything is equal; other modes may differ, but nothing else may be wrong."""
        return not self.problems and not (self.combination.mode.exact and self.differences)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        own = {name: getattr(self, name) for name in ("passed", "tokens", "flip_rate", "problems", "preemptions")}
        found = {"differences": [asdict(one) for one in self.differences], "cached_tokens": self.cached_tokens}
        return {"combination": self.combination.to_dict(), **own, **found, "seconds": round(self.seconds, 2)}


def load_cases(path: Path = DATA) -> list[Case]:
    """The set, in the order of the file."""
    return [
        Case(one["name"], one["kind"], [Turn(turn["prompt"], turn["reply"], turn["text"]) for turn in one["turns"]])
        for one in json.loads(path.read_text("utf-8"))["cases"]
    ]


def share_of(cases: Sequence[Case], each: int = 1) -> list[Case]:
    """The first ``each`` cases of every kind, and four times as many streams."""
    kinds = dict.fromkeys(case.kind for case in cases)
    return [
        case
        for kind in kinds
        for case in [one for one in cases if one.kind == kind][: 4 * each if kind == STREAMS else each]
    ]


def run_combination(model: BenchModel, combination: Combination, cases: Sequence[Case]) -> Outcome:
    """Serve the cases in one way, twice where prefixes are cached, and compare every reply."""
    outcome, began = Outcome(combination), time.monotonic()
    engine = model.engine(
        combination.mode,
        block_size=combination.block_size,
        num_blocks=pool_size(cases, combination),
        max_num_batched_tokens=combination.chunk,
        max_num_seqs=MOST_SEQS,
        enable_prefix_caching=combination.caching,
    )
    for cached in (False, True) if combination.caching else (False,):
        for reply in serve_all(engine, cases, combination.together):
            compare(outcome, reply, cached)
    snapshot = engine.snapshot()
    if snapshot["active"] or not snapshot["conserved"]:
        outcome.problems.append("the pool's books do not balance afterwards")
    outcome.seconds = time.monotonic() - began
    return outcome


def pool_size(cases: Sequence[Case], combination: Combination) -> int:
    """Blocks: for everything at once with all that is cached, or for the longest request and little else."""
    sizes = [
        -(-(len(turn.prompt) + len(turn.reply)) // combination.block_size) + 1 for case in cases for turn in case.turns
    ]
    return sum(sizes) + MOST_SEQS + 1 if combination.pool == "huge" else max(sizes) + 1


@dataclass
class Reply:
    """Ids and text of a reply so far, and how it was served once it is complete."""

    case: Case
    turn: int
    ids: list[int] = field(default_factory=list)
    text: str = ""
    error: str | None = None
    metrics: RequestMetrics = field(default_factory=RequestMetrics)


def serve_all(engine: Engine, cases: Sequence[Case], together: int) -> Iterator[Reply]:
    """Serve all chats, ``together`` of them at a time and the streams all at once; replies as they are complete."""
    yield from serve(engine, [case for case in cases if case.kind != STREAMS], together)
    streams = [case for case in cases if case.kind == STREAMS]
    yield from serve(engine, streams, max(1, len(streams)))


def serve(engine: Engine, cases: Sequence[Case], together: int) -> Iterator[Reply]:
    """Serve chats turn by turn, each next question when the reply is there."""
    waiting = deque(Reply(case, 0) for case in cases)
    active: dict[str, Reply] = {}
    while waiting or active:
        while waiting and len(active) < together:
            reply = waiting.popleft()
            wanted, name = reply.case.turns[reply.turn], f"{reply.case.kind}/{reply.case.name}/{reply.turn}"
            params = SamplingParams(temperature=0, max_tokens=len(wanted.reply), ignore_eos=True)
            engine.add_request(name, wanted.prompt, params)
            active[name] = reply
        for output in engine.step():
            reply = active[output.request_id]
            reply.ids += output.token_ids
            reply.text += output.text
            if output.finish_reason is None:
                continue
            reply.error, reply.metrics = output.error, output.metrics or reply.metrics
            del active[output.request_id]
            if reply.turn + 1 < len(reply.case.turns):
                waiting.appendleft(Reply(reply.case, reply.turn + 1))
            yield reply


def compare(outcome: Outcome, reply: Reply, cached: bool) -> None:
    """Note one reply's difference, and what is wrong with it otherwise."""
    case, wanted = reply.case, reply.case.turns[reply.turn]
    where = f"{case.kind} {case.name!r}, turn {reply.turn}"
    index = first_difference(reply.ids, wanted.reply)
    if reply.error:
        outcome.problems.append(f"{where}: {reply.error}")
    elif index is not None:
        got = reply.ids[index] if index < len(reply.ids) else None
        difference = Difference(case.kind, case.name, reply.turn, index, cached, got, wanted.reply[index])
        outcome.differences.append(difference)
    elif reply.text != wanted.text:
        outcome.problems.append(f"{where}: right ids, but the text {reply.text!r} instead of {wanted.text!r}")
    outcome.tokens += len(wanted.reply) if index is None else index + 1
    outcome.preemptions += reply.metrics.preemptions
    outcome.cached_tokens += reply.metrics.cached_tokens
    problem = reuse_problem(outcome.combination, reply.metrics.cached_tokens, len(wanted.prompt), cached)
    if problem and not reply.error:
        outcome.problems.append(f"{where}: {problem}")


def first_difference(got: Sequence[int], expected: Sequence[int]) -> int | None:
    """Index of the first expected id that is not there; None when all are."""
    return next((i for i, one in enumerate(expected) if i >= len(got) or got[i] != one), None)


def reuse_problem(combination: Combination, found: int, prompt_tokens: int, cached: bool) -> str | None:
    """Whether the cache was used as the combination says: never, or for all but the last token of a known prompt."""
    if not combination.caching and found:
        return f"{found} tokens came from a cache that is off"
    if cached and combination.pool == "huge" and found != prompt_tokens - 1:
        return f"only {found} of {prompt_tokens} tokens were found in the cache"
    return None
