"""Which settings the regression set runs under: every pair of values at least once, in few combinations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations, product
from random import Random
from typing import Any

from .models import DEFAULT_MODE, EXACT_MODES, Mode, inexact_modes

SHUFFLE = 3
"""Seed of the covering set's order: with this one no combination is spare (3 chunks x 4 block sizes are 12)."""
WHOLE = 8192
"""Token budget of a step that takes every prompt in one piece."""


@dataclass(frozen=True)
class Combination:
    """One way to serve the regression set.

    Attributes:
        chunk: tokens of a step at most.
        pool: ``huge`` holds everything; ``tiny`` little more than the longest request, so that others are evicted and
            preempted.
        together: requests at a time: 1 is alone, 8 is with seven neighbours.
    """

    mode: Mode
    caching: bool
    chunk: int
    block_size: int
    pool: str
    together: int

    def to_dict(self) -> dict[str, Any]:
        """All values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        parts = (
            str(self.mode),
            f"prefix caching {'on' if self.caching else 'off'}",
            "whole prompts" if self.chunk == WHOLE else f"chunks of {self.chunk}",
            f"blocks of {self.block_size}",
            f"{self.pool} pool",
            "alone" if self.together == 1 else f"{self.together} at a time",
        )
        return ", ".join(parts)


AXES: dict[str, tuple[Any, ...]] = {
    "caching": (True, False),
    "chunk": (WHOLE, 32, 16),
    "block_size": (16, 1, 8, 32),
    "pool": ("huge", "tiny"),
    "together": (8, 1),
}
"""Values of every axis but the mode. New kernels come in as modes (`models`)."""


def every_combination(modes: Sequence[Mode]) -> list[Combination]:
    """The full cross product."""
    assert [field.name for field in fields(Combination)] == ["mode", *AXES]
    return [Combination(mode, *others) for mode in modes for others in product(*AXES.values())]


def covering(modes: Sequence[Mode]) -> list[Combination]:
    """A small set in which any two values of two axes meet at least once; the same on every machine.

    Greedy: each next combination is one that brings most new pairs (as in AETG, Cohen et al. 1997), in an order that
    is shuffled so that the later ones are not all alike.
    """
    candidates = every_combination(modes)
    Random(SHUFFLE).shuffle(candidates)
    pairs = {one: set(combinations(axis_values(one), 2)) for one in candidates}
    left = set().union(*pairs.values())
    chosen: list[Combination] = []
    while left:
        chosen.append(max(pairs, key=lambda one: len(left & pairs[one])))
        left -= pairs[chosen[-1]]
    return chosen


def axis_values(combination: Combination) -> list[tuple[str, Any]]:
    """(axis, value) for every axis, the mode as one of them."""
    return [(field.name, getattr(combination, field.name)) for field in fields(combination)]


def exact_combinations() -> list[Combination]:
    """The covering set in float32: all must say the expected ids."""
    return covering(EXACT_MODES)


def inexact_combinations() -> list[Combination]:
    """The covering set of all other modes: how far they go is reported."""
    return covering(inexact_modes())


def quick_combinations() -> list[Combination]:
    """The covering sets of the compiled kernels alone; plain torch is many times slower."""
    return covering(EXACT_MODES[:1]) + covering((DEFAULT_MODE,))
