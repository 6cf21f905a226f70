"""Loads with known lengths, the same for the same seed: how chats come, how long they are, what they share."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from .replay import Arrival


@dataclass(frozen=True)
class Lengths:
    """A lognormal length in tokens: half are below ``median``; cut to ``least`` and ``most``."""

    median: int
    spread: float = 0.6
    least: int = 8
    most: int = 1 << 20

    def draw(self, rng: random.Random) -> int:
        """One length."""
        drawn = round(self.median * math.exp(rng.gauss(0.0, self.spread)))
        return max(self.least, min(self.most, drawn))

    def __str__(self) -> str:
        return f"median {self.median} (lognormal, sigma {self.spread:g}, {self.least} to {self.most})"


def chat_load(
    requests: int,
    prompts: Lengths,
    replies: Lengths,
    rate: float,
    seed: int,
    vocab_size: int = 512,
    system: int = 0,
) -> list[Arrival]:
    """Single questions that arrive at random (Poisson) at ``rate`` a second; 0 is all at once.

    Args:
        system: tokens of a system prompt that all begin with; part of the drawn prompt length.
    """
    rng, at = random.Random(seed), 0.0
    shared = [rng.randrange(vocab_size) for _ in range(system)]
    load = []
    for _ in range(requests):
        at += rng.expovariate(rate) if rate else 0.0
        own = max(1, prompts.draw(rng) - system)
        prompt = shared + [rng.randrange(vocab_size) for _ in range(own)]
        load.append(Arrival(at, prompt, replies.draw(rng)))
    return load
