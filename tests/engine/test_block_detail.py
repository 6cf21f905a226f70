"""What the engine tells of one block: the same as its snapshot, and what the block is a part of."""

from __future__ import annotations

import pytest

from pagedchat.engine.block_detail import LAST_EVENTS
from pagedchat.engine.errors import RequestError
from support.paged_model import drain, greedy, make_engine, prompt_of, run

B = 4
SAME = ("id", "state", "ref_count", "num_tokens", "owners")


def begin(engine, session: str, prompt: list[int], steps: int = 2, salt: str = "") -> None:
    engine.add_request(session, prompt, greedy(60), labels={"session": session, "message": f"m-{session}"}, salt=salt)
    for _ in range(steps):
        engine.step()


def table_of(engine, session: str) -> list[int]:
    return next(one["blocks"] for one in engine.snapshot()["tables"] if one["session_id"] == session)


def check_against_snapshot(engine) -> None:
    for row in engine.snapshot()["blocks"]:
        detail = engine.block(row["id"])
        assert {name: detail[name] for name in SAME} == {name: row[name] for name in SAME}
        assert len(detail["token_ids"]) == row["num_tokens"]
        assert detail["seq"] == engine.snapshot()["seq"]


def test_a_shared_block_tells_all_who_have_it_and_what_goes_on_from_it():
    engine, stem = make_engine(), prompt_of(2 * B, 1)
    begin(engine, "a", [*stem, 1, 2, 3])
    begin(engine, "b", [*stem, 4, 5, 6])
    first, second, *rest = table_of(engine, "a")
    detail = engine.block(second)
    assert detail["state"] == "shared" and detail["owners"] == detail["sessions"] == ["a", "b"]
    assert [(one["session_id"], one["message_id"], one["logical"]) for one in detail["holders"]] == [
        ("a", "m-a", 1),
        ("b", "m-b", 1),
    ]
    assert (detail["chain"], detail["logical"], detail["token_ids"]) == ([first], 1, stem[B:])
    assert sorted(detail["children"]) == sorted([rest[0], table_of(engine, "b")[2]])
    assert engine.block(rest[0])["chain"] == [first, second]
    check_against_snapshot(engine)


def test_a_tail_that_is_being_written_tells_the_tokens_that_are_there():
    engine, prompt = make_engine(), prompt_of(B + 2, 2)
    begin(engine, "a", prompt, steps=1)
    first, tail = table_of(engine, "a")
    detail = engine.block(tail)
    assert (detail["token_ids"], detail["chain"], detail["children"]) == (prompt[B:], [first], [])
    assert detail["state"] == "active" and engine.block(first)["children"] == [tail]
    check_against_snapshot(engine)


def test_a_copied_block_and_its_source_tell_the_copy_in_their_events():
    engine = make_engine()
    begin(engine, "a", prompt_of(B + 2, 3), steps=1)
    begin(engine, "b", [*prompt_of(B + 2, 3), 7], steps=2)
    copied = next(event for event in engine.events_since(0) if event["type"] == "copied")
    source, target = copied["blocks"]
    for block in (source, target):
        assert copied in engine.block(block)["events"]
    parent = table_of(engine, "a")[0]
    assert {source, target} <= set(engine.block(parent)["children"])
    check_against_snapshot(engine)


def test_a_block_in_its_second_life_knows_nothing_of_its_first_but_the_events():
    engine = make_engine(num_blocks=6)
    begin(engine, "a", prompt_of(3 * B, 4))
    engine.cancel("a")
    drain(engine)
    before = {one: engine.block(one) for one in engine.kv.index.blocks()}
    begin(engine, "b", prompt_of(4 * B, 5))
    again = next(block for block in table_of(engine, "b") if block in before)
    detail = engine.block(again)
    assert detail["sessions"] == ["b"] and detail["token_ids"] != before[again]["token_ids"]
    assert detail["reuses"] == 0 and "evicted" in {event["type"] for event in detail["events"]}
    assert len(detail["events"]) <= LAST_EVENTS
    check_against_snapshot(engine)


def test_a_cached_block_is_of_those_who_used_it_and_a_free_one_of_nobody():
    engine, stem = make_engine(), prompt_of(2 * B, 6)
    for session in ("a", "b"):
        begin(engine, session, [*stem, *prompt_of(B, ord(session))])
        engine.cancel(session)
        drain(engine)
    run(engine, {"nobody": [*stem, 9]}, 2)
    engine.pin("pin", stem)
    drain(engine)
    block = engine.branch(stem)[0]["block"]
    detail = engine.block(block)
    assert sorted(detail["sessions"]) == ["a", "b"] and detail["owners"] == [] and detail["holders"] == []
    assert detail["pinned"] and detail["chain"] == [] and detail["logical"] == 0
    engine.forget("a")
    assert engine.block(block)["sessions"] == ["b"]
    free = next(row["id"] for row in engine.snapshot()["blocks"] if row["state"] == "free")
    detail = engine.block(free)
    assert (detail["token_ids"], detail["chain"], detail["sessions"], detail["logical"]) == ([], [], [], None)
    check_against_snapshot(engine)


def test_who_has_only_the_beginning_of_a_block_is_not_told_as_one_who_has_it():
    engine, prompt = make_engine(), prompt_of(B, 9)
    run(engine, {"nobody": [*prompt, 1, 2, 3]}, 2)
    begin(engine, "a", [*prompt, 1, 2], steps=1)
    engine.cancel("a")
    drain(engine)
    tail = next(one for one in engine.kv.index.blocks() if engine.block(one)["token_ids"][:3] == [1, 2, 3])
    assert engine.block(tail)["sessions"] == []
    assert engine.block(engine.branch(prompt)[0]["block"])["sessions"] == ["a"]


def test_blocks_of_another_salt_are_told_apart():
    engine, prompt = make_engine(), prompt_of(2 * B, 7)
    begin(engine, "a", prompt)
    begin(engine, "private", prompt, salt="temporary:private")
    ours, theirs = table_of(engine, "a")[0], table_of(engine, "private")[0]
    assert engine.block(ours)["sessions"] == ["a"] and engine.block(theirs)["sessions"] == ["private"]
    check_against_snapshot(engine)


def test_a_block_behind_a_window_leaves_a_gap_in_the_chain():
    engine = make_engine(windows=(None, B))
    begin(engine, "a", prompt_of(3 * B + 1, 8), steps=3)
    tables = {one["kv_group"]: one["blocks"] for one in engine.snapshot()["tables"]}
    last = tables[1][-1]
    assert engine.block(last)["kv_group"] == 1
    assert engine.block(last)["chain"] == tables[1][:-1] and None in tables[1]
    assert engine.block(tables[0][-1])["chain"] == tables[0][:-1]


@pytest.mark.parametrize("block", [-1, 64])
def test_a_block_that_is_not_there_is_refused(block: int):
    with pytest.raises(RequestError, match="blocks go from 0 to 63"):
        make_engine().block(block)
