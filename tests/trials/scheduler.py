"""A long life of the engine on the scripted model: requests come, share prefixes, are cancelled in every state and
fail; every one of them ends, says what it must, and in the end nothing is held.

A trial is one run of `STEPS` steps, with block pressure in every other trial.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter

import numpy as np

from pagedchat.engine import Engine, SamplingParams
from pagedchat.engine.errors import EngineError, RequestError
from support.paged_model import VOCAB, make_engine
from trials.serving import Asked, Sample, check_at_rest, odd_length, random_ids, step

STEPS = 20_000
BLOCK_SIZE = 4
MOST_PROMPT, MOST_REPLY = 60, 24
WAYS_TO_END = {"stop", "length", "abort", "error"}


def trial(draw: random.Random, steps: int = STEPS, pressure: bool = False) -> Counter[str]:
    """One run. Raises AssertionError when a request is lost, says something else or leaves something behind."""
    run = Run(draw, pressure)
    for _ in range(steps):
        run.come_and_go()
        run.step()
    for _ in range(steps):
        if not run.engine.has_unfinished():
            break
        run.step()
    check_at_rest(run.engine)
    assert not run.running
    assert (run.notes["preemptions of chats"] > 0) == pressure or steps < 1000, "only pressure preempts a chat"
    return run.notes


class Run:
    """One engine with its callers."""

    def __init__(self, draw: random.Random, pressure: bool) -> None:
        self.draw = draw
        self.notes: Counter[str] = Counter()
        self.running: dict[str, Asked] = {}
        self.stems = [random_ids(draw, length) for length in (3, 16, 31, 40)]
        self.engine: Engine = make_engine(
            num_blocks=30 if pressure else 400,
            block_size=BLOCK_SIZE,
            end_turns=True,
            max_num_seqs=8,
            max_num_batched_tokens=12,
            max_queue=20,
        )
        self.busy = True

    def come_and_go(self) -> None:
        """What callers do between two steps."""
        draw = self.draw
        if draw.random() < 0.01:
            self.busy = not self.busy
        while draw.random() < (0.35 if self.busy else 0.03):
            self.ask()
        if self.running and draw.random() < 0.08:
            self.cancel(draw.choice(list(self.running.values())))
        if draw.random() < 0.003:
            self.engine.runner.fail_at.add(self.engine.runner.calls + 1)  # type: ignore[attr-defined]
        if draw.random() < 0.002:
            self.engine.reset_cache()

    def ask(self) -> None:
        """A request, sometimes one that is refused."""
        draw = self.draw
        stem = draw.choice(self.stems)
        prompt = [*stem[: draw.randrange(len(stem) + 1)], *random_ids(draw, odd_length(draw, BLOCK_SIZE, 20))]
        if draw.random() < 0.02:
            prompt = draw.choice(([], [VOCAB + 1], [1] * 5000))
        params = SamplingParams(
            temperature=0,
            max_tokens=draw.randrange(1, MOST_REPLY),
            ignore_eos=draw.random() < 0.3,
            n=draw.choice((1, 1, 1, 1, 2, 3)),
        )
        one = Asked(f"r{self.notes['asked']}", prompt, params, draw.choice(("", "b")), draw.choice((0, 0, 1)))
        self.notes["asked"] += 1
        try:
            one.send(self.engine)
        except RequestError:
            assert not prompt or prompt[0] > VOCAB or len(prompt) > MOST_PROMPT
            self.notes["bad"] += 1
        except EngineError:
            self.notes["refused"] += 1
        else:
            self.running[one.name] = one

    def cancel(self, one: Asked) -> None:
        """End a request in whatever state it is, and once more when it has none."""
        self.notes[f"cancelled {self._state(one)}"] += 1
        assert self.engine.cancel(one.name) or one.error  # of several samples that failed some are told a step later
        assert not self.engine.cancel(one.name)

    def _state(self, one: Asked) -> str:
        held = any(table["request_id"] == one.name for table in self.engine.snapshot()["tables"])
        begun = any(sample.ids for sample in one.samples)
        if not held:
            return "preempted" if begun else "waiting"
        return "decoding" if begun else "prefilling"

    def step(self) -> None:
        """One step; whoever ended in it must have said the right thing."""
        for one in step(self.engine, self.running):
            del self.running[one.name]
            for sample in one.samples:
                self.check(one, sample)
                self.notes[f"ended by {sample.reason}"] += 1
            assert (one.error is not None) == any(sample.reason == "error" for sample in one.samples)
            who = "background work" if one.priority else "chats"
            self.notes[f"preemptions of {who}"] += one.preemptions

    def check(self, one: Asked, sample: Sample) -> None:
        """The ids are those of the script; complete unless it was cancelled or failed."""
        assert sample.reason in WAYS_TO_END
        most = one.params.max_tokens or 0
        expected = spell(one.prompt, most if sample.reason == "length" else len(sample.ids), one.params.ignore_eos)
        assert sample.ids == expected, f"{one.name}: {sample.ids} instead of {expected}"
        if sample.reason == "stop":
            assert sample.ids[-1] == VOCAB - 1 and not one.params.ignore_eos


def spell(prompt: list[int], count: int, ignore_eos: bool) -> list[int]:
    """What the scripted model says, worked out from the tokens alone."""
    context = list(prompt)
    while len(context) < len(prompt) + count:
        seed = zlib.crc32(np.asarray(context, np.int64).tobytes())
        context.append(int(np.random.default_rng(seed).normal(size=VOCAB + 8)[:VOCAB].argmax()))
        if context[-1] == VOCAB - 1 and not ignore_eos:
            break
    return context[len(prompt) :]
