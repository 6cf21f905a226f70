"""Block tables and events in few bytes: nothing is lost, and what is alike is said once."""

from __future__ import annotations

import random
from typing import Any

from pagedchat.ui.kv_packing import pack_event, pack_rows
from support.fake_page import unpacked_rows


def row(logical: int, physical: int | None, count: int = 0, sharers: list[str] | None = None) -> dict[str, Any]:
    return {
        "logical": logical,
        "physical": physical,
        "count": count,
        "tokens": 16,
        "cached": 0 if physical is None else 16,
        "sharers": sharers or [],
    }


def test_packed_rows_say_what_changed_and_nothing_else() -> None:
    chance = random.Random(5)
    old: list[dict[str, Any]] = []
    for _ in range(200):
        new = [
            one if chance.random() < 0.5 else row(at, chance.choice([None, at, at + 1]), chance.randrange(2))
            for at, one in enumerate([*old, *(row(at, at) for at in range(len(old), chance.randrange(40)))])
        ][: chance.randrange(40)]
        rows = unpacked_rows({"rows": pack_rows(new, old)}, dict(enumerate(old)))
        assert rows == [one for one in new if one["logical"] >= len(old) or old[one["logical"]] != one]
        old = new


def test_a_new_holder_of_two_thousand_blocks_is_one_run() -> None:
    old = [row(at, 7 * at % 2_003) for at in range(2_000)]
    runs = pack_rows([{**one, "count": 1, "sharers": ["a"]} for one in old], old)
    assert runs == [{"logical": 0, "span": 2_000, "tokens": 16, "cached": 16, "count": 1, "sharers": ["a"]}]


def test_events_about_many_blocks_are_spans() -> None:
    blocks = [*range(5, 900), 3, *range(2_000, 1_000, -1), 12, 11]
    event = {"seq": 4, "type": "shared", "blocks": blocks, "ref_counts": [2] * len(blocks), "states": "s" * len(blocks)}
    packed = pack_event(event)
    spans = [[5, 895], [3, 1], [2_000, -1_000], [12, -2]]
    assert packed == {"seq": 4, "type": "shared", "spans": spans, "ref_counts": 2, "states": "s"}
    short = {**event, "blocks": [1], "ref_counts": [2], "states": "s"}
    assert pack_event(short) == short
