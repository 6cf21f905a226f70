"""Files of chats: whole on disk before a row names them, stored once, and never in the way of opening a chat."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pagedchat.sessions import attachments as module
from pagedchat.sessions.attachments import clean_name
from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.exchange import files
from pagedchat.sessions.store import SessionStore
from support.chat_room import ChatRoom, play
from support.stored_chat import StoredChat


def test_a_file_is_kept_once_for_the_owner_only_and_read_back_whole(tmp_path: Path) -> None:
    chat = StoredChat.at(tmp_path)
    other = StoredChat(chat.store)
    data = bytes(range(256)) * 50
    one = chat.store.attachments.add(chat.id, "../notes/plan.TXT", data, "Text/Plain; charset=utf-8")
    two = chat.store.attachments.add(other.id, "copy.bin", data)
    assert (one.name, one.media_type, one.size, one.message_id) == ("plan.TXT", "text/plain", len(data), None)
    assert one.sha256 == two.sha256 and two.media_type == "application/octet-stream"
    folder = tmp_path / "attachments"
    assert [file.name for file in folder.iterdir()] == [one.sha256]
    assert (folder / one.sha256).stat().st_mode & 0o777 == 0o600
    assert chat.store.attachments.read(one.id) == (one, data)
    assert chat.store.attachments.of_session(chat.id) == [one]
    chat.store.close()


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("résumé – 履歴書.pdf", "résumé – 履歴書.pdf"),
        ("C:\\Users\\me\\a.txt", "a.txt"),
        ("evil\u202egnp.exe", "evilgnp.exe"),
        ("two\nlines\x00.md", "twolines.md"),
        ("نامه\u200cها.txt", "نامه\u200cها.txt"),
        ("half \ud83d.txt", "half \ufffd.txt"),
        ("...", "file"),
        ("", "file"),
        ("x" * 300 + ".json", "x" * 115 + ".json"),
    ],
)
def test_names_keep_their_script_and_lose_what_nobody_sees(name: str, cleaned: str) -> None:
    assert clean_name(name) == cleaned


def test_a_file_goes_with_the_message_that_it_was_attached_to(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            library, session_id = room.service.library, await room.new()
            kept = await library.attach(session_id, "a.txt", b"one")
            await library.attach(session_id, "b.txt", b"two")
            sent = await room.service.send(session_id, None, "see a", [kept["id"]])
            assert [one for one in room.events if one["type"] == "attachments"] == [
                {"type": "attachments", "session_id": session_id}
            ] * 3
            found = {one["name"]: one["message_id"] for one in await library.attachments(session_id)}
            assert found == {"a.txt": sent["user"]["id"], "b.txt": None}
            count = room.count()
            with pytest.raises(SessionError, match="attach it again"):
                await room.service.send(session_id, None, "again", [kept["id"]])
            assert room.count() == count
            await library.detach(kept["id"])
            assert [one["name"] for one in await library.attachments(session_id)] == ["b.txt"]
            await library.detach(kept["id"], on=True)
            assert (await library.attachment(kept["id"]))[1] == b"one"
            await room.end_of(sent["reply"]["id"])
            fork = await room.service.fork(sent["user"]["id"])
            assert [one["name"] for one in await library.attachments(fork["id"])] == ["a.txt"]

    play(story())


def test_a_damaged_or_missing_content_is_a_sentence_and_the_chat_opens(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            library, session_id = room.service.library, await room.new()
            found = await library.attach(session_id, "a.txt", b"the content")
            sent = await room.service.send(session_id, None, "see a", [found["id"]])
            await room.end_of(sent["reply"]["id"])
            file = tmp_path / "attachments" / found["sha256"]
            file.write_bytes(b"the cOntent")
            with pytest.raises(SessionError, match=r'"a\.txt" is damaged'):
                await library.attachment(found["id"])
            await library.attach(session_id, "again.txt", b"the content")  # mends it
            assert (await library.attachment(found["id"]))[1] == b"the content"
            file.unlink()
            with pytest.raises(SessionError, match=r'"a\.txt" is missing'):
                await library.attachment(found["id"])
            assert await room.texts(session_id) == ["see a", "Hello!"]
            with pytest.raises(SessionError, match="does not exist"):
                await library.attachment("none")

    play(story())


def test_a_file_that_is_too_large_is_refused_with_both_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIZE_LIMIT", 1 << 20)
    chat = StoredChat.at(tmp_path)
    with pytest.raises(SessionError, match=r"1\.5 MiB.*1 MiB"):
        chat.store.attachments.add(chat.id, "big", b"x" * (3 << 19))
    assert not (tmp_path / "attachments").exists() and chat.count("attachments") == 0
    chat.store.close()


def test_a_purge_removes_contents_that_nobody_else_names(tmp_path: Path) -> None:
    chat = StoredChat.at(tmp_path)
    other = StoredChat(chat.store)
    shared = chat.store.attachments.add(chat.id, "a", b"shared")
    alone = chat.store.attachments.add(chat.id, "b", b"alone")
    chat.store.attachments.add(other.id, "c", b"shared")
    folder = tmp_path / "attachments"
    chat.store.change_session(chat.id, deleted_at="x")
    assert (folder / alone.sha256).exists()
    chat.store.trash.purge([chat.id])
    assert [one.name for one in folder.iterdir()] == [shared.sha256]
    chat.store.close()


def test_a_start_removes_what_has_been_without_a_row_for_a_day(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            named = await room.service.library.attach(await room.new(), "a", b"named")
        folder = tmp_path / "attachments"
        for name, age_s in (("0" * 64, 100_000), ("1" * 64 + ".abcd.part", 100_000), ("2" * 64, 60)):
            (folder / name).write_bytes(b"x")
            os.utime(folder / name, times=(1, (folder / name).stat().st_mtime - age_s))
        os.utime(folder / named["sha256"], times=(1, 1))
        async with ChatRoom(tmp_path / "s.db"):
            assert sorted(one.name for one in folder.iterdir()) == sorted([named["sha256"], "2" * 64])

    play(story())


def test_a_temporary_chat_leaves_no_file_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SessionStore.temporary()
    session = store.create_session(None, {}, None)
    found = store.attachments.add(session.id, "a", b"x")
    assert store.attachments.read(found.id) == (found, b"x")
    monkeypatch.setattr(files, "MOST_IN_MEMORY", 5)
    with pytest.raises(SessionError, match="ordinary chat"):
        store.attachments.add(session.id, "b", b"xxxxx")
    store.change_session(session.id, deleted_at="x")
    store.trash.purge([session.id])
    assert not store.attachments._files.has(found.sha256)
    store.close()
    assert list(tmp_path.iterdir()) == []
