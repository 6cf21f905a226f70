"""Turn n+1 extends turn n: which token ids are stored, sent again, and not."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support.chat_room import ChatRoom, play
from support.fake_client import END, HEADERS, FakeEngineClient


def sent_ids(engine: FakeEngineClient) -> list[list[int] | None]:
    return [one["token_ids"] for one in engine.requests[-1].messages or []]


def test_each_turn_sends_what_the_one_before_fed_and_produced(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["one", "two"])) as room:
            session_id = await room.new(system_prompt="S")
            first = await room.ask(session_id, "a")
            fed = await room.service.branch_tokens(session_id)
            system, user, assistant = HEADERS["system"], HEADERS["user"], HEADERS["assistant"]
            assert fed == [system, *b"S", END, user, *b"a", END, assistant, *b"one", END]
            second = await room.ask(session_id, "b", first["id"])
            known = sent_ids(room.engine)
            assert [one for ids in known[:3] for one in ids or []] == fed
            assert known[3] is None
            assert second["generation"]["cached_tokens"] == len(fed)
            assert await room.service.branch_tokens(session_id, first["id"]) == fed

    play(story())


def test_ids_survive_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["one"])) as room:
            session_id = await room.new()
            first = await room.ask(session_id, "a")
            fed = await room.service.branch_tokens(session_id)
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["two"])) as room:
            await room.ask(session_id, "b", first["id"])
            assert [one for ids in sent_ids(room.engine)[:2] for one in ids or []] == fed

    play(story())


def test_a_running_reply_shows_its_ids_as_they_come(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["0123456789" * 20], delay_s=0.001)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "a")
            await room.begun(sent["reply"]["id"], 3)
            live = await room.service.branch_tokens(session_id)
            assert live[:7] == [HEADERS["user"], ord("a"), END, HEADERS["assistant"], *b"012"]
            await room.service.stop(sent["reply"]["id"])
            stored = await room.service.branch_tokens(session_id)
            assert stored[: len(live)] == live

    play(story())


def test_a_stopped_turn_is_closed_by_the_next_one_and_the_result_is_kept(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["0123456789" * 20, "two"], delay_s=0.001)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "a")
            await room.begun(sent["reply"]["id"], 3)
            await room.service.stop(sent["reply"]["id"])
            stopped = await room.service.branch_tokens(session_id)
            assert stopped[-1] != END
            await room.ask(session_id, "b", sent["reply"]["id"])
            whole = await room.service.branch_tokens(session_id)
            assert whole[: len(stopped) + 3] == [*stopped, END, HEADERS["user"], ord("b")]

    play(story())


def test_ids_of_another_model_are_not_sent_and_come_back_with_theirs(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["one"], info={"fingerprint": "A"})) as room:
            session_id = await room.new(params={"max_tokens": 2})
            first = await room.ask(session_id, "a")
            with_a = await room.service.branch_tokens(session_id)
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["two"], info={"fingerprint": "B"})) as room:
            assert await room.service.branch_tokens(session_id) == []
            second = await room.ask(session_id, "b", first["id"])
            assert sent_ids(room.engine) == [None, None, None]
            assert await room.service.branch_tokens(session_id) != []
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["three"], info={"fingerprint": "A"})) as room:
            assert await room.service.branch_tokens(session_id) == with_a
            await room.ask(session_id, "c", second["id"])
            known = sent_ids(room.engine)
            assert [one is None for one in known] == [False, False, True, True, True]

    play(story())


def test_a_changed_system_prompt_drops_the_ids_that_hold_the_old_one(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["one", "two", "three"])
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            first = await room.ask(session_id, "a")
            second = await room.ask(session_id, "b", first["id"])
            await room.service.update_settings(session_id, params={"temperature": 1.0})
            assert len(await room.service.branch_tokens(session_id)) > 8
            await room.service.update_settings(session_id, system_prompt="New.")
            assert await room.service.branch_tokens(session_id) == []
            third = await room.ask(session_id, "c", second["id"])
            assert [one is None for one in sent_ids(engine)] == [True, True, False, False, False, True]
            fed = await room.service.branch_tokens(session_id)
            assert len(fed) == third["generation"]["prompt_tokens"] + third["generation"]["completion_tokens"]

    play(story())


def test_a_system_prompt_changed_during_a_reply_does_not_keep_stale_ids(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["one"])
        engine.gate = asyncio.Event()
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new(system_prompt="Old.")
            sent = await room.service.send(session_id, None, "a")
            await asyncio.sleep(0)
            await room.service.update_settings(session_id, system_prompt="New.")
            engine.gate.set()
            reply = await room.end_of(sent["reply"]["id"])
            text = bytes(one for one in (await room.service.branch_tokens(session_id)) if one < 256)
            assert b"Old." not in text
            await room.ask(session_id, "b", reply["id"])
            fed = bytes(one for one in (await room.service.branch_tokens(session_id)) if one < 256)
            assert fed.startswith(b"New.")

    play(story())


class StoppingEngine(FakeEngineClient):
    """Says at the end of each reply that a stop string left the ids of "on" only."""

    async def generate(self, request):
        async for item in super().generate(request):
            if getattr(item, "finish_reason", None):
                item.history_ids = [*b"on"]
            yield item


def test_after_a_stop_string_only_the_ids_of_the_text_are_sent_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", StoppingEngine(["one", "two"])) as room:
            session_id = await room.new(params={"stop": ["###"]})
            first = await room.ask(session_id, "a")
            await room.ask(session_id, "b", first["id"])
            assert sent_ids(room.engine)[1] == [HEADERS["assistant"], *b"on"]

    play(story())


def test_a_message_left_without_reply_is_followed_by_the_next(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["one", "two"])
        engine.gate = asyncio.Event()
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "a")
            await asyncio.sleep(0.02)
            await room.service.stop(sent["reply"]["id"])
            engine.gate = None
            await room.ask(session_id, "b", sent["reply"]["id"])
            assert await room.texts(session_id) == ["a", "b", "two"]
            assert [one["role"] for one in engine.requests[-1].messages or []] == ["user", "user"]

    play(story())


def test_what_is_asked_beforehand_about_a_question_is_what_is_sent_then(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session_id = await room.new(system_prompt="S")
            question = await room.service.question(session_id, None, "a")
            assert [one["role"] for one in question["messages"]] == ["system", "user"]
            first = await room.ask(session_id, "a")
            question = await room.service.question(session_id, first["id"], "b")
            await room.ask(session_id, "b", first["id"])
            assert room.engine.requests[-1].messages == question["messages"]

    play(story())
