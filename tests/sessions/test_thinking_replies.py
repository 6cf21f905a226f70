"""Replies of models that mark their thinking: apart from the answer, followed, cut off, continued, sent again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.chat_room import ChatRoom, play
from support.fake_client import END, HEADERS, FakeEngineClient

QUOTE = "Close it with:\n```\n</think>\n```\n"
REPLIES = {
    "<think>plan</think>\n\nDone": ("plan", "Done"),
    "</think>Hi": (None, "Hi"),
    "<think>never closed": ("never closed", ""),
    "a < b and <think> c": (None, "a < b and <think> c"),
    QUOTE: (None, QUOTE),
    "<think>x</think>" + QUOTE: ("x", QUOTE),
    "<th": (None, "<th"),
}


def thinker(*replies: str) -> FakeEngineClient:
    engine = FakeEngineClient(replies)
    engine.marks_thinking = True
    return engine


@pytest.mark.parametrize("text", REPLIES)
def test_thinking_is_told_and_stored_apart_from_the_answer(tmp_path: Path, text: str) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", thinker(text)) as room:
            session_id = await room.new()
            reply = await room.ask(session_id, "q")
            assert (reply["reasoning"], reply["content"], reply["status"]) == (*REPLIES[text], "done")
            told = {kind: [one for one in room.events if one["type"] == kind] for kind in ("reasoning", "delta")}
            for kind, whole in zip(told, REPLIES[text], strict=True):
                assert "".join(one["text"] for one in told[kind]) == (whole or "")
                places = [one["offset"] for one in told[kind]]
                assert places == [sum(len(one["text"]) for one in told[kind][:n]) for n in range(len(places))]
        async with ChatRoom(tmp_path / "s.db") as room:
            again = (await room.shown(session_id))[-1]
            assert (again["reasoning"], again["content"]) == REPLIES[text]

    play(story())


def test_other_models_may_write_tags_as_they_like(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["<think>plan</think>Done"])) as room:
            reply = await room.ask(await room.new(), "q")
            assert (reply["reasoning"], reply["content"]) == (None, "<think>plan</think>Done")

    play(story())


def test_the_next_turn_sends_the_ids_of_thinking_and_answer_unchanged(tmp_path: Path) -> None:
    async def story() -> None:
        engine = thinker("<think>plan</think>\n\nDone")
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            reply = await room.ask(session_id, "q")
            await room.ask(session_id, "r", reply["id"])
            sent = (engine.requests[-1].messages or [])[1]
            assert sent["content"] == "Done"
            assert sent["token_ids"] == [HEADERS["assistant"], *b"<think>plan</think>\n\nDone", END]

    play(story())


CUTS = ["<think>pl", "<think>plan</th", "<think>plan</think>", "<think>plan</think>\n", "<think>plan</think>\n\nDo"]


@pytest.mark.parametrize("begun", CUTS)
@pytest.mark.parametrize("restart", [False, True])
def test_a_reply_that_was_cut_off_anywhere_goes_on_as_if_it_had_not_been(
    tmp_path: Path, begun: str, restart: bool
) -> None:
    whole = "<think>plan</think>\n\nDone"

    async def story() -> None:
        engine = thinker(begun, whole[len(begun) :])
        room = ChatRoom(tmp_path / "s.db", engine)
        session_id = await room.new(params={"max_tokens": len(begun)})
        cut = await room.ask(session_id, "q")
        assert cut["generation"]["finish_reason"] == "length"
        assert "<" not in cut["reasoning"] + cut["content"]
        await room.service.update_settings(session_id, params={"max_tokens": 100})
        if restart:
            await room.service.close()
            room = ChatRoom(tmp_path / "s.db", engine)
            assert (await room.shown(session_id))[-1]["reasoning"] == cut["reasoning"]
        await room.service.continue_reply(cut["id"])
        done = await room.end_of(cut["id"])
        assert (done["reasoning"], done["content"], done["status"]) == ("plan", "Done", "done")
        await room.service.close()

    play(story())


def test_a_page_that_comes_in_the_middle_gets_all_thinking_so_far(tmp_path: Path) -> None:
    async def story() -> None:
        engine = thinker("<think>a plan of some length</think>Done")
        engine.delay_s = 0.005
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "q")
            await room.until(lambda: any(one["type"] == "reasoning" for one in room.events))
            seen = (await room.shown(session_id))[-1]
            assert seen["reasoning"] and "a plan of some length".startswith(seen["reasoning"]) and not seen["content"]
            await asyncio.sleep(0.3)
            assert room.store.message(sent["reply"]["id"]).reasoning, "a partial reply is on disk with its thinking"
            await room.end_of(sent["reply"]["id"])

    play(story())


def test_a_reply_stopped_in_thought_stays_and_the_chat_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        engine = thinker("<think>a plan of some length")
        engine.delay_s = 0.005
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "q")
            await room.until(lambda: any(one["type"] == "reasoning" for one in room.events))
            await room.service.stop(sent["reply"]["id"])
            question, stopped = await room.shown(session_id)
            assert stopped["reasoning"] and (stopped["content"], stopped["status"]) == ("", "stopped")
            engine.replies = ["Fine."]
            other = await room.ask(session_id, "r", stopped["id"])
            assert [one["id"] for one in await room.shown(session_id)][:2] == [question["id"], stopped["id"]]
            assert (other["content"], other["reasoning"]) == ("Fine.", None)
            copy = await room.service.continue_reply(stopped["id"])
            assert copy["id"] != stopped["id"] and copy["reasoning"] == stopped["reasoning"]
            await room.end_of(copy["id"])

    play(story())
