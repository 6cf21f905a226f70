"""A preset is what a chat begins with; the chat keeps it, whatever becomes of the preset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pagedchat.engine.errors import PagedChatError
from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.presets import canonical_tools
from support.chat_room import ChatRoom, play

PRESET: dict[str, Any] = {
    "name": "Helper",
    "system_prompt": "You help.",
    "policy": "Be honest.",
    "tools": [{"type": "function", "function": {"name": "añadir", "parameters": {}}}],
    "examples": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}],
    "model": "special",
    "params": {"temperature": 0.5, "top_p": 0.7},
}
TOOLS = '[{"function":{"name":"añadir","parameters":{}},"type":"function"}]'


def test_a_chat_begins_with_all_of_its_preset(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            preset = await room.service.library.save_preset(PRESET)
            assert (preset["version"], preset["tools"]) == (1, TOOLS)
            session = await room.service.create_session(preset_id=preset["id"], params={"top_p": 0.9})
            assert session["system_prompt"] == f"You help.\n\nBe honest.\n\n{TOOLS}" == preset["system_turn"]
            assert session["own_params"] == {"temperature": 0.5, "top_p": 0.9}
            assert (session["model"], session["preset_id"]) == ("special", preset["id"])
            shown = await room.shown(session["id"])
            assert [(one["role"], one["content"], one["status"]) for one in shown] == [
                ("user", "2+2?", "done"),
                ("assistant", "4", "done"),
            ]
            assert session["head_id"] == shown[-1]["id"] and shown[-1]["generation"] is None
            await room.ask(session["id"], "3+3?", session["head_id"])
            sent = room.engine.requests[-1].messages
            assert [one["content"] for one in sent] == [session["system_prompt"], "2+2?", "4", "3+3?"]
            assert (await room.service.open(session["id"]))["session"]["title"] == "3+3?"

    play(story())


def test_later_changes_of_a_preset_change_no_chat(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            library = room.service.library
            preset = await library.save_preset(PRESET)
            session_id = (await room.service.create_session(preset_id=preset["id"]))["id"]
            before = await room.service.open(session_id)
            room.events.clear()
            changed = await library.save_preset({"id": preset["id"], "policy": "", "examples": []}, 1)
            assert (changed["version"], changed["name"], changed["policy"]) == (2, "Helper", "")
            assert room.events == [{"type": "presets", "presets": [changed]}]
            with pytest.raises(SessionError, match="another window"):
                await library.save_preset({"id": preset["id"], "name": "stale"}, 1)
            await library.delete_preset(preset["id"])
            assert await library.presets() == []
            assert await room.service.open(session_id) == before
            with pytest.raises(SessionError, match="preset does not exist"):
                await room.service.create_session(preset_id=preset["id"])
            await library.undelete_preset(preset["id"])
            assert [one["name"] for one in await library.presets()] == ["Helper"]
            own = await room.service.create_session("Mine.", preset_id=preset["id"])
            assert own["system_prompt"] == "Mine."

    play(story())


@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ("name", " ", "preset needs a name"),
        ("warmth", 1, "no such part"),
        ("params", {"warmth": 1}, "no such sampling"),
        ("params", {"temperature": -1}, "temperature"),
        ("tools", "{", "no valid JSON"),
        ("tools", '{"name": "x"}', "list of objects"),
        ("tools", ["x"], "list of objects"),
        ("examples", [{"role": "assistant", "content": "4"}], "in turn"),
        ("examples", [{"role": "user", "content": "2+2?"}], "no answer"),
        ("examples", [{"role": "user", "content": " "}, {"role": "assistant", "content": "4"}], "empty"),
        ("examples", [{"role": "user", "content": 4}, {"role": "assistant", "content": "4"}], "none"),
        ("examples", "x", "list of messages"),
    ],
)
def test_a_part_without_sense_is_one_sentence_and_stores_nothing(
    tmp_path: Path, part: str, value: Any, sentence: str
) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            with pytest.raises(PagedChatError, match=sentence):
                await room.service.library.save_preset({"name": "P", part: value})
            assert await room.service.library.presets() == []

    play(story())


def test_the_same_tools_are_always_the_same_bytes() -> None:
    written = '[ {"type": "function",\n "function": {"parameters": {}, "name": "a\\u00f1adir"}} ]'
    assert canonical_tools(written) == canonical_tools(PRESET["tools"]) == TOOLS == canonical_tools(TOOLS)
    assert canonical_tools("") == canonical_tools(None) == canonical_tools("[]") == ""


def test_a_preset_without_words_leaves_the_template_its_own_system_prompt(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            preset = await room.service.library.save_preset({"name": "Hot", "params": {"temperature": 1.5}})
            session = await room.service.create_session(preset_id=preset["id"])
            assert session["system_prompt"] is None and session["head_id"] is None

    play(story())
