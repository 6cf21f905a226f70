"""A program that is killed while messages wait and are sent: none is lost, none is sent twice."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient
from support.forked import kill, start_fork


def live(path: Path, pipe: int) -> None:
    """Let messages wait for ever shorter replies, and tell each one that is safe through a pipe."""

    async def story() -> None:
        engine = FakeEngineClient(["A few words."], delay_s=0.001)
        async with ChatRoom(path, engine) as room:
            session = await room.new()
            last = (await room.service.send(session, None, "begin"))["reply"]["id"]
            os.write(pipe, b"begin\n")
            for number in range(10_000):
                await room.service.queue.add(session, last, f"message {number}")
                os.write(pipe, f"message {number}\n".encode())
                await asyncio.sleep(0.004)
                while len(waits := await room.service.queue.view(session)) > 10:  # replies keep up as they can
                    await asyncio.sleep(0.004)
                last = waits[-1]["after_id"] if waits else (await room.shown(session))[-1]["id"]

    play(story())


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_kill_at_any_moment_loses_no_waiting_message_and_sends_none_twice(tmp_path: Path) -> None:
    sent_before = 0
    for trial in range(int(os.environ.get("PAGEDCHAT_TRIALS", "3"))):
        path = tmp_path / f"{trial}.db"
        reading, writing = os.pipe()
        child = start_fork(lambda path=path, pipe=writing: live(path, pipe))
        os.close(writing)
        told = os.fdopen(reading, "rb")
        assert told.readline() == b"begin\n"
        time.sleep(0.05 + 0.25 * random.Random(trial).random())
        assert kill(child) < 0
        safe = [line.decode().strip() for line in told if line.endswith(b"\n")]
        told.close()

        async def story(path: Path = path, safe: list[str] = safe) -> int:
            async with ChatRoom(path) as room:
                (session,) = await room.service.list_sessions()
                sent = [one["content"] for one in await room.shown(session["id"]) if one["role"] == "user"]
                held = await room.service.queue.view(session["id"])
                assert all(one["held"] for one in held)
                found = Counter([*sent, *(one["text"] for one in held)])
                assert set(safe) <= set(found)
                assert set(found.values()) == {1}
                return len(sent) - 1

        sent_before += play(story())
    assert sent_before > 0, "the kills came before anything was sent"
