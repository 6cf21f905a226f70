"""Packed products equal products with the dequantized weights, within a third of the stated 0.3 %."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pagedchat.kernels.cpu.pack import PackedMatrix, pack
from support.compiled_ops import compiled_product, compiled_row
from support.file_blocks import FileBlocks, file_blocks

STATED = 0.003


def plain(dtype: torch.dtype, rows: int, columns: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)).to(dtype)


def packed_and_numbers(kind: str, rows: int, columns: int, seed: int) -> tuple[PackedMatrix, np.ndarray]:
    if kind.startswith("Q"):
        blocks = file_blocks(kind, rows, columns, seed)
        return pack(blocks, torch.bfloat16), blocks.numbers
    tensor = plain(getattr(torch, kind), rows, columns, seed)
    return pack(tensor, torch.float32 if kind == "float32" else torch.bfloat16), tensor.float().numpy()


KINDS = ["Q4_1", "Q4_0", "Q8_0", "float32", "bfloat16", "float16"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 7, 13, 100])
def test_products_equal_those_of_the_dequantized_weights(kind, rows):
    matrix, numbers = packed_and_numbers(kind, 83, 96, rows)
    x = np.random.default_rng(rows).standard_normal((rows, 96)).astype(np.float32)
    expected = x.astype(np.float64) @ numbers.T.astype(np.float64)
    got = compiled_product([matrix], x)
    assert np.linalg.norm(got - expected) <= STATED / 30 * np.linalg.norm(expected)


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0"])
def test_an_input_with_outliers_keeps_the_stated_error(kind):
    matrix, numbers = packed_and_numbers(kind, 64, 576, 5)
    x = np.random.default_rng(5).standard_normal((3, 576)).astype(np.float32)
    x[:, 17] *= 1000
    expected = x.astype(np.float64) @ numbers.T.astype(np.float64)
    got = compiled_product([matrix], x)
    assert np.linalg.norm(got - expected) <= STATED / 30 * np.linalg.norm(expected)


def test_an_input_of_zeros_gives_zeros():
    matrix, _ = packed_and_numbers("Q4_1", 32, 64, 1)
    np.testing.assert_array_equal(compiled_product([matrix], np.zeros((2, 64), np.float32)), np.zeros((2, 32)))


def test_matrices_of_different_kinds_stand_side_by_side_with_their_biases():
    parts = [packed_and_numbers(kind, rows, 64, rows) for kind, rows in (("Q4_1", 24), ("Q8_0", 7), ("bfloat16", 33))]
    bias = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    x = np.random.default_rng(1).standard_normal((5, 64)).astype(np.float32)
    expected = x @ np.concatenate([numbers for _, numbers in parts]).T + bias
    got = compiled_product([matrix for matrix, _ in parts], x, bias)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_reads_back_as_the_file_has_it(kind):
    matrix, numbers = packed_and_numbers(kind, 37, 64, 9)
    for index in (0, 1, 15, 16, 31, 36):
        np.testing.assert_allclose(compiled_row(matrix, index), numbers[index], rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", ["Q4_1", "Q4_0", "Q8_0"])
def test_packed_weights_take_no_more_memory_than_the_file(kind):
    blocks = file_blocks(kind, 64, 96, 3)
    assert pack(blocks, torch.bfloat16).nbytes <= blocks.data.nbytes * (20 / 18 if kind == "Q4_0" else 1)
    assert pack(blocks, torch.float32).nbytes == 64 * 96 * 4


def test_a_format_without_panels_of_its_own_keeps_the_stated_error():
    numbers = np.random.default_rng(2).standard_normal((48, 256)).astype(np.float32)
    matrix = pack(FileBlocks("Q6_K", np.zeros((48, 210), np.uint8), numbers), torch.bfloat16)
    x = np.random.default_rng(3).standard_normal((2, 256)).astype(np.float32)
    expected = x @ numbers.T
    assert np.linalg.norm(compiled_product([matrix], x) - expected) <= STATED / 3 * np.linalg.norm(expected)
