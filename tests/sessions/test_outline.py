"""A whole tree in a few words a message, in one pass, and what is found in it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pagedchat.sessions import outline as outlines
from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.outline import LONGEST, beginning, node_view
from pagedchat.sessions.store import SessionStore
from support.branched_chat import branched_chat
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient


def nodes(outline: dict[str, Any]) -> list[dict[str, Any]]:
    """An outline's columns as one dictionary a message."""
    ids, names = outline["ids"], outline["names"]
    return [
        {
            "id": one,
            "parent": ids[outline["parents"][at]] if outline["parents"][at] >= 0 else None,
            "role": outline["roles"][at],
            "status": outline["statuses"].get(str(at), "done"),
            "kind": outline["kinds"].get(str(at)),
            "text": outline["texts"][at],
            "time": outline["times"][at],
            "length": outline["lengths"][at],
            "model": names[outline["models"][at]] if outline["models"][at] >= 0 else None,
            "hidden": False,
        }
        for at, one in enumerate(ids)
    ]


def test_an_outline_has_every_message_that_can_be_seen_as_its_events_tell_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["r1", "# Big *news*\n\n- one", "r3", "r4"])) as room:
            session_id = await room.new()
            first = await room.ask(session_id, "q1  with\nlines")
            second = await room.ask(session_id, "q2", first["id"])
            other = await room.end_of((await room.service.regenerate(first["id"]))["id"])
            gone = await room.end_of((await room.service.regenerate(second["id"]))["id"])
            await room.service.delete_branch(gone["id"])
            outline = await room.service.outline.outline(session_id)
            found = nodes(outline)
            assert [one["text"] for one in found] == ["q1 with lines", "r1", "q2", "Big *news* - one", "r3"]
            assert outline["roles"] == "uauaa"
            assert [one["parent"] for one in found] == [
                None,
                first["parent_id"],
                first["id"],
                second["parent_id"],
                first["parent_id"],
            ]
            assert outline["head_id"] == (await room.service.core.session(session_id)).head_id
            assert outline["shown"][outline["ids"].index(other["id"])] > outline["shown"][1]
            for one in (first, second, other):
                assert node_view(one) == next(node for node in found if node["id"] == one["id"])
            elsewhere = await room.new(temporary=True)
            assert (await room.service.outline.outline(elsewhere))["ids"] == []
            kept = await room.ask(elsewhere, "not stored")
            assert (await room.service.outline.outline(elsewhere))["ids"] == [kept["parent_id"], kept["id"]]
            with pytest.raises(SessionError, match="does not exist"):
                await room.service.outline.outline("nothing")

    play(story())


def test_a_reply_that_is_being_written_has_the_words_it_has(tmp_path: Path) -> None:
    async def story() -> None:
        words = "so far and a good deal further"
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient([words], delay_s=0.02)) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "q")
            await room.begun(sent["reply"]["id"], 6)
            question, reply = nodes(await room.service.outline.outline(session_id))
            assert (question["status"], reply["status"]) == ("done", "streaming")
            assert len(reply["text"]) >= 6 and words.startswith(reply["text"])
            await room.service.stop(sent["reply"]["id"])

    play(story())


def test_an_outline_of_a_long_chat_is_one_statement_and_small(tmp_path: Path) -> None:
    chat = branched_chat(tmp_path / "s.db", turns=120)
    store = SessionStore(tmp_path / "s.db")
    asked: list[str] = []
    with store._reader.reading() as connection:
        connection.set_trace_callback(asked.append)
    outline = store.outlines.outline(chat.session_id)
    with store._reader.reading() as connection:
        connection.set_trace_callback(None)
    assert len([one for one in asked if "FROM messages" in one]) == 1
    assert len(outline["ids"]) == len(chat.rows) > 400
    assert set(chat.spine) <= set(outline["ids"]) and outline["head_id"] == chat.spine[-1]
    assert set(outline["names"]) == {"SmolLM2-135M-Instruct", "gemma-3-270m"}
    assert set(outline["statuses"].values()) == {"stopped"}
    store.close()


def test_parts_of_words_are_found_in_all_branches_but_not_in_the_trash(tmp_path: Path) -> None:
    async def story() -> None:
        replies = ["A Crème brûlée for two", "brulee, but otherwise", "nothing of the kind"]
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(replies)) as room:
            session_id, elsewhere = await room.new(), await room.new()
            first = await room.ask(session_id, "what for dessert?")
            other = await room.end_of((await room.service.regenerate(first["id"]))["id"])
            await room.ask(elsewhere, "brulee elsewhere")
            find = room.service.outline.find
            assert await find(session_id, "BRUL") == [first["id"], other["id"]]
            assert await find(session_id, "two cre") == [first["id"]]
            assert await find(session_id, "desser") == [first["parent_id"]]
            assert await find(session_id, "  ") == await find(session_id, "zebra") == []
            await room.service.delete_branch(other["id"])
            assert await find(session_id, "brulee") == [first["id"]]

    play(story())


def test_all_of_a_long_chat_is_searched_and_other_readers_get_their_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlines, "_AT_ONCE", 100)

    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session_id, last = await room.new(), None
            for number in range(6):
                last = (await room.ask(session_id, f"needle {number} " + "hay " * 30, last))["id"]
            order: list[str] = []
            find = room.store.outlines.find

            def noted(*arguments: Any) -> Any:
                order.append("part")
                return find(*arguments)

            async def other() -> None:
                await room.service.core.session(session_id)
                order.append("other")

            monkeypatch.setattr(room.store.outlines, "find", noted)
            found, _ = await asyncio.gather(room.service.outline.find(session_id, "need"), other())
            assert len(found) == 6 and order.count("part") == 7
            assert order.index("other") < 4, "it need not wait for the end"

    play(story())


def test_the_first_words_of_a_text_are_plain_and_few() -> None:
    assert beginning("## **Bold** `code`\n\n> and more") == "Bold code > and more"
    assert beginning("```python\nprint(1)\n```") == "python print(1)"
    assert beginning("") == ""
    long = beginning("word " * 200)
    assert len(long) <= LONGEST and long.endswith("word…")
