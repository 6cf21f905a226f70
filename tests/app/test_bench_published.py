"""The table of the articles: what fits one budget, and what each side brings."""

from __future__ import annotations

import pytest

from pagedchat.app.bench.published import Case, does_not_fit, finish_published, fits
from pagedchat.app.bench.published_side import serve_by_transformers, serve_side
from pagedchat.app.bench.random_model import random_model
from pagedchat.app.bench.report import BenchResult

CASE = Case(prompt=40, output=6, sequences=(1, 4), context=128, reservations=2)


@pytest.fixture(scope="module")
def model():
    return random_model(
        num_layers=2,
        hidden_size=32,
        intermediate_size=32,
        num_heads=2,
        num_kv_heads=1,
        head_dim=16,
        max_position=256,
    )


@pytest.fixture(scope="module")
def cells(model):
    return {side: list(serve_side(side, model, CASE)) for side in ("contiguous", "paged")}


def test_one_budget_holds_two_reservations_and_all_four_paged_sequences(cells):
    assert [cell["at_once"] for cell in cells["contiguous"]] == [1, 2]
    assert [cell["at_once"] for cell in cells["paged"]] == [1, 4]
    assert cells["contiguous"][1]["kv_bytes"] == 2 * 128 * cells["contiguous"][1]["bytes_per_slot"]
    assert cells["paged"][1]["kv_bytes"] == 4 * 48 * cells["paged"][1]["bytes_per_slot"]
    assert CASE.budget == 256 and fits(CASE, 2) and not fits(CASE, 3)


def test_a_token_takes_the_bytes_of_its_keys_and_values(cells):
    assert cells["paged"][0]["bytes_per_slot"] == 2 * 2 * 1 * 16 * 2  # keys and values, layers, heads, size, bf16


def test_the_cell_that_does_not_fit_says_what_it_needs_and_has(cells):
    result = BenchResult("published", {})
    finish_published(result, CASE, cells["contiguous"] + cells["paged"])
    rows = {(row[0], row[1]): row for row in result.tables[0].rows}
    assert rows["contiguous", 4][2] == does_not_fit(CASE, 4, 128) == "does not fit (needs 0 MiB, has 0 MiB)"
    assert rows["contiguous", 4][3:] == [None] * 5
    assert rows["contiguous, in turns", 4][2] == 2 and rows["paged", 4][2] == 4
    assert result.passed and "4 sequences: paged serves 4 at once" in result.verdict


def test_needs_and_has_are_reservations_in_mib():
    article = Case(1024, 256, (16,), 4096, 8)
    assert does_not_fit(article, 16, 23_040) == "does not fit (needs 1,440 MiB, has 720 MiB)"


def test_transformers_serves_the_same_sequences_in_one_batch(model):
    found = serve_by_transformers(model, CASE, 3)
    assert found["at_once"] == 3 and found["tokens_per_s"] > 0
    assert found["kv_bytes"] == 3 * (40 + 6 - 1) * found["bytes_per_slot"]
    assert found["bytes_per_slot"] == 64 * (4 if found["dtype"] == "float32" else 2)
