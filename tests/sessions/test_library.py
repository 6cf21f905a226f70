"""Folders, pins, archive and settings: what several pages change at once is never silently lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pagedchat.sessions.errors import SessionError
from support.chat_room import ChatRoom, play


def test_folders_are_made_renamed_deleted_and_come_back_with_their_chats(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            library, session_id = room.service.library, await room.new()
            work = await library.add_folder("  Work\n things ")
            assert (work["name"], work["sessions"]) == ("Work things", 0)
            assert (await library.move(session_id, work["id"]))["folder_id"] == work["id"]
            assert [one["sessions"] for one in await library.folders()] == [1]
            room.events.clear()
            await library.delete_folder(work["id"])
            assert room.events == [{"type": "folders", "folders": []}]
            assert (await room.service.open(session_id))["session"]["folder_id"] is None
            with pytest.raises(SessionError, match="folder does not exist"):
                await library.move(session_id, work["id"])
            await library.undelete_folder(work["id"])
            await library.rename_folder(work["id"], "Job")
            assert [(one["name"], one["sessions"]) for one in await library.folders()] == [("Job", 1)]
            assert (await library.move(session_id, None))["folder_id"] is None
            in_folder = await room.service.create_session(folder_id=work["id"])
            assert in_folder["folder_id"] == work["id"]

    play(story())


@pytest.mark.parametrize(("first", "second"), [("Work", "wORK"), ("Straße", "STRASSE"), ("Ärzte", "ärzte")])
def test_two_folders_cannot_differ_by_case_alone(tmp_path: Path, first: str, second: str) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            library = room.service.library
            one, other = await library.add_folder(first), await library.add_folder("other")
            for attempt in (library.add_folder(second), library.rename_folder(other["id"], second)):
                with pytest.raises(SessionError, match=f'"{first}" already'):
                    await attempt
            await library.rename_folder(one["id"], second)  # one's own name may change its case
            await library.delete_folder(one["id"])
            await library.add_folder(first)
            with pytest.raises(SessionError, match="already"):
                await library.undelete_folder(one["id"])
            with pytest.raises(SessionError, match="folder needs a name"):
                await library.add_folder(" ")

    play(story())


def test_each_change_of_a_chat_is_told_with_a_new_version(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            service, library, session_id = room.service, room.service.library, await room.new()
            folder = await library.add_folder("f")
            version = (await service.open(session_id))["session"]["version"]
            for name, value, change in (
                ("pinned", True, library.pin(session_id, True, version)),
                ("archived", True, library.archive(session_id, True, version + 1)),
                ("folder_id", folder["id"], library.move(session_id, folder["id"], version + 2)),
                ("title", "T", service.rename(session_id, "T", version + 3)),
                ("system_prompt", "S", service.update_settings(session_id, system_prompt="S", version=version + 4)),
                ("own_params", {"top_p": 0.5}, service.update_settings(session_id, params={"top_p": 0.5})),
                ("archived", False, library.archive(session_id, False)),
            ):
                room.events.clear()
                view = await change
                version += 1
                assert (view[name], view["version"]) == (value, version)
                assert room.events == [{"type": "session", "session": view}]
            deleted = await service.delete(session_id, view["version"])
            assert deleted["deleted_at"] and room.events[-1] == {"type": "session", "session": deleted}
            assert not (await service.undelete(session_id, deleted["version"]))["deleted_at"]

    play(story())


def test_a_change_made_for_an_older_version_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            service, library, view = room.service, room.service.library, await room.service.create_session()
            session_id, old = view["id"], view["version"]
            await service.rename(session_id, "from page one", old)
            before = (await service.open(session_id))["session"]
            for attempt in (
                service.rename(session_id, "from page two", old),
                service.update_settings(session_id, system_prompt="x", version=old),
                service.update_settings(session_id, params={"top_p": 0.1}, version=old),
                service.delete(session_id, old),
                library.pin(session_id, True, old),
                library.archive(session_id, True, old),
                library.move(session_id, None, old),
            ):
                with pytest.raises(SessionError, match="another window"):
                    await attempt
            assert (await service.open(session_id))["session"] == before
            await room.ask(session_id, "a message")  # messages are no change of the chat itself
            assert (await service.rename(session_id, "from page two", before["version"]))["title"] == "from page two"

    play(story())


def test_pages_that_change_different_parameters_at_once_both_win(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session_id = await room.new(params={"seed": 3})
            changes: list[dict[str, float]] = [{"top_p": 0.5}, {"temperature": 1.5}, {"top_k": 7}, {"min_p": 0.1}]
            await asyncio.gather(*(room.service.update_settings(session_id, params=one) for one in changes))
            own = (await room.service.open(session_id))["session"]["own_params"]
            assert own == {"seed": 3, "top_p": 0.5, "temperature": 1.5, "top_k": 7, "min_p": 0.1}
            with pytest.raises(SessionError, match="no such sampling"):
                await room.service.update_settings(session_id, params={"warmth": 1})

    play(story())


def test_every_page_hears_of_folders_and_presets_whole_and_of_nothing_else(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            library = room.service.library
            folder, preset = (await library.add_folder("f"))["id"], (await library.save_preset({"name": "p"}))["id"]
            for kind, change in (
                ("folders", lambda: library.rename_folder(folder, "g")),
                ("folders", lambda: library.delete_folder(folder)),
                ("folders", lambda: library.undelete_folder(folder)),
                ("folders", lambda: library.add_folder("h")),
                ("presets", lambda: library.save_preset({"id": preset, "policy": "Be brief."})),
                ("presets", lambda: library.delete_preset(preset)),
                ("presets", lambda: library.undelete_preset(preset)),
            ):
                room.events.clear()
                await change()
                whole = await (library.folders() if kind == "folders" else library.presets())
                assert room.events == [{"type": kind, kind: whole}]
            for refused in (library.rename_folder("none", "x"), library.delete_preset("none")):
                room.events.clear()
                with pytest.raises(SessionError, match="does not exist"):
                    await refused
                assert room.events == []

    play(story())
