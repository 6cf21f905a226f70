"""What the chats take up is measured while they are used; copies are made and deleted, but never the last good one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagedchat.engine.errors import PagedChatError
from pagedchat.sessions.storage import StorageService, folder_size
from support.chat_room import ChatRoom, play


def test_sizes_are_told_chat_by_chat_with_files_trash_and_paths(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db") as room:
            storage = StorageService(room.service.core, room.service.library)
            small, large, gone = await room.new(), await room.new(), await room.new()
            await room.ask(small, "Short")
            await room.ask(large, "Long " * 300)
            await room.ask(gone, "Gone")
            await room.service.library.attach(small, "notes.txt", b"x" * 900)
            await room.service.delete(gone)
            seen = await storage.measure()
            assert [one["id"] for one in seen["largest"]] == [large, small]
            sizes = {one["id"]: one["size"] for one in seen["largest"]}
            assert 900 < sizes[small] < 1_400 < 1_500 * 5 < sizes[large] < 8_200, "text and ids; files"
            assert (seen["chats"], seen["messages"]) == (2, 4)
            assert (seen["trash"]["chats"], seen["trash"]["branches"]) == (1, 0) and seen["trash"]["size"] > 0
            assert seen["files"] == {"path": str(tmp_path / "attachments"), "size": 900}
            assert seen["database"]["path"] == str(room.store.path)
            assert seen["database"]["size"] >= room.store.path.stat().st_size
            assert seen["copies"] == [] and seen["backups"]["path"] == str(tmp_path / "backups")

    play(story())


def test_a_copy_is_made_by_hand_and_the_newest_good_one_cannot_be_deleted(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db") as room:
            storage = StorageService(room.service.core, room.service.library)
            await room.ask(await room.new(), "Keep me")
            (first,) = await storage.back_up()
            assert (first["kind"], first["chats"], first["messages"], first["problem"]) == ("hand", 1, 2, None)
            assert first["removable"] is False and Path(first["path"]).is_file()
            with pytest.raises(PagedChatError, match="newest copy"):
                await storage.delete_copy(first["name"])
            two = await storage.back_up()
            assert [one["removable"] for one in two] == [False, True]
            broken = tmp_path / "backups" / "sessions-20990101T000000.000000Z-hand.db"
            broken.write_bytes(b"nothing good")
            named = {one["name"]: one["removable"] for one in await storage.copies()}
            assert named == {broken.name: True, two[0]["name"]: False, two[1]["name"]: True}
            left = await storage.delete_copy(two[1]["name"])
            assert {one["name"] for one in left} == {broken.name, two[0]["name"]}
            for name in ("../sessions.db", "no such copy", two[1]["name"]):
                with pytest.raises(PagedChatError, match="not exist"):
                    await storage.delete_copy(name)
            assert room.store.path.is_file()

    play(story())


def test_the_trash_is_emptied_for_good(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db") as room:
            storage = StorageService(room.service.core, room.service.library)
            kept, gone = await room.new(), await room.new()
            reply = await room.ask(kept, "One")
            second = await room.ask(kept, "Two", reply["id"])
            await room.ask(gone, "Three")
            await room.service.delete_branch(second["parent_id"])
            await room.service.delete(gone)
            assert await storage.empty_trash() == 2
            assert await room.texts(kept) == ["One", "Hello!"]
            assert await room.service.library.trash() == {"sessions": [], "branches": []}
            assert room.count() == 2 and await storage.empty_trash() == 0

    play(story())


def test_a_folder_is_measured_without_following_links(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "one").write_bytes(b"12345")
    (tmp_path / "a" / "two").write_bytes(b"123")
    (inner / "round").symlink_to(tmp_path / "a", target_is_directory=True)
    assert 8 <= folder_size(tmp_path / "a") < 8 + 8192, "the link itself at most"
    assert folder_size(tmp_path / "missing") == 0
