"""What a killed process leaves behind."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pagedchat.sessions.errors import StoreError, explained
from pagedchat.sessions.store import SessionStore
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient

CHILD = """
import asyncio, sys
sys.path.insert(0, sys.argv[2])
from support.chat_room import ChatRoom
from support.fake_client import FakeEngineClient

async def main():
    engine = FakeEngineClient(["0123456789" * 10000], delay_s=0.001)
    async with ChatRoom(sys.argv[1], engine) as room:
        session_id = await room.new(params={"max_tokens": 1000000})
        sent = await room.service.send(session_id, None, "is this kept?")
        print("sent", sent["reply"]["id"], flush=True)
        room.service.subscribe(lambda one: one["type"] == "delta" and print(one["offset"] + 1, flush=True))
        await asyncio.sleep(60)

asyncio.run(main())
"""


def killed(path: Path, after_s: float) -> tuple[str, list[tuple[float, int]], float]:
    """Kill a process that writes a reply: (reply id, (moment, characters shown), moment of the kill)."""
    support = str(Path(__file__).parents[1])
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(path), support], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        reply_id = process.stdout.readline().split()[1]
        begun, shown = time.monotonic(), []
        while time.monotonic() - begun < after_s:
            shown.append((time.monotonic(), int(process.stdout.readline())))
        moment = time.monotonic()
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    return reply_id, shown, moment


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_killed_process_loses_at_most_the_last_moment_of_a_reply(tmp_path: Path) -> None:
    for trial in range(int(os.environ.get("PAGEDCHAT_TRIALS", "3"))):
        path = tmp_path / f"{trial}.db"
        reply_id, shown, moment = killed(path, 0.3 + random.Random(trial).random())
        check = sqlite3.connect(path)
        assert check.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        check.close()
        must_have = max((length for at, length in shown if at < moment - 0.3), default=0)

        async def story(path: Path = path, reply_id: str = reply_id, must_have: int = must_have) -> None:
            async with ChatRoom(path) as room:
                (session,) = await room.service.list_sessions()
                question, reply = await room.shown(session["id"])
                assert question["content"] == "is this kept?"
                assert (reply["id"], reply["status"]) == (reply_id, "interrupted")
                assert "cut off" in reply["error"]
                assert len(reply["content"]) >= must_have > 0
                assert ("0123456789" * 10000).startswith(reply["content"])
                tokens = await room.service.branch_tokens(session["id"])
                assert bytes(tokens[-len(reply["content"]) :]).decode() == reply["content"]
                await room.service.continue_reply(reply["id"])
                assert (await room.end_of(reply["id"]))["status"] == "done"

        play(story())


def test_a_process_killed_before_the_first_token_leaves_the_question_and_no_empty_turn(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SessionStore(path)
    session = store.create_session(None, {}, None)
    _, question, first = store.add_question(session.id, None, "q")
    store.finish_reply(first.id, "one", "done")
    other = store.create_session(None, {}, None)
    _, lonely, _ = store.add_question(other.id, None, "never answered")
    store.add_reply(first.id)
    assert store.interrupt_running() == 2
    assert [one.id for one in store.shown_branch(session.id)[1]] == [question.id, first.id]
    assert [one.id for one in store.shown_branch(other.id)[1]] == [lonely.id]
    assert store.interrupt_running() == 0
    store.close()


def test_what_was_sent_or_finished_waits_for_the_disk_and_partials_do_not(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "s.db")
    session = store.create_session(None, {}, None)
    levels: list[str] = []
    store._writer._raw.set_trace_callback(lambda sql: levels.append(sql) if "synchronous" in sql else None)
    full, normal = "PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL"
    _, _, reply = store.add_question(session.id, None, "q")
    assert store._writer._raw.execute("PRAGMA synchronous").fetchone()[0] == 2
    levels.clear()
    store.save_partial(reply.id, "par")
    store.finish_reply(reply.id, "partial", "done")
    store.save_partial(reply.id, "par")
    store.add_edit(reply.id, "edited")
    assert levels == [normal, full, normal, full]
    assert store.message(reply.id).content == "partial"
    store.close()


@pytest.mark.parametrize(("free", "problem"), [(4096, "full"), (1 << 30, "other")])
def test_an_io_error_on_a_full_disk_is_called_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, problem: str
) -> None:
    class IoError(sqlite3.OperationalError):
        sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE

    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    with pytest.raises(StoreError) as told, explained(tmp_path / "s.db"):
        raise IoError("disk I/O error")
    assert told.value.problem == problem


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_a_reply_that_meets_a_limit_on_file_sizes_is_told_and_saved_once_that_is_lifted(tmp_path: Path) -> None:
    import resource

    async def story() -> None:
        engine = FakeEngineClient(["0123456789" * 100], delay_s=0.001)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "q")
            reply_id = sent["reply"]["id"]
            await room.begun(reply_id)
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            size = (tmp_path / "s.db-wal").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
            try:
                marked = await room.end_of(reply_id)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert "Not saved yet" in marked["error"] and marked["content"] == "0123456789" * 100
            await room.until(lambda: room.last_view(reply_id)["error"] is None)
            assert room.store.message(reply_id).content == "0123456789" * 100

    play(story())
