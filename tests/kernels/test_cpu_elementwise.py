"""Compiled norms, activations and 16-bit inputs equal the reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pagedchat.kernels.cpu import elementwise, primitives, step
from pagedchat.kernels.reference import ReferenceKernels
from support.compiled_ops import prepared


def random_rows(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32) * 3


@pytest.mark.parametrize("columns", [1, 7, 32, 576, 1000])
def test_norms_of_chosen_rows_equal_the_reference(columns):
    prepared()
    x, weight = random_rows(5, columns), random_rows(1, columns, 1)[0]
    rows = np.array([4, 0, 2], np.int64)
    out, codes, factors = (
        np.zeros((3, columns), np.float32),
        np.zeros((3, 32), np.int16),
        np.zeros((3, 1, 2), np.float32),
    )
    stage = np.zeros(2, np.int64)
    step.norm_rows(stage.ctypes.data, x, rows, weight, np.float32(1e-5), out, False, codes, factors)
    expected = ReferenceKernels().rms_norm(torch.from_numpy(x[rows]), torch.from_numpy(weight), 1e-5)
    np.testing.assert_allclose(out, expected.numpy(), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("inner", [32, 64, 512, 1536])
def test_activations_equal_the_reference(inner):
    prepared()
    gate_up = random_rows(3, 2 * inner) * 5
    out, codes = np.full((3, inner), np.nan, np.float32), np.zeros((3, inner), np.int16)
    factors = np.zeros((3, inner // 32, 2), np.float32)
    stage = np.zeros(2, np.int64)
    step.activate_rows(stage.ctypes.data, gate_up, out, True, codes, factors)
    expected = ReferenceKernels().silu_mul(torch.from_numpy(gate_up)).numpy()
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1e-7)
    read = codes.reshape(3, -1, 32) * factors[..., :1]
    np.testing.assert_allclose(read.reshape(3, inner), expected, atol=np.abs(expected).max() * 2e-5)


def test_sixteen_bit_inputs_carry_the_sum_of_what_they_read_as():
    prepared()
    x = random_rows(1, 96)[0]
    x[32:64] = 0
    codes, factors = np.zeros(96, np.int16), np.zeros((3, 2), np.float32)
    elementwise.quantize_row(x, codes, factors)
    read = codes.reshape(3, 32) * factors[:, :1]
    np.testing.assert_allclose(read.reshape(-1), x, atol=np.abs(x).max() / 60000)
    np.testing.assert_allclose(factors[:, 1], read.sum(axis=1), rtol=1e-4, atol=1e-5)
    assert not factors[1].any()


def test_the_exponential_is_exact_to_the_last_places():
    x = np.linspace(-80, 3, 5001).astype(np.float32)
    got = np.array([primitives.fast_exp(value) for value in x])
    np.testing.assert_allclose(got, np.exp(x.astype(np.float64)), rtol=3e-7)


def test_numbers_round_to_bfloat16_as_torch_does():
    x = np.array([0.0, -0.0, 1.0, 1.00390625, 1.01171875, 3e38, -7e-39, np.inf, -np.inf, np.nan], np.float32)
    x = np.concatenate([x, random_rows(1, 200)[0]])
    got = np.array([primitives.to_bf16(value) for value in x], np.uint16)
    expected = torch.from_numpy(x).to(torch.bfloat16)
    got_values = torch.from_numpy(got.view(np.int16)).view(torch.bfloat16)
    torch.testing.assert_close(got_values, expected, rtol=0, atol=0, equal_nan=True)
