"""docs/features.md: every row is there, and what it says yes to is tested."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")
ROWS = 58
STATES = {"yes", "partly", "no"}
PROOF = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows() -> list[list[str]]:
    """Cells of the table, without its head."""
    lines = [line for line in PAGE.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_row_is_there_once_in_order_with_a_state_and_a_sentence():
    table = rows()
    assert [row[0] for row in table] == [str(number) for number in range(1, ROWS + 1)]
    assert all(len(row) == 5 and row[1] and row[3] for row in table)
    assert {row[2] for row in table} == STATES
    assert len({row[1] for row in table}) == ROWS


def test_what_is_there_has_a_test_that_exists_and_nothing_else_claims_one():
    for number, _, state, _, proof in rows():
        named = PROOF.fullmatch(proof)
        assert bool(named) == (state == "yes"), number
        if named:
            file, name = named.groups()
            source = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^(?:async )?def {name}\(", source, re.MULTILINE), proof
