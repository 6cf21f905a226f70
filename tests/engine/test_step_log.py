"""What each step ran is told as it was: chunks of prompts, decodes, who waited, who lost blocks, what failed."""

from __future__ import annotations

from typing import Any

import pytest

from pagedchat.engine.step_log import KEPT_STEPS
from support.paged_model import drain, greedy, make_engine, prompt_of


def chunks(row: dict[str, Any]) -> list[tuple[str, int, int, int]]:
    """(request, from, tokens, total) of each chunk of a prompt."""
    return [(one["request_id"], one["from"], one["tokens"], one["total"]) for one in row["prefills"]]


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [one["request_id"] for one in rows]


def test_a_long_prompt_is_told_chunk_by_chunk_and_then_its_decodes() -> None:
    engine = make_engine(max_num_batched_tokens=8, max_num_seqs=4)
    engine.add_request("a", prompt_of(20), greedy(3), labels={"session": "s"})
    drain(engine)
    rows = engine.steps_since(0)
    assert [chunks(row) for row in rows] == [[("a", 0, 8, 20)], [("a", 8, 8, 20)], [("a", 16, 4, 20)], [], []]
    assert [row["decodes"] for row in rows[3:]] == [[{"request_id": "a", "session_id": "s"}]] * 2
    assert [row["tokens"] for row in rows] == [8, 8, 4, 1, 1]
    assert {row["budget"] for row in rows} == {8} and not any(row["failed"] for row in rows)
    assert all(row["seconds"] >= 0 for row in rows)


def test_the_last_token_of_a_prompt_alone_is_a_chunk_and_what_is_cached_is_not_computed() -> None:
    engine = make_engine(max_num_batched_tokens=8, max_num_seqs=4)
    engine.add_request("a", prompt_of(9), greedy(1))
    drain(engine)
    assert [chunks(row) for row in engine.steps_since(0)] == [[("a", 0, 8, 9)], [("a", 8, 1, 9)]]
    engine.add_request("b", prompt_of(9), greedy(1))
    last = engine.steps_since(0)[-1]["step"]
    drain(engine)
    assert [chunks(row) for row in engine.steps_since(last)] == [[("b", 8, 1, 9)]]


def test_the_tokens_of_all_steps_are_those_that_the_counters_have() -> None:
    engine = make_engine(num_blocks=256, max_num_batched_tokens=32, max_num_seqs=8)
    for number in range(20):
        engine.add_request(f"r{number}", prompt_of(5 + number, number), greedy(6))
    drain(engine)
    rows, stats = engine.steps_since(0), engine.stats()
    assert sum(row["tokens"] for row in rows) == stats["scheduled_tokens"] and len(rows) == stats["steps"]
    assert [row["step"] for row in rows] == sorted({row["step"] for row in rows})
    assert rows[0]["waiting"] > 0 and rows[-1]["waiting"] == 0
    assert max(len(row["decodes"]) + len(row["prefills"]) for row in rows) == 8
    assert any(row["decodes"] and row["prefills"] for row in rows), "decodes and chunks run in one step"


def test_who_lost_blocks_is_named_in_the_step_that_took_them() -> None:
    engine = make_engine(num_blocks=8, max_num_seqs=4)
    for name in ("first", "second"):
        engine.add_request(name, prompt_of(8, len(name)), greedy(16), labels={"session": name})
    drain(engine)
    events = [event for event in engine.drain_events() if event["type"] == "preempted"]
    rows = {row["step"]: row for row in engine.steps_since(0)}
    assert events and all(names(rows[event["step"]]["preempted"]) == [event["request_id"]] for event in events)
    assert sum(len(row["preempted"]) for row in rows.values()) == engine.stats()["preemptions"]
    again = [one for row in rows.values() for one in chunks(row) if one[3] > 8]
    assert {one[0] for one in again} == {"second"}, "what was lost is computed again, what it had written too"


def test_a_step_that_failed_is_told_as_failed_and_the_next_ones_are_not() -> None:
    engine = make_engine()
    engine.runner.fail_at = {2}  # type: ignore[attr-defined]
    engine.add_request("a", prompt_of(5), greedy(4))
    drain(engine)
    engine.add_request("b", prompt_of(6, 1), greedy(2))
    drain(engine)
    rows = engine.steps_since(0)
    assert [row["failed"] for row in rows] == [False, True, False, False]
    assert names(rows[1]["decodes"]) == ["a"]


def test_a_step_that_raised_elsewhere_is_told_as_failed() -> None:
    engine = make_engine()
    engine.add_request("a", prompt_of(5), greedy(4))

    def raises(*_: Any) -> None:
        raise RuntimeError("on purpose")

    engine.sampler.sample = raises  # type: ignore[method-assign]
    with pytest.raises(RuntimeError) as raised:
        engine.step()
    assert engine.steps_since(0) == [], "it has not ended"
    engine.fail_all(raised.value)
    (row,) = engine.steps_since(0)
    assert row["failed"] and chunks(row) == [("a", 0, 5, 5)]


def test_the_newest_steps_are_kept_and_a_number_of_another_engine_brings_them_all() -> None:
    engine = make_engine(num_blocks=512)
    engine.add_request("a", prompt_of(4), greedy(KEPT_STEPS + 10))
    drain(engine)
    rows = engine.steps_since(0)
    assert len(rows) == KEPT_STEPS and rows[0]["step"] == 11
    last = rows[-1]["step"]
    assert engine.steps_since(last) == [] and engine.steps_since(last - 2) == rows[-2:]
    assert engine.steps_since(0, 3) == rows[-3:]
    assert engine.steps_since(last + 1) == rows


def test_a_forgotten_session_and_its_requests_are_named_no_more() -> None:
    engine = make_engine()
    for name in ("gone", "stays"):
        engine.add_request(f"of-{name}", prompt_of(6, len(name)), greedy(3), labels={"session": name})
    drain(engine)
    before = engine.steps_since(0)
    engine.forget("gone")
    after = engine.steps_since(0)
    assert "gone" in str(before) and "gone" not in str(after)
    assert str(after).count("of-stays") == str(before).count("of-stays") > 0
    assert [row["tokens"] for row in after] == [row["tokens"] for row in before]
