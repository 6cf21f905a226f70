"""The runner's logits equal transformers', however the tokens are cut into steps and wherever their blocks lie."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from pagedchat.engine.runner import ModelRunner
from support.fake_checkpoint import checkpoint_of, step_batch, tiny_llama

VARIANTS: dict[str, dict[str, Any]] = {
    "tied": {},
    "untied": {"tie_word_embeddings": False},
    "head dim of its own": {"head_dim": 16, "num_attention_heads": 8, "num_key_value_heads": 2},
    "no grouping": {"num_key_value_heads": 4},
    "one kv head": {"num_key_value_heads": 1},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "llama3 rope": {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 1000.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    },
    "linear rope": {"rope_parameters": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0}},
}


def load(model: Any, block_size: int = 4, num_blocks: int = 64) -> ModelRunner:
    runner = ModelRunner.load(
        checkpoint_of(model), device="cpu", dtype="float32", block_size=block_size, num_blocks_for=lambda *_: num_blocks
    )
    runner.kv_cache.fill_(float("nan"))
    return runner


def expected_logits(model: Any, ids: list[int]) -> np.ndarray:
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].numpy()


def random_ids(count: int, seed: int, vocab: int = 97) -> list[int]:
    return [random.Random(seed * 1000 + i).randrange(vocab) for i in range(count)]


def scattered(count: int, total: int, seed: int) -> list[int]:
    return random.Random(seed).sample(range(total), count)


@pytest.mark.parametrize("variant", VARIANTS)
def test_prefill_logits_equal_transformers(variant):
    model = tiny_llama(**VARIANTS[variant])
    runner = load(model)
    ids = random_ids(41, 1)
    rows = list(range(41))
    got = runner.execute(step_batch([ids], [scattered(11, 64, 2)], [(0, 41)], 4, rows))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected_logits(model, ids), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("variant", ["tied", "head dim of its own", "biases"])
def test_greedy_decode_after_a_chunked_prefill_gives_the_ids_of_transformers(variant):
    model = tiny_llama(**VARIANTS[variant])
    runner = load(model)
    ids = random_ids(23, 3)
    table = scattered(16, 64, 4)
    logits = np.zeros(0)
    for begin in range(0, 23, 7):
        end = min(begin + 7, 23)
        logits = runner.execute(step_batch([ids], [table], [(begin, end)], 4))
    reply: list[int] = []
    for _ in range(20):
        reply.append(int(logits[0].argmax()))
        ids = [*ids, reply[-1]]
        logits = runner.execute(step_batch([ids], [table], [(len(ids) - 1, len(ids))], 4))
    plain = random_ids(23, 3)
    for _ in range(20):
        plain.append(int(expected_logits(model, plain)[-1].argmax()))
    assert reply == plain[23:]


@pytest.mark.parametrize("block_size", [1, 2, 8, 16, 128])
def test_a_mixed_batch_equals_each_sequence_alone(block_size):
    model = tiny_llama()
    lengths = [1, 17, 33, 40]
    ids = [random_ids(length + 1, 10 + length) for length in lengths]
    need = [-(-(length + 1) // block_size) for length in lengths]
    total = sum(need) + 3
    runner = load(model, block_size, total)
    order = scattered(total, total, block_size)
    tables = [[order.pop() for _ in range(count)] for count in need]
    for row, table, length in zip(ids, tables, lengths, strict=True):
        if length > 17:
            runner.execute(step_batch([row], [table], [(0, length)], block_size))
    spans = [(0, 2), (0, 18), (33, 34), (40, 41)]
    got = runner.execute(step_batch(ids, tables, spans, block_size))
    for i, row in enumerate(ids):
        np.testing.assert_allclose(got[i], expected_logits(model, row)[-1], rtol=2e-4, atol=2e-4)


def test_copied_blocks_carry_the_prefix_of_a_fork():
    model = tiny_llama()
    runner = load(model)
    ids = random_ids(10, 5)
    runner.execute(step_batch([ids], [[5, 9, 2]], [(0, 10)], 4))
    fork = [*ids, 3]
    got = runner.execute(step_batch([fork], [[5, 9, 30]], [(10, 11)], 4, copies=[(2, 30)]))
    np.testing.assert_allclose(got[0], expected_logits(model, fork)[-1], rtol=2e-4, atol=2e-4)
    other = [*ids, 8]
    again = runner.execute(step_batch([other], [[5, 9, 2]], [(10, 11)], 4))
    np.testing.assert_allclose(again[0], expected_logits(model, other)[-1], rtol=2e-4, atol=2e-4)


def test_a_step_may_want_no_logits():
    runner = load(tiny_llama())
    got = runner.execute(step_batch([random_ids(6, 6)], [[1, 2]], [(0, 6)], 4, []))
    assert got.shape == (0, 97)


def test_the_description_says_what_runs_and_why():
    runner = load(tiny_llama(), num_blocks=10)
    facts = runner.describe()
    assert facts["device"] == "cpu" and facts["dtype"] == "float32" and facts["kernels"] and facts["reason"]
    assert facts["kv_bytes"] == 10 * runner.bytes_per_block == 10 * 2 * 2 * 2 * 4 * 8 * 4
    assert facts["weight_bytes"] > 0
