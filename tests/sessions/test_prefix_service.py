"""What the branches of a chat share, as the service tells it: the same as each branch's own block table says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pagedchat.sessions.preset_service import LOOKED_AT
from support.chat_room import ChatRoom, play
from support.paged_client import PagedFakeClient

LONG = "A question that is long enough to fill a few blocks of the pool, whatever the reply to it is."


async def assert_true(room: ChatRoom, session_id: str) -> dict[str, Any]:
    """The tree, after a look whether the runs of each branch are its block table."""
    tree = await room.service.prefixes.tree(session_id)
    for place, branch in enumerate(tree["branches"]):
        ids = await room.service.branch_tokens(session_id, branch["end"])
        rows = await room.engine.branch(ids, room.service.salt(session_id))
        path = [run for run in tree["runs"] if place in run["branches"]]
        assert [block for run in path for block in run["blocks"]] == [row["block"] for row in rows]
        assert [count for run in path for count in run["counts"]] == [row["ref_count"] for row in rows]
        assert sum(run["cached"] for run in path) == sum(row["cached_tokens"] for row in rows)
        assert branch["tokens"] == len(ids) and branch["blocks"] == len(rows)
        assert all(run["shown"] for run in path) == branch["shown"]
    return tree


def labels(tree: dict[str, Any], run: dict[str, Any]) -> list[str]:
    """The messages that begin in a run: "user 1", "assistant 1 (2/2)"."""
    found = [tree["messages"][place] for place, begins in run["messages"] if begins]
    return [
        f"{one['role']} {one['number']}" + (f" ({one['version']}/{one['versions']})" if one["versions"] > 1 else "")
        for one in found
    ]


@pytest.mark.parametrize("temporary", [False, True])
def test_two_replies_share_all_before_them(tmp_path: Path, temporary: bool) -> None:
    async def story() -> None:
        engine = PagedFakeClient(["One reply of several words.", "Another reply, and it is longer than the first."])
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new(system_prompt="Be brief.", temporary=temporary)
            first = await room.ask(session_id, LONG)
            second = await room.end_of((await room.service.regenerate(first["id"]))["id"])
            tree = await assert_true(room, session_id)
            shared, *own = tree["runs"]
            assert shared["branches"] == [0, 1] and [one["branches"] for one in own] == [[0], [1]]
            assert labels(tree, shared) == ["system 0", "user 1"]
            assert [labels(tree, one) for one in own] == [["assistant 1 (1/2)"], ["assistant 1 (2/2)"]]
            assert shared["cost"] is None
            for run, reply in zip(own, (first, second), strict=True):
                run_of = reply["generation"]
                assert tree["messages"][run["cost"].pop("message")]["id"] == reply["id"]
                assert run["cost"] == {name: run_of[name] for name in run["cost"]}
            assert own[1]["cost"]["cached_tokens"] >= 16 * len(shared["blocks"])
            assert [one["shown"] for one in tree["branches"]] == [False, True] and tree["left_out"] == 0

    play(story())


def test_three_levels_of_branches_and_one_that_was_evicted(tmp_path: Path) -> None:
    async def story() -> None:
        engine = PagedFakeClient(
            lambda request: f"Reply {len(engine.requests)}, long enough for a block.", num_blocks=64
        )
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            first = await room.ask(session_id, "Level one of a chat with branches")
            second = await room.ask(session_id, "Level two, and some more words", first["id"])
            other = await room.end_of((await room.service.regenerate(second["id"]))["id"])
            third = await room.ask(session_id, "Level three", other["id"])
            await room.end_of((await room.service.regenerate(third["id"]))["id"])
            await room.end_of((await room.service.regenerate(first["id"]))["id"])
            tree = await assert_true(room, session_id)
            assert len(tree["branches"]) == 4
            assert [len(run["branches"]) for run in tree["runs"]] == [4, 3, 1, 2, 1, 1, 1]
            assert [run["parent"] for run in tree["runs"]] == [None, 0, 1, 1, 3, 3, 0]
            await room.ask(await room.new(), "x" * 16 * 50)  # the oldest blocks make room
            tree = await assert_true(room, session_id)
            assert any(block is None for run in tree["runs"] for block in run["blocks"])
            await room.service.select(second["id"])
            told = await room.service.prefixes.why(session_id)
            assert told["reason"] == "evicted" and "made room for others" in told["sentence"]

    play(story())


def test_a_reply_that_is_being_written_is_in_the_tree(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", PagedFakeClient(["word " * 20], delay_s=0.001)) as room:
            session_id = await room.new()
            await room.ask(session_id, LONG)
            sent = await room.service.send(session_id, None, f"{LONG} Once more.")
            await room.begun(sent["reply"]["id"], 30)
            tree = await room.service.prefixes.tree(session_id)
            (growing,) = [run for run in tree["runs"] if run["shown"] and len(run["branches"]) == 1]
            assert labels(tree, growing)[-1] == "assistant 1" and max(growing["counts"]) == 1
            told = await room.service.prefixes.why(session_id)
            assert "next step" in told["sentence"]
            await room.end_of(sent["reply"]["id"])
            await assert_true(room, session_id)
            told = await room.service.prefixes.why(session_id)
            assert told["first_difference"] == told["tokens"] - 1 and "something follows" in told["sentence"]

    play(story())


def test_the_number_of_branches_is_bounded_and_the_rest_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pagedchat.sessions.prefix_service.MOST_BRANCHES", 3)

    async def story() -> None:
        engine = PagedFakeClient(lambda request: f"Reply {len(engine.requests)}")
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            first = await room.ask(session_id, LONG)
            replies = [await room.end_of((await room.service.regenerate(first["id"]))["id"]) for _ in range(4)]
            await room.service.select(first["id"])
            tree = await assert_true(room, session_id)
            assert tree["left_out"] == 2
            assert [one["end"] for one in tree["branches"]] == [first["id"], replies[2]["id"], replies[3]["id"]]

    play(story())


def test_where_and_why_a_branch_is_not_cached(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", PagedFakeClient(["Yes."])) as room:
            session_id, hidden = await room.new(), await room.new(temporary=True)
            await room.ask(session_id, LONG)
            await room.engine.forget(session_id)
            told = await room.service.prefixes.why(session_id)
            assert told["cached"] == 0 and told["reason"] == "not_computed" and told["token"] == "<user>"
            assert "Token 1 (“<user>”), in your message 1, is not: it was never computed here." in told["sentence"]
            assert "<user>" not in told["plain"] and told["differs"] is None
            await room.ask(hidden, LONG)
            await room.engine.forget(hidden)
            told = await room.service.prefixes.why(hidden)
            assert "a temporary chat shares blocks with no other one" in told["sentence"]
            empty = await room.service.prefixes.why(await room.new())
            assert empty["sentence"] == "This branch has no tokens yet."

    play(story())


def test_two_chats_of_a_preset_that_begin_otherwise_say_with_which_word(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", PagedFakeClient(["Yes."])) as room:
            save, text = room.service.library.save_preset, "You help with the garden, today in {}."
            preset = await save({"name": "Garden", "system_prompt": text.format("spring")})
            older = await room.new(preset_id=preset["id"])
            await room.ask(older, "Hello")
            assert (await room.service.prefixes.why(older))["differs"] is None
            await save({"id": preset["id"], "system_prompt": text.format("autumn")})
            newer = await room.new(preset_id=preset["id"])
            await room.ask(newer, "Hello")
            told = await room.service.prefixes.why(newer)
            assert "token 37 differs: “autumn” here, “spring” there" in told["differs"]
            assert "autumn" not in told["differs_plain"]

    assert LOOKED_AT > 1
    play(story())
