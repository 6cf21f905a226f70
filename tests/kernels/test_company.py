"""What stands beside a sequence in a step changes its logits by rounding at most, and by no bit if it is as long."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from platformdirs import user_cache_path

import pagedchat
from pagedchat.engine.models.decoder import OperationSteps, decoder_shape, read_weights
from pagedchat.kernels.cpu import compiled
from pagedchat.kernels.cpu.program import CpuProgram
from pagedchat.kernels.cpu.threads import Team
from pagedchat.kernels.reference import ReferenceKernels
from support.fake_checkpoint import checkpoint_of, step_batch, tiny_llama

BLOCK = 4
LIMIT = 1e-4
SPANS = {
    "decodes": [(19, 20)] * 5,
    "a decode among prompts": [(19, 20), (0, 17), (4, 21), (0, 1), (11, 30)],
    "a prompt among decodes": [(0, 23), (29, 30), (8, 9), (0, 30), (15, 16)],
}


@pytest.fixture(scope="module", params=["plain torch", "compiled"])
def make_target(request: pytest.FixtureRequest) -> Any:
    """Makes decoders with an empty cache."""
    checkpoint = checkpoint_of(tiny_llama())
    shape, weights = decoder_shape(checkpoint.spec), read_weights(checkpoint, checkpoint.spec.max_position)

    def empty() -> torch.Tensor:
        return torch.full((2, 2, 64, 2, BLOCK, 8), float("nan"))

    if request.param == "plain torch":
        return lambda: OperationSteps(shape, weights, ReferenceKernels("cpu", torch.float32), empty())
    folder = compiled.cache_folder(user_cache_path("pagedchat", appauthor=False), pagedchat.__version__)
    functions = compiled.compile_functions(folder if compiled.prepare_folder(folder) is None else None)
    return lambda: CpuProgram(shape, weights, empty(), Team(2), functions)


def ids_of(seed: int, count: int = 30) -> list[int]:
    return [random.Random(1000 * seed + one).randrange(97) for one in range(count)]


def forward(target: Any, rows: list[list[int]], tables: list[list[int]], spans: list[tuple[int, int]]) -> np.ndarray:
    """Logits of the last token of each sequence, after what comes before it was fed alone."""
    for row, table, (begin, _) in zip(rows, tables, spans, strict=True):
        if begin:
            step = step_batch([row], [table], [(0, begin)], BLOCK)
            target.forward(step.token_ids, step.groups, step.sample_rows)
    step = step_batch(rows, tables, spans, BLOCK)
    return np.array(target.forward(step.token_ids, step.groups, step.sample_rows))


def tables_of(count: int) -> list[list[int]]:
    order = random.Random(7).sample(range(64), 8 * count)
    return [order[8 * one : 8 * one + 8] for one in range(count)]


@pytest.mark.parametrize("name", SPANS)
def test_other_contents_beside_it_change_no_bit(make_target: Any, name: str) -> None:
    spans, tables = SPANS[name], tables_of(5)
    for place in (0, 2, 4):
        rows = [ids_of(one) for one in range(5)]
        first = forward(make_target(), rows, tables, spans)
        others = [rows[place] if one == place else ids_of(50 + one) for one in range(5)]
        second = forward(make_target(), others, tables, spans)
        assert np.array_equal(first[place], second[place])
        changed = [one for one in range(5) if one != place and not np.array_equal(first[one], second[one])]
        assert len(changed) == 4, "the others did change"


@pytest.mark.parametrize("name", SPANS)
def test_alone_and_in_company_the_logits_agree_to_rounding_and_so_does_the_choice(make_target: Any, name: str) -> None:
    spans, tables = SPANS[name], tables_of(5)
    rows = [ids_of(one) for one in range(5)]
    together = forward(make_target(), rows, tables, spans)
    for place in range(5):
        (alone,) = forward(make_target(), rows[place : place + 1], tables[place : place + 1], spans[place : place + 1])
        assert np.abs(alone - together[place]).max() <= LIMIT
        best, second = np.sort(alone)[::-1][:2]
        assert alone.argmax() == together[place].argmax() or best - second < LIMIT
