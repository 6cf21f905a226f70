"""The compiled program: the same logits as operation by operation, whatever the threads, the company and the cut."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from platformdirs import user_cache_path

import pagedchat
from pagedchat.engine.models.decoder import OperationSteps, decoder_shape, read_weights
from pagedchat.kernels.cpu import compiled
from pagedchat.kernels.cpu.crossover import CANDIDATES
from pagedchat.kernels.cpu.program import CpuProgram
from pagedchat.kernels.cpu.threads import Team
from pagedchat.kernels.reference import ReferenceKernels
from support.fake_checkpoint import checkpoint_of, scattered_sequences, step_batch, tiny_llama

BLOCK = 4


@pytest.fixture(scope="module")
def functions() -> compiled.CompiledFunctions:
    folder = compiled.cache_folder(user_cache_path("pagedchat", appauthor=False), pagedchat.__version__)
    return compiled.compile_functions(folder if compiled.prepare_folder(folder) is None else None)


def empty_cache(dtype: torch.dtype) -> torch.Tensor:
    return torch.full((2, 2, 64, 2, BLOCK, 8), float("nan"), dtype=dtype)


def program(functions, dtype: torch.dtype, threads: int, **changes) -> CpuProgram:
    checkpoint = checkpoint_of(tiny_llama(**changes))
    weights = read_weights(checkpoint, checkpoint.spec.max_position)
    return CpuProgram(decoder_shape(checkpoint.spec), weights, empty_cache(dtype), Team(threads), functions)


def mixed_steps() -> list:
    ids, tables = scattered_sequences()
    return [
        step_batch([ids[0]], tables[:1], [(0, 33)], BLOCK),
        step_batch(ids, tables, [(33, 34), (0, 9), (0, 40)], BLOCK),
        step_batch(ids[:2], tables[:2], [(34, 35), (9, 30)], BLOCK, [0, 5, 21]),
        step_batch(ids[:1], tables[:1], [(35, 36)], BLOCK, []),
        step_batch(ids[:1], tables[:1], [(36, 37)], BLOCK),
    ]


def run(target) -> list[np.ndarray]:
    return [target.forward(step.token_ids, step.groups, step.sample_rows) for step in mixed_steps()]


@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True}])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-4), (torch.bfloat16, 0.2)])
def test_a_program_gives_the_logits_of_the_reference(functions, dtype, error, changes):
    checkpoint = checkpoint_of(tiny_llama(**changes))
    weights = read_weights(checkpoint, checkpoint.spec.max_position)
    shape = decoder_shape(checkpoint.spec)
    expected = run(OperationSteps(shape, weights, ReferenceKernels("cpu", dtype), empty_cache(dtype)))
    for got, wanted in zip(run(program(functions, dtype, 2, **changes)), expected, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, atol=error * max(1, np.abs(wanted).max(initial=0)))


def test_the_bits_do_not_depend_on_the_number_of_threads(functions):
    one, five = run(program(functions, torch.bfloat16, 1)), run(program(functions, torch.bfloat16, 5))
    for first, second in zip(one, five, strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_row_gets_the_same_bits_alone_and_in_small_company(functions):
    few = CANDIDATES[0] - 1
    ids = [[random.Random(i).randrange(97) for _ in range(20)] for i in range(few)]
    tables = [list(range(5 * i, 5 * i + 5)) for i in range(few)]
    together, alone = program(functions, torch.bfloat16, 2), program(functions, torch.bfloat16, 2)
    for target in (together, alone):
        for row, table in zip(ids, tables, strict=True):
            step = step_batch([row], [table], [(0, 19)], BLOCK)
            target.forward(step.token_ids, step.groups, step.sample_rows)
    step = step_batch(ids, tables, [(19, 20)] * few, BLOCK)
    batch = together.forward(step.token_ids, step.groups, step.sample_rows)
    for i, (row, table) in enumerate(zip(ids, tables, strict=True)):
        step = step_batch([row], [table], [(19, 20)], BLOCK)
        np.testing.assert_array_equal(alone.forward(step.token_ids, step.groups, step.sample_rows)[0], batch[i])


def test_read_only_and_strided_inputs_are_taken(functions):
    target = program(functions, torch.float32, 1)
    step = mixed_steps()[0]
    expected = target.forward(step.token_ids, step.groups, step.sample_rows)
    step.attention.block_tables = np.asfortranarray(np.tile(step.attention.block_tables, (2, 1)))[:1]
    step.token_ids.flags.writeable = False
    np.testing.assert_array_equal(target.forward(step.token_ids, step.groups, step.sample_rows), expected)


def test_the_sources_hash_names_the_cache_folder(tmp_path: Path):
    folder = compiled.cache_folder(tmp_path, "1.2.3")
    assert folder.parent == tmp_path / "kernels"
    assert folder.name.startswith(f"1.2.3-{compiled.sources_hash()}")
    assert not compiled.is_cached(folder)
