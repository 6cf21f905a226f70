"""Files of chats through the service: other pages hear of what came, and chats go on where they were."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.exchange.report import ExchangeError
from support.chat_room import ChatRoom, play
from support.chat_trees import grow

SAMPLES = Path(__file__).parent.parent / "data" / "exchange"


def test_every_chat_and_folder_that_comes_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "a.db") as room:
            report = await room.service.library.import_file("x", (SAMPLES / "openwebui.json").read_bytes())
            told = [one["session"] for one in room.events if one["type"] == "session"]
            assert [one["id"] for one in told] == [one["id"] for one in report["chats"]]
            assert told[0]["pinned"] and told[0]["title"] == "Tides"
            (folders,) = [one["folders"] for one in room.events if one["type"] == "folders"]
            assert [(one["name"], one["id"]) for one in folders] == [("Open WebUI f01de200", told[0]["folder_id"])]
            listed = {one["id"]: one["title"] for one in await room.service.list_sessions()}
            assert listed == {one["id"]: one["title"] for one in report["chats"]}

    play(story())


def test_an_imported_chat_goes_on_where_it_was(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "a.db") as room:
            report = await room.service.library.import_file("x", (SAMPLES / "llama_cpp.json").read_bytes())
            chat = report["chats"][0]["id"]
            head = (await room.service.open(chat))["messages"][-1]
            assert head["generation"]["model"] == "qwen3-4b" and len(head["siblings"]) == 2
            reply = await room.ask(chat, "And bats?", head["id"])
            assert reply["status"] == "done"
            sent = room.engine.requests[-1].messages
            assert [one["role"] for one in sent] == ["system", "user", "assistant", "user"]
            await room.end_of((await room.service.regenerate(head["id"]))["id"])
            found = await room.service.library.search("model:qwen3-4b by day")
            assert found["total"] == 2

    play(story())


def test_a_chat_goes_from_one_folder_of_data_to_another_and_keeps_its_token_ids(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "a" / "a.db") as first, ChatRoom(tmp_path / "b" / "b.db") as second:
            chat = await first.new(system_prompt="You are kind.")
            await first.ask(chat, "Hi")
            name, media_type, data = await first.service.library.export([chat], "pagedchat")
            assert (name, media_type) == ("Hi.pagedchat.json", "application/json")
            report = await second.service.library.import_file(name, data)
            ids = await first.service.branch_tokens(chat)
            assert ids and await second.service.branch_tokens(report["chats"][0]["id"]) == ids

    play(story())


def test_export_takes_all_chats_but_those_in_the_trash_and_any_that_is_named(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "a.db") as room:
            kept, gone = await room.new(), await room.new()
            await room.service.delete(gone)
            library = room.service.library
            for ids, expected in ((None, [kept]), ([gone], [gone]), ([kept, gone, kept], [kept, gone])):
                data = (await library.export(ids, "pagedchat"))[2]
                assert [one["id"] for one in json.loads(data)["chats"]] == expected
            with pytest.raises(ExchangeError, match="choose one of"):
                await library.export(None, "docx")
            with pytest.raises(SessionError, match="does not exist"):
                await library.export(["nobody"], "markdown")

    play(story())


def test_an_import_is_finished_and_told_though_nobody_waits_for_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "a.db") as room:
            data = (SAMPLES / "chatgpt.json").read_bytes()
            room.store._writer._lock.acquire()
            asking = asyncio.create_task(room.service.library.import_file("x", data))
            while not room.service.core.tasks:
                await asyncio.sleep(0.001)
            asking.cancel()
            room.store._writer._lock.release()
            await room.until(lambda: sum(one["type"] == "session" for one in room.events) == 2)
            assert len(room.store.sessions()) == 2

    play(story())


def test_a_chat_exported_while_a_reply_is_written_comes_back_interrupted(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "a.db") as room:
            chat = await asyncio.to_thread(grow, room.store, 6)
            with room.store._writer.transaction(durable=True) as connection:
                connection.execute(
                    "UPDATE messages SET status = 'streaming' WHERE id = ?", [room.store.session(chat).head_id]
                )
            data = (await room.service.library.export([chat], "pagedchat"))[2]
            report = await room.service.library.import_file("x", data)
            assert "marked as interrupted: 1" in report["chats"][0]["repairs"][0]

    play(story())


def test_a_file_of_all_chats_has_all_presets_and_folders_and_brings_each_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "a" / "a.db") as first, ChatRoom(tmp_path / "b" / "b.db") as second:
            library = first.service.library
            used = await library.save_preset({"name": "used", "policy": "Be brief."})
            await library.save_preset({"name": "spare", "system_prompt": "You sing.", "params": {"seed": 3}})
            await library.delete_preset((await library.save_preset({"name": "gone"}))["id"])
            await library.add_folder("Empty")
            chat = await first.new(preset_id=used["id"])
            one = json.loads((await library.export([chat], "pagedchat"))[2])
            assert [preset["name"] for preset in one["presets"]] == ["used"] and "folders" not in one
            data = (await library.export(None, "pagedchat"))[2]
            for _ in range(2):
                await second.service.library.import_file("all.json", data)
                presets = await second.service.library.presets()
                assert [(one["name"], one["system_turn"]) for one in presets] == [
                    ("spare", "You sing."),
                    ("used", "Be brief."),
                ]
                assert [one["name"] for one in await second.service.library.folders()] == ["Empty"]
            told = [one["type"] for one in second.events]
            assert "presets" in told and "folders" in told

    play(story())
