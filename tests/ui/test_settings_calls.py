"""The settings' calls: what is stored where, copies, caches, presets; what is unknown is left out."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from pagedchat.app.folders import find_folders
from pagedchat.app.installation import Installation
from pagedchat.app.model_store import ModelStore
from pagedchat.app.settings import Settings
from pagedchat.sessions.sampling import PARAM_NAMES
from pagedchat.ui import calls
from pagedchat.ui.connection import Connection
from pagedchat.ui.hub import Hub
from support.chat_room import ChatRoom, play


class Caller:
    """Calls of one page, without the page."""

    def __init__(self, room: ChatRoom, installation: Any = None) -> None:
        hub = Hub(room.service, room.engine, None, None, installation)
        self._connection = Connection(hub, lambda data: asyncio.sleep(0))

    async def call(self, op: str, **fields: Any) -> Any:
        reply = await calls.answer(self._connection, {"id": 1, "op": op, **fields})
        return reply.get("ok", reply.get("error"))


def installed(folder: Path) -> Installation:
    folders = replace(find_folders(folder), cache=folder / "cache", models=folder / "models")
    return Installation(lambda: Settings(context_policy="refuse"), folders, ModelStore(folders.models))


def test_the_storage_tells_chats_models_and_caches_and_a_cache_can_be_emptied(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    model = tmp_path / "models" / "small.gguf"
    model.write_bytes(b"GGUF" + b"0" * 96)
    kernels = tmp_path / "cache" / "kernels" / "1"
    kernels.mkdir(parents=True)
    (kernels / "step.nbc").write_bytes(b"0" * 10)

    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db") as room:
            page = Caller(room, installed(tmp_path))
            seen = await page.call("storage")
            assert [(one["name"], one["size"]) for one in seen["caches"]] == [("kernels", 10)]
            assert [(one["name"], one["size"], one["loaded"]) for one in seen["models"]] == [("small", 100, False)]
            assert seen["database"]["path"] == str(tmp_path / "sessions.db") and seen["copies"] == []
            room.engine._info["model_path"] = str(model)
            room.engine._info["compiling"] = True
            room.engine.set_status("ready")
            assert (await page.call("storage"))["models"][0]["loaded"] is True
            assert "being compiled" in await page.call("clear_cache", name="kernels")
            room.engine._info["compiling"] = False
            assert "no cache" in await page.call("clear_cache", name="../models")
            assert (await page.call("clear_cache", name="kernels"))["caches"] == []
            assert model.exists() and not kernels.exists()
            (copy,) = await page.call("back_up")
            assert await page.call("copies") == [copy]
            assert "newest copy" in await page.call("delete_copy", name=copy["name"])

    play(story())


def test_without_an_installation_the_rest_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db") as room:
            page = Caller(room)
            assert "models" not in await page.call("storage")
            assert await page.call("settings_facts") == {
                "usual": {"max_tokens": 1024, "temperature": 0.2, "top_p": 0.9},
                "installation": None,
            }
            assert (await page.call("clear_cache", name="kernels")).endswith(".")

    play(story())


def test_the_facts_are_those_in_force(tmp_path: Path) -> None:
    facts = installed(tmp_path).facts()
    assert (facts["context_policy"], facts["licence"]) == ("refuse", "Apache-2.0")
    assert facts["paths"]["database"] == str(tmp_path / "sessions.db")
    assert {"Python", "SQLite", "torch", "gradio"} <= set(facts["versions"])


def test_every_sampling_setting_of_a_chat_can_be_chosen_and_given_back(tmp_path: Path) -> None:
    chosen = {
        **{"temperature": 1.0, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "repetition_penalty": 1.1},
        **{"presence_penalty": 0.5, "frequency_penalty": -0.5, "dry_multiplier": 0.8, "dry_base": 2.0},
        **{"dry_allowed_length": 3, "max_tokens": 50, "min_tokens": 2, "seed": 7, "stop": ["END", "\n\n"]},
    }
    assert set(chosen) == set(PARAM_NAMES)

    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db") as room:
            page = Caller(room)
            session_id = await room.new()
            changed = await page.call("settings", session=session_id, change=chosen)
            assert changed["own_params"] == chosen
            await room.ask(session_id, "Hi")
            assert room.engine.requests[-1].params.stop == ["END", "\n\n"]
            back = await page.call("settings", session=session_id, change={"stop": None, "seed": None})
            assert set(back["own_params"]) == set(PARAM_NAMES) - {"stop", "seed"}
            assert (await page.call("settings", session=session_id, change={"reset": True}))["own_params"] == {}

    play(story())


def test_the_editor_of_presets_is_served(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db") as room:
            page = Caller(room)
            seen = await page.call("preset_preview", change={"system_prompt": "Hi {{you}}"})
            assert seen["tokens"]["system_prompt"] == 10 and len(seen["warnings"]) == 1
            preset = await page.call("save_preset", change={"name": "Mine", "system_prompt": "Hi"})
            assert await page.call("preset_drift", preset=preset["id"]) == {"chats": 0, "stable": 5, "groups": []}
            made = await page.call("preset_of_chat", session=await room.new(system_prompt="Hi"))
            assert made["system_prompt"] == "Hi" and made["pairs"] == []

    play(story())
