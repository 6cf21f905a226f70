"""The editor of presets knows what chats have in common, what breaks that, and which chats began otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pagedchat.sessions.preset_service import PresetService
from support.chat_room import ChatRoom, play

EXAMPLES = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]


def test_the_preview_shows_how_every_chat_begins_and_how_long_each_part_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            presets = PresetService(room.service.core)
            draft: dict[str, Any] = {"system_prompt": "You help.", "policy": "Be kind.", "examples": EXAMPLES}
            seen = await presets.preview(draft)
            text = "".join(one for one, _ in seen["begins"])
            assert text == "<system>You help.\n\nBe kind.<end><user>2+2?<end><assistant>4<end><user>"
            assert [one for one, control in seen["begins"] if control][:2] == ["<system>", "<end>"]
            tokens = seen["tokens"]
            assert (tokens["system_prompt"], tokens["policy"], tokens["tools"], tokens["examples"]) == (9, 8, 0, 5)
            assert tokens["stable"] == sum(tokens[one] for one in tokens if one != "stable")
            assert (seen["problems"], seen["warnings"]) == ({}, [])
            saved = await room.service.library.save_preset({"name": "Kind", **draft})
            session = await room.service.create_session(preset_id=saved["id"])
            await room.ask(session["id"], "3+3?", session["head_id"])
            sent = await room.service.branch_tokens(session["id"])
            stable = await presets._stable_ids(room.store.presets.preset(saved["id"]))
            assert sent[: len(stable)] == stable, "what the preview counts is what chats send"

    play(story())


def test_parts_that_cannot_be_saved_are_said_in_their_place_and_the_rest_is_shown(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            presets = PresetService(room.service.core)
            seen = await presets.preview({"system_prompt": "At {{time}}.", "tools": "[{]", "examples": EXAMPLES[:1]})
            assert set(seen["problems"]) == {"tools", "examples"}
            assert "no valid JSON" in seen["problems"]["tools"] and "no answer" in seen["problems"]["examples"]
            assert [(one["part"], one["text"]) for one in seen["warnings"]] == [("system_prompt", "{{time}}")]
            assert "".join(text for text, _ in seen["begins"]) == "<system>At {{time}}.<end><user>"
            room.engine.set_status("loading")
            assert (await presets.preview({"policy": "x"}))["tokens"] is None

    play(story())


def test_chats_that_began_otherwise_are_told_with_the_token_and_the_word(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            presets, library = PresetService(room.service.core), room.service.library
            preset = await library.save_preset({"name": "Year", "system_prompt": "It is 2025, be kind."})
            for text in ("one", "two"):
                await room.ask(await room.new(preset_id=preset["id"]), text)
            assert await presets.drift(preset["id"]) == {"chats": 2, "stable": 23, "groups": []}
            await library.save_preset({"id": preset["id"], "system_prompt": "It is 2026, be kind."})
            await room.ask(await room.new(preset_id=preset["id"]), "three")
            await room.new(preset_id=preset["id"])  # never sent: nothing can be said of it
            seen = await presets.drift(preset["id"])
            assert seen["chats"] == 3
            (group,) = seen["groups"]
            assert (group["chats"], group["token"], group["theirs"], group["ours"]) == (2, 11, "2025", "2026")
            first = (await room.service.list_sessions())[-1]
            assert group["since"] == first["created_at"]

    play(story())


def test_a_preset_that_has_grown_differs_where_its_chats_went_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            presets, library = PresetService(room.service.core), room.service.library
            preset = await library.save_preset({"name": "Short", "system_prompt": "Hi."})
            await room.ask(await room.new(preset_id=preset["id"]), "one")
            await library.save_preset({"id": preset["id"], "policy": "Be kind."})
            (group,) = (await presets.drift(preset["id"]))["groups"]
            assert (group["token"], group["theirs"], group["ours"]) == (5, "<end>", "Be")

    play(story())


def test_a_chat_offers_its_settings_and_its_first_messages_as_a_preset(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session_id = await room.new(system_prompt="Be brief.", params={"temperature": 0.7})
            reply = await room.ask(session_id, "Hi?")
            await room.ask(session_id, "And?", reply["id"])
            made = await PresetService(room.service.core).of_chat(session_id)
            assert (made["system_prompt"], made["params"]) == ("Be brief.", {"temperature": 0.7})
            assert made["pairs"] == [["Hi?", "Hello!"], ["And?", "Hello!"]]

    play(story())
