"""A regression set for a tiny random model: the same shape as the real one's, made and served in moments."""

from __future__ import annotations

import random
from typing import Any

import torch

from pagedchat.app.bench.models import BenchModel
from pagedchat.app.bench.regress import Case, Turn
from support.fake_checkpoint import checkpoint_of, tiny_llama
from support.paged_model import ByteTokenizer

CLOSE_CALL = 1e-3
LENGTHS = (1, 7, 8, 15, 16, 17, 31, 33, 40, 64)


def tiny_model(seed: int = 0) -> tuple[BenchModel, Any]:
    """A model for the benches, and the transformers model that it was made of."""
    plain = tiny_llama(seed)
    return BenchModel(checkpoint_of(plain), ByteTokenizer()), plain  # type: ignore[arg-type]


def tiny_cases(plain: Any, reply_tokens: int = 10) -> list[Case]:
    """Prompts of lengths around multiples of the block sizes, two chats of three turns, and streams."""
    draw = random.Random(5)
    shared = ids(draw, 19)
    cases = [case_of(plain, f"{n} tokens", "short", [ids(draw, n)], reply_tokens) for n in LENGTHS]
    for name in ("one", "two"):
        questions = [[*shared, *ids(draw, 5)], ids(draw, 9), ids(draw, 4)]
        cases.append(case_of(plain, name, "turns", questions, reply_tokens))
    return cases + [case_of(plain, str(n), "streams", [[*shared[:n], *ids(draw, 3)]], 5) for n in range(6, 14)]


def ids(draw: random.Random, count: int) -> list[int]:
    """Random ids of text."""
    return [draw.randrange(96) for _ in range(count)]


def case_of(plain: Any, name: str, kind: str, questions: list[list[int]], most: int) -> Case:
    """A case whose replies transformers gave."""
    turns, history = [], []
    for question in questions:
        prompt = history + question
        reply = greedy(plain, prompt, most)
        turns.append(Turn(prompt, reply, ByteTokenizer().decode(reply)))
        history = prompt + reply
    return Case(name, kind, turns)


def greedy(plain: Any, prompt: list[int], most: int) -> list[int]:
    """Greedy ids of a whole forward pass each, up to the first that is too close a call but at least one."""
    reply: list[int] = []
    while len(reply) < most:
        with torch.inference_mode():
            logits = plain(torch.tensor([prompt + reply])).logits[0, -1]
        best, other = logits.topk(2).values.tolist()
        if reply and best - other < CLOSE_CALL:
            break
        reply.append(int(logits.argmax()))
    return reply
