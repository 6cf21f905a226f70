"""What disks, other programs and odd texts do to chats that are being written."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pagedchat.engine.errors import PagedChatError
from pagedchat.sessions import reply_job
from pagedchat.sessions.errors import StoreError
from pagedchat.sessions.restore import restore_salvaged
from pagedchat.sessions.store import SessionStore
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient
from support.forked import start_fork
from support.stored_chats import texts

TEXT = "0123456789" * 400
ROOMY: dict[str, Any] = {"max_model_len": 1 << 21, "num_blocks": 1 << 17}


@pytest.fixture(autouse=True)
def tried_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_job, "RETRY_S", 0.1)


class SmallDisk:
    """A folder on a disk of 1 MiB, or one whose database may not grow where nobody can mount one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
        try:
            self.real = subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            self.real = False

    def fill(self, room: ChatRoom) -> None:
        if not self.real:
            pages = raw(room).execute("PRAGMA page_count").fetchone()[0]
            raw(room).execute(f"PRAGMA max_page_count = {pages}")
            return
        with (self.folder / "ballast").open("wb", buffering=0) as ballast:
            try:
                while ballast.write(bytes(4096)):
                    pass
            except OSError:
                pass

    def empty(self, room: ChatRoom) -> None:
        if self.real:
            (self.folder / "ballast").unlink()
        else:
            raw(room).execute("PRAGMA max_page_count = 1000000")

    def close(self) -> None:
        if self.real:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "small")
    yield disk
    disk.close()


def raw(room: ChatRoom) -> sqlite3.Connection:
    return room.store._writer._raw


async def running(room: ChatRoom) -> tuple[str, str]:
    """(chat, reply) of a reply that waits at its gate."""
    room.engine.gate = asyncio.Event()
    chat = await room.new(params={"max_tokens": 50000})
    sent = await room.service.send(chat, None, "q")
    await room.until(lambda: room.engine.requests)
    return chat, sent["reply"]["id"]


async def refused(room: ChatRoom, chat: str, problem: str) -> None:
    """A message is refused in a sentence, and nothing of it is stored."""
    before = room.count()
    with pytest.raises(StoreError) as told:
        await room.service.send(chat, None, "x" * 20000)
    assert told.value.problem == problem and str(told.value).count("\n") == 0
    assert "Error" not in str(told.value)
    assert room.count() == before


async def marked_then_saved(room: ChatRoom, reply: str, mend: Any) -> None:
    """The reply says that it is not saved, and is saved once ``mend`` was called."""
    room.engine.gate.set()
    marked = await room.end_of(reply)
    assert "Not saved yet" in (marked["error"] or "") and marked["content"] == TEXT
    mend()
    await room.until(lambda: room.last_view(reply)["error"] is None)
    stored = room.store.message(reply)
    assert (stored.content, stored.status, stored.error) == (TEXT, "done", None)


def test_a_disk_that_fills_up_costs_nothing_once_there_is_room(small_disk: SmallDisk) -> None:
    path = small_disk.folder / "sessions.db"

    async def story() -> None:
        async with ChatRoom(path, FakeEngineClient([TEXT], info=ROOMY)) as room:
            chat, reply = await running(room)
            small_disk.fill(room)
            await refused(room, chat, "full")
            await marked_then_saved(room, reply, lambda: small_disk.empty(room))
            await room.ask(chat, "and on", reply)

    play(story())
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert TEXT in {one[2] for one in texts(path).values()}


def test_a_start_on_a_full_disk_is_one_sentence_and_costs_nothing(small_disk: SmallDisk) -> None:
    path = small_disk.folder / "sessions.db"
    SessionStore(path).close()
    if not small_disk.real:
        return
    content = path.read_bytes()
    small_disk.fill(None)  # type: ignore[arg-type]
    with pytest.raises(StoreError) as told:
        SessionStore(path).create_session(None, {}, None)
    assert told.value.problem == "full"
    assert path.read_bytes() == content


def test_a_database_that_becomes_read_only_is_told_and_saved_later(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def story() -> None:
        async with ChatRoom(path, FakeEngineClient([TEXT], info=ROOMY)) as room:
            chat, reply = await running(room)
            raw(room).execute("PRAGMA query_only = ON")
            await refused(room, chat, "readonly")
            await marked_then_saved(room, reply, lambda: raw(room).execute("PRAGMA query_only = OFF"))

    play(story())
    assert [one[2] for one in texts(path).values()] == ["q", TEXT]


class Faulty:
    """A connection on which writing fails for a while, as on a disk that answers with errors.

    Attributes:
        broken: whether it does now.
    """

    def __init__(self, connection: sqlite3.Connection, at: str) -> None:
        self._connection, self._at = connection, at
        self.broken = True

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if self.broken and sql.lstrip().startswith(self._at):
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
            raise error
        return self._connection.execute(sql, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.mark.parametrize("at", ["BEGIN IMMEDIATE", "INSERT", "UPDATE", "COMMIT"])
def test_a_disk_that_answers_with_errors_costs_nothing_once_it_is_well(tmp_path: Path, at: str) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient([TEXT], info=ROOMY)) as room:
            chat, reply = await running(room)
            faulty = Faulty(raw(room), at)
            room.store._writer._raw = faulty  # type: ignore[assignment]
            await refused(room, chat, "other")

            def mend() -> None:
                faulty.broken = False

            if at == "INSERT":
                mend()
                room.engine.gate.set()
                assert (await room.end_of(reply))["error"] is None
            else:
                await marked_then_saved(room, reply, mend)
            assert not faulty.in_transaction

    play(story())


def test_a_lock_that_outlasts_the_patience_is_told_and_the_reply_saved_after_it(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient([TEXT], info=ROOMY)
        async with ChatRoom(tmp_path / "s.db", engine, busy_timeout_s=0.05) as room:
            chat, reply = await running(room)
            with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                await refused(room, chat, "busy")
                assert [one["id"] for one in await room.service.list_sessions()] == [chat]
                await marked_then_saved(room, reply, lambda: other.execute("ROLLBACK"))

    play(story())


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_two_processes_on_one_database_lose_and_mix_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    def write(name: str) -> None:
        store = SessionStore(path)
        chat = store.create_session(None, {}, None)
        store.change_session(chat.id, title=name)
        for number in range(15):
            _, _, reply = store.add_question(chat.id, None, f"{name} {number}")
            store.save_partial(reply.id, "par")
            store.finish_reply(reply.id, f"{name} {number}!", "done")
        store.close()

    children = [start_fork(lambda name=name: write(name)) for name in ("one", "two", "three")]
    assert [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children] == [0] * 3
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    found = sorted(one[2] for one in texts(path).values())
    assert found == sorted(f"{n} {i}{end}" for n in ("one", "two", "three") for i in range(15) for end in ("", "!"))
    store = SessionStore(path)
    assert sorted(str(one.title) for one in store.sessions()) == ["one", "three", "two"]
    store.close()


def test_a_file_cut_short_under_a_running_store_is_told_and_salvaged(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def story() -> None:
        async with ChatRoom(path, FakeEngineClient(["x" * 3000], info=ROOMY)) as room:
            chats = [await room.new(params={"max_tokens": 5000}) for _ in range(8)]
            for one in chats:
                await room.ask(one, "q" * 3000)
            raw(room).execute("PRAGMA wal_checkpoint(TRUNCATE)")
            os.truncate(path, path.stat().st_size // 2)
            raw(room).execute("PRAGMA shrink_memory")
            problems = set()
            for one in chats:
                try:
                    await room.service.open(one)
                    await room.service.send(one, None, "more")
                except PagedChatError as error:
                    problems.add(getattr(error, "problem", None))
            assert problems <= {"damaged", "other"} and problems

    play(story())
    with pytest.raises(StoreError, match="damaged"):
        SessionStore(path)
    report, aside = restore_salvaged(path)
    assert report.chats and aside is not None
    SessionStore(path).close()


ODD = {
    "half a character": ("a\ud800b", "a\ufffdb"),
    "nul": ("before\x00after", "before\x00after"),
    "one line of 1 MB": ("ž" * (1 << 19), "ž" * (1 << 19)),
    "right to left": ("שלום \u202eevil\u202c مرحبا", "שלום \u202eevil\u202c مرحبا"),
    "newlines": ("\r\n\x0b\x0c\x85\u2028\u2029", None),
    "joined": ("👨‍👩‍👧‍👦 e\u0301 ﷽ \U000e0041", "👨‍👩‍👧‍👦 e\u0301 ﷽ \U000e0041"),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_texts_are_the_same_in_events_store_and_after_a_new_start(tmp_path: Path, kind: str) -> None:
    sent_text, kept = ODD[kind][0], ODD[kind][1]

    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["ok"], info=ROOMY)) as room:
            chat = await room.new()
            if kept is None:
                with pytest.raises(PagedChatError, match="empty"):
                    await room.service.send(chat, None, sent_text)
                return
            sent = await room.service.send(chat, None, sent_text)
            await room.end_of(sent["reply"]["id"])
            edited = await room.service.edit(sent["reply"]["id"], sent_text)
            named = await room.service.rename(chat, sent_text)
            assert sent["user"]["content"] == edited["message"]["content"] == kept
            assert len(named["title"]) <= 200 and "\n" not in named["title"]
        async with ChatRoom(tmp_path / "s.db") as room:
            assert await room.texts(chat) == [kept, kept]
            (listed,) = await room.service.list_sessions()
            assert listed["title"] == named["title"] == " ".join(kept.split())[:200]
            copy = room.store.backup()
        assert sorted(one[2] for one in texts(copy).values()) == sorted([kept, kept, "ok"])

    play(story())


def test_a_foreign_lock_holds_up_no_reading_and_no_backup(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "s.db")
    chat = store.create_session(None, {}, None)
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        for call in (store.sessions, store.backup, lambda: store.shown_branch(chat.id)):
            call()  # what waits for the lock would be refused in the end
        release = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
        release.start()
        store.add_question(chat.id, None, "waits")
        assert release.finished.is_set()
        release.join()
    store.close()
