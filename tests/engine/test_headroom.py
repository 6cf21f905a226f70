"""What a model takes beside its pool: the bounds keep to what the compiled kernels really take."""

from __future__ import annotations

import pytest

from pagedchat.engine.headroom import PACKED_BYTES, SPLIT
from pagedchat.kernels.cpu import plan
from pagedchat.kernels.cpu.products import F16, Q4, Q8, panel_bytes
from pagedchat.kernels.cpu.tiles import PANEL

COLUMNS = 64


@pytest.mark.parametrize(("kind", "packed"), [("Q4_0", Q4), ("Q4_1", Q4), ("Q8_0", Q8), ("Q6_K", F16)])
def test_a_weight_takes_as_many_bytes_as_in_a_panel(kind: str, packed: int) -> None:
    assert PACKED_BYTES.get(kind, 2) * COLUMNS * PANEL == panel_bytes.py_func(packed, COLUMNS)


def test_a_row_alone_is_cut_where_the_kernel_cuts_it() -> None:
    assert SPLIT == plan.SPLIT
