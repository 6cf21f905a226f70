"""A message without room in the context is refused before anything of it is stored."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pagedchat.engine.errors import RequestError
from pagedchat.sessions import prompt_room
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient


@pytest.mark.parametrize(
    ("limits", "numbers"),
    [
        ({"max_model_len": 200}, ("300", "200")),
        ({"max_model_len": 400, "num_blocks": 10}, ("300", "160")),
        ({"max_model_len": 400, "capacity": 128}, ("300", "128")),
    ],
)
def test_a_message_without_room_is_refused_with_both_numbers_and_nothing_is_stored(
    tmp_path: Path, limits: dict, numbers: tuple[str, str]
) -> None:
    too_long = "x" * 297  # and header, end and the reply's header

    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(info=limits)) as room:
            with pytest.raises(RequestError) as refusal:
                await room.service.send(None, None, too_long)
            assert all(number in str(refusal.value) for number in numbers)
            assert await room.service.list_sessions() == []
            session_id = await room.new()
            first = await room.ask(session_id, "fine")
            before, stored = await room.shown(session_id), room.count()
            with pytest.raises(RequestError, match="Shorten the message"):
                await room.service.send(session_id, first["id"], too_long)
            with pytest.raises(RequestError, match="Shorten"):
                await room.service.edit(first["parent_id"], too_long)
            assert (await room.shown(session_id), room.count()) == (before, stored)
            assert len(room.engine.requests) == 1
            await room.ask(session_id, "shorter", first["id"])
            assert (await room.texts(session_id))[2] == "shorter"

    play(story())


def test_where_the_pool_holds_any_length_only_the_context_counts(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(info={"max_model_len": 400, "num_blocks": 10, "capacity": None})
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            assert (await room.ask(await room.new(), "x" * 297))["status"] == "done"

    play(story())


def test_an_engine_that_does_not_answer_holds_no_message_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:

            async def busy(**_: object) -> dict:
                return await asyncio.Event().wait()  # type: ignore[return-value]

            monkeypatch.setattr(prompt_room, "ANSWER_S", 0.05)
            monkeypatch.setattr(room.engine, "probe", busy)
            reply = await room.ask(await room.new(), "stored all the same")
            assert reply["status"] == "done"

    play(story())


def test_a_message_sent_while_the_model_loads_is_stored_whatever_its_length(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(info={"max_model_len": 200}, ready=False)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "x" * 300)
            engine.refuse = RequestError("The prompt has 303 tokens, but the context holds 200 with the reply.")
            engine.set_status("ready")
            reply = await room.end_of(sent["reply"]["id"])
            assert reply["status"] == "error" and "303" in reply["error"]
            await room.ask(session_id, "shorter", reply["id"])  # counted without the refused one above it
            assert await room.texts(session_id) == ["shorter", "Hello!"]

    play(story())
