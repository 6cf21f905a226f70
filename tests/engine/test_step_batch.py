"""A step of decodes alone is laid out in a shorter way, and comes out as any other step."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pagedchat.engine import step_batch
from pagedchat.engine.types import StepBatch
from support.paged_model import drain, greedy, make_engine, prompt_of


@pytest.mark.parametrize("windows", [(None,), (None, 8)])
def test_a_step_of_decodes_is_the_same_in_both_layouts(
    windows: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, compared = make_engine(200, windows=windows), 0
    build = step_batch._build_decodes

    def both(requests, *rest) -> StepBatch:
        nonlocal compared
        plan = [step_batch.Scheduled(request, 1) for request in requests]
        short, usual = build(requests, *rest), step_batch._build_any(plan, *rest)
        for one, other in ((short, usual), *zip(short.groups, usual.groups, strict=True)):
            for field in dataclasses.fields(one):
                mine, theirs = getattr(one, field.name), getattr(other, field.name)
                if isinstance(mine, np.ndarray):
                    assert mine.dtype == theirs.dtype and mine.shape == theirs.shape, field.name
                    assert (mine == theirs).all(), field.name
                elif field.name != "groups":
                    assert mine == theirs, field.name
        compared += 1
        return short

    monkeypatch.setattr(step_batch, "_build_decodes", both)
    for number in range(5):
        engine.add_request(str(number), prompt_of(3 + 9 * number, number), greedy(20))
    drain(engine)
    assert compared >= 19
