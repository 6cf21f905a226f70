"""Temporary chats: everything works in them, nothing of them is on any disk, and nothing is left when they end."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagedchat.sessions.errors import SessionError
from support.chat_room import ChatRoom, play
from support.paged_client import PagedFakeClient
from support.traces import SECRET, text_on_disk


def room_with(path: Path, **options) -> ChatRoom:
    return ChatRoom(path / "data" / "sessions.db", PagedFakeClient([f"About the {SECRET}: well."], **options))


def test_a_temporary_chat_can_do_what_any_chat_can(tmp_path):
    async def story():
        async with room_with(tmp_path) as room:
            kept = await room.new(system_prompt="Be kind.")
            view = await room.service.create_session("Be kind.", temporary=True)
            session = view["id"]
            assert view["temporary"] and not (await room.service.open(kept))["session"]["temporary"]
            first = await room.ask(session, f"Tell me of the {SECRET}.")
            second = await room.ask(session, "More?", first["id"])
            again = (await room.service.regenerate(second["id"]))["id"]
            await room.end_of(again)
            edited = await room.service.edit(first["id"], "Another answer.")
            await room.service.select(second["id"])
            assert len(await room.texts(session)) == 4 and edited["message"]["sibling_index"] == 2
            gone = await room.service.delete_branch(again)
            await room.service.restore_branch(gone["undo"])
            assert (await room.service.rename(session, "Mine"))["title"] == "Mine"
            assert [one["id"] for one in await room.service.list_sessions()] == [session, kept]
            assert SECRET in (await room.shown(session))[0]["content"]
            assert room.events[-1]["session"]["temporary"] or any(
                one["type"] == "session" and one["session"]["temporary"] for one in room.events
            )

    play(story())


def test_nothing_of_it_is_on_any_disk(tmp_path):
    async def story():
        async with room_with(tmp_path) as room:
            session = (await room.service.create_session(f"Know the {SECRET}.", temporary=True))["id"]
            reply = await room.ask(session, f"Tell me of the {SECRET}.")
            await room.ask(session, "More?", reply["id"])
            await room.service.rename(session, f"The {SECRET}")
            await room.service.open(session)
            await room.service.library.save_draft(session, f"and {SECRET} again")
            await room.ask(await room.new(), "A chat that is kept.")
            assert text_on_disk(tmp_path) == [str(tmp_path / "data" / "sessions.db-wal")], (
                "the kept chat's reply has it"
            )
            with room.store._reader.reading() as connection:
                texts = connection.execute("SELECT count(*) FROM sessions").fetchone()[0]
                assert texts == 1
                assert connection.execute("SELECT count(*) FROM state WHERE value = ?", [session]).fetchone()[0] == 0
            return session

    session = play(story())
    assert all(session.encode() not in one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())


def test_not_even_its_reply_is_written_when_no_other_chat_says_the_same(tmp_path):
    async def story():
        async with room_with(tmp_path) as room:
            session = (await room.service.create_session(temporary=True))["id"]
            await room.ask(session, f"Tell me of the {SECRET}.")
            copy = room.store.backup()
            assert copy.exists() and text_on_disk(tmp_path) == []
            found = await room.service.library.search(SECRET)
            assert not found["hits"]
            await room.new()
            _, _, data = await room.service.library.export(None, "pagedchat")
            assert SECRET.encode() not in data
            with pytest.raises(SessionError, match="cannot be exported"):
                await room.service.library.export([session], "markdown")

    play(story())
    assert text_on_disk(tmp_path) == []


def test_it_shares_no_cached_block_with_another_chat_and_ends_with_its_blocks(tmp_path):
    async def story():
        async with room_with(tmp_path) as room:
            kept = await room.new(system_prompt="Be kind to everybody you meet.")
            await room.ask(kept, "The same question of some length.")
            salts = {one.salt for one in room.engine.requests}
            session = (await room.service.create_session("Be kind to everybody you meet.", temporary=True))["id"]
            reply = await room.ask(session, "The same question of some length.")
            assert salts == {""} and room.engine.requests[-1].salt == f"temporary:{session}"
            assert (await room.service.question(session, reply["id"], "And?"))["salt"] == f"temporary:{session}"
            await room.service.end_temporary(session)
            assert room.engine.forgotten == [session]
            for ask in (
                room.service.open(session),
                room.service.end_temporary(session),
                room.service.end_temporary(kept),
            ):
                with pytest.raises(SessionError):
                    await ask
            assert [one["id"] for one in await room.service.list_sessions()] == [kept]
            assert {"type": "purged", "ids": [session]} in room.events

    play(story())


def test_deleting_it_is_its_end_even_while_a_reply_runs(tmp_path):
    async def story():
        async with room_with(tmp_path, delay_s=0.002) as room:
            session = (await room.service.create_session(temporary=True))["id"]
            reply = (await room.service.send(session, None, "Hello there."))["reply"]
            await room.begun(reply["id"], 3)
            assert (await room.service.delete(session))["deleted_at"]
            assert (await room.service.library.trash())["sessions"] == [] and room.engine.forgotten == [session]
            with pytest.raises(SessionError):
                await room.service.undelete(session)

    play(story())


def test_a_folder_is_refused_and_a_presets_examples_begin_it(tmp_path):
    async def story():
        async with room_with(tmp_path) as room:
            with pytest.raises(SessionError, match="temporary chat can be in no folder"):
                await room.service.create_session(folder_id="any", temporary=True)
            examples = [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two."}]
            preset = await room.service.library.save_preset(
                {"name": "Counting", "system_prompt": "Count.", "examples": examples}
            )
            view = await room.service.create_session(preset_id=preset["id"], temporary=True)
            assert view["temporary"] and view["system_prompt"].startswith("Count.")
            assert await room.texts(view["id"]) == ["One?", "Two."]

    play(story())


def test_asking_for_one_after_the_end_of_the_server_finds_none(tmp_path):
    async def story():
        async with room_with(tmp_path) as room:
            session = (await room.service.create_session("", temporary=True))["id"]
            assert room.service.core.is_temporary(session)
        assert not room.service.core.is_temporary(session)

    play(story())
