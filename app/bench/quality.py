"""How far the fast paths are from float32: perplexity, mean KL divergence and greedy flips, by mode and by the way a
text is cut into steps.

The text (``data/quality_text.txt``, written for this) is taken in passages of equal length, each a context of its
own. *Routes* feed it: all at once, in chunks, in decode steps of 1, 4 or 16 rows, and warm (the first half of each
passage token by token, as a reply was decoded, the rest on that cache). The measure of all is one pass in plain torch
in float32. KL is of the distribution of the next token, in nats a token; a flip is another most likely token.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...engine.errors import PagedChatError
from ...engine.types import StepBatch
from ...kernels.interface import AttentionBatch
from .models import Mode

if TYPE_CHECKING:
    from ...engine.runner import ModelRunner
    from .models import BenchModel

TEXT = Path(__file__).parent / "data" / "quality_text.txt"
PASSAGE_TOKENS = 256
BLOCK_SIZE = 16
TRUTH = Mode("reference", "float32", "float32")
MOST_KL = 1e-3
MOST_PERPLEXITY_CHANGE = 0.005
EXACT_KL = 1e-6


Rows = tuple[int, int, torch.Tensor]
"""Number of a passage, position of the first row, and log probabilities [rows, vocabulary]."""


@dataclass(frozen=True)
class Route:
    """A way to cut passages into steps.

    Attributes:
        sequences: passages in one step.
        span: tokens of each passage in a step; None for all that are left.
        warm: the first half goes token by token, whatever ``span`` is.
    """

    name: str
    sequences: int = 1
    span: int | None = None
    warm: bool = False

    def cuts(self, length: int) -> Iterator[tuple[int, int]]:
        """(begin, end) of each step."""
        begin = 0
        while begin < length:
            span = 1 if self.warm and begin < length // 2 else self.span or length
            yield begin, min(begin + span, length)
            begin += span


WHOLE = Route("whole")
ONE_ROW = Route("1 row", 1, 1)
ROUTES = (
    WHOLE,
    ONE_ROW,
    Route("4 rows", 4, 1),
    Route("16 rows", 8, 2),
    Route("chunks of 16", 1, 16),
    Route("chunks of 32", 1, 32),
    Route("warm", 1, None, warm=True),
)


@dataclass
class Measure:
    """Sums over the positions of one route.

    Attributes:
        positions: distributions compared.
        targets: of these, the ones whose next token the text has.
        nats: minus log probability of those tokens.
        kl, flips: against float32.
        kl_whole, flips_whole: against the same mode fed whole.
    """

    positions: int = 0
    targets: int = 0
    nats: float = 0.0
    kl: float = 0.0
    flips: int = 0
    kl_whole: float = 0.0
    flips_whole: int = 0
    seconds: float = 0.0

    @property
    def perplexity(self) -> float:
        """Of the text."""
        return math.exp(self.nats / max(1, self.targets))

    def to_dict(self) -> dict[str, Any]:
        """Means, for JSON."""
        count = max(1, self.positions)
        return {
            "positions": self.positions,
            "perplexity": self.perplexity,
            "kl": self.kl / count,
            "flip_rate": self.flips / count,
            "kl_whole": self.kl_whole / count,
            "flip_rate_whole": self.flips_whole / count,
            "seconds": round(self.seconds, 2),
        }


@dataclass
class Goal:
    """Something to reach and what was reached."""

    text: str
    goal: float
    got: float

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.got <= self.goal


@dataclass
class QualityReport:
    """Everything measured; ``measures`` by mode and route."""

    tokens: int
    truth_perplexity: float
    measures: dict[str, dict[str, Measure]] = field(default_factory=dict)
    peer_flip_rate: float | None = None
    peer_note: str = ""
    goals: list[Goal] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        modes = {
            mode: {route: one.to_dict() for route, one in routes.items()} for mode, routes in self.measures.items()
        }
        return {
            "tokens": self.tokens,
            "float32_perplexity": self.truth_perplexity,
            "modes": modes,
            "transformers": {"bf16_flip_rate": self.peer_flip_rate, "note": self.peer_note},
            "goals": [{**asdict(goal), "met": goal.met} for goal in self.goals],
        }


def load_passages(model: BenchModel, count: int | None = None) -> list[list[int]]:
    """Token ids of the corpus, `PASSAGE_TOKENS` of each passage.

    Raises:
        PagedChatError: when the model's tokenizer makes too few of it.
    """
    texts = TEXT.read_text("utf-8").split("====\n")[:count]
    passages = [model.tokenizer.encode(text)[:PASSAGE_TOKENS] for text in texts]
    if any(len(passage) < PASSAGE_TOKENS for passage in passages):
        raise PagedChatError(f"This model's tokenizer makes fewer than {PASSAGE_TOKENS} tokens of a passage.")
    return passages


class Distributions:
    """Log probabilities of every position, float32 [passages, tokens, vocabulary], kept in a temporary file."""

    def __init__(self, folder: str, passages: Sequence[Sequence[int]], vocab_size: int) -> None:
        shape = (len(passages), len(passages[0]), vocab_size)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            self._rows = np.memmap(file.name, np.float32, "w+", shape=shape)

    def put(self, passage: int, begin: int, rows: torch.Tensor) -> None:
        """Keep the rows from position ``begin`` on."""
        self._rows[passage, begin : begin + len(rows)] = rows.numpy()

    def get(self, passage: int, begin: int, count: int) -> torch.Tensor:
        """``count`` rows from position ``begin`` on."""
        return torch.from_numpy(np.array(self._rows[passage, begin : begin + count]))


def feed(runner: ModelRunner, passages: Sequence[Sequence[int]], route: Route) -> Iterator[Rows]:
    """Run passages along a route."""
    length = len(passages[0])
    for first in range(0, len(passages), route.sequences):
        group = passages[first : first + route.sequences]
        for begin, end in route.cuts(length):
            logits = torch.from_numpy(runner.execute(step_of(group, begin, end)))
            for place, rows in enumerate(logits.split(end - begin)):
                yield first + place, begin, rows.log_softmax(-1)


def step_of(passages: Sequence[Sequence[int]], begin: int, end: int) -> StepBatch:
    """One step that feeds positions ``begin`` to ``end`` of each passage; passage i lies in its own blocks in order."""
    blocks = blocks_for(passages[0])
    span, count = end - begin, len(passages)
    tables = np.arange(count * blocks, dtype=np.int32).reshape(count, blocks)
    positions = np.tile(np.arange(begin, end, dtype=np.int32), count)
    owner = np.repeat(np.arange(count), span)
    slots = tables[owner, positions // BLOCK_SIZE].astype(np.int64) * BLOCK_SIZE + positions % BLOCK_SIZE
    attention = AttentionBatch(
        query_start=np.arange(0, (count + 1) * span, span, dtype=np.int32),
        seq_lens=np.full(count, end, np.int32),
        block_tables=tables,
        positions=positions,
        slot_mapping=slots,
        block_size=BLOCK_SIZE,
    )
    tokens = np.concatenate([np.asarray(passage[begin:end], np.int64) for passage in passages])
    return StepBatch(tokens, [attention], np.arange(len(tokens)))


def blocks_for(passage: Sequence[int]) -> int:
    """Blocks of one passage."""
    return -(-len(passage) // BLOCK_SIZE)


def measure(
    rows: Iterator[Rows],
    passages: Sequence[Sequence[int]],
    truth: Distributions | None,
    whole: Distributions | None,
) -> Measure:
    """Compare distributions with float32's and with those of the mode fed whole."""
    total, began = Measure(), time.monotonic()
    for passage, begin, got in rows:
        targets = torch.tensor(passages[passage][begin + 1 : begin + 1 + len(got)], dtype=torch.int64)
        total.positions += len(got)
        total.targets += len(targets)
        total.nats -= float(got[torch.arange(len(targets)), targets].sum())
        if truth is not None:
            kl, flips = compare(truth.get(passage, begin, len(got)), got)
            total.kl, total.flips = total.kl + kl, total.flips + flips
        if whole is not None:
            kl, flips = compare(whole.get(passage, begin, len(got)), got)
            total.kl_whole, total.flips_whole = total.kl_whole + kl, total.flips_whole + flips
    total.seconds = time.monotonic() - began
    return total


def compare(expected: torch.Tensor, got: torch.Tensor) -> tuple[float, int]:
    """Summed KL(expected, got) of rows of log probabilities, and in how many the most likely token is another."""
    kl = (expected.exp() * (expected - got)).sum(-1, dtype=torch.float64)
    return float(kl.clamp(min=0).sum()), int((expected.argmax(-1) != got.argmax(-1)).sum())


def kept(rows: Iterator[Rows], store: Distributions) -> Iterator[Rows]:
    """Keep rows on their way."""
    for passage, begin, got in rows:
        store.put(passage, begin, got)
        yield passage, begin, got


def run_quality(
    model: BenchModel,
    modes: Sequence[Mode],
    passages: Sequence[Sequence[int]],
    peer_flips: Callable[[Sequence[Sequence[int]]], float] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> QualityReport:
    """Measure modes along all routes.

    Args:
        peer_flips: transformers' own flip rate between cached and uncached bf16 on passages; may raise.
    """
    most = max(route.sequences for route in ROUTES)
    num_blocks = most * blocks_for(passages[0])
    with tempfile.TemporaryDirectory(prefix="pagedchat-quality-") as folder:
        runner = model.runner(TRUTH, BLOCK_SIZE, num_blocks)
        truth = Distributions(folder, passages, runner.vocab_size)
        exact = measure(kept(feed(runner, passages, WHOLE), truth), passages, None, None)
        report = QualityReport(sum(map(len, passages)), exact.perplexity)
        del runner
        for mode in modes:
            runner = model.runner(mode, BLOCK_SIZE, num_blocks)
            whole = Distributions(folder, passages, runner.vocab_size)
            routes = report.measures[str(mode)] = {}
            for route in ROUTES:
                rows = feed(runner, passages, route)
                first = route is WHOLE
                one = measure(kept(rows, whole) if first else rows, passages, truth, None if first else whole)
                routes[route.name] = one
                say(f"{mode}, {route.name}: {one.seconds:.1f} s")
    if peer_flips is not None:
        try:
            report.peer_flip_rate = peer_flips(passages)
        except Exception as error:  # transformers may lack what it takes; the rest stands
            report.peer_note = f"not measured: {type(error).__name__}: {error}"
    report.goals = [goal for mode in modes for goal in goals_of(mode, report)]
    return report


def goals_of(mode: Mode, report: QualityReport) -> list[Goal]:
    """What a mode must reach."""
    routes = report.measures[str(mode)]
    others = [one.to_dict() for name, one in routes.items() if name != WHOLE.name]
    changes = [abs(one.perplexity / report.truth_perplexity - 1) for one in routes.values()]
    goals = [
        Goal(f"{mode}: KL between routes, largest mean", MOST_KL, max(one["kl_whole"] for one in others)),
        Goal(f"{mode}: perplexity against float32, largest change", MOST_PERPLEXITY_CHANGE, max(changes)),
    ]
    if mode.exact:
        worst = max(one.to_dict()["kl"] for one in routes.values())
        goals.append(Goal(f"{mode}: KL against float32, largest mean", EXACT_KL, worst))
    elif report.peer_flip_rate is not None:
        cached = routes[ONE_ROW.name].to_dict()["flip_rate_whole"]
        goals.append(Goal(f"{mode}: flips between cached and whole, transformers' own", report.peer_flip_rate, cached))
    return goals
