"""A deleted chat leaves the engine's cache at once, and the engine never holds a deletion up."""

from __future__ import annotations

import asyncio
import time

import pytest

from pagedchat.engine.errors import EngineError
from pagedchat.sessions import cache_forgetting
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient
from support.paged_client import PagedFakeClient


def test_a_deleted_chat_is_no_longer_cached_and_another_finds_what_it_found(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "s.db", PagedFakeClient(["An answer of some length."])) as room:
            mine, other = (
                await room.new(system_prompt="Be kind to all."),
                await room.new(system_prompt="Be kind to all."),
            )
            for text in ("My secret question?", "And another one?"):
                await room.ask(mine, text, (await room.shown(mine))[-1]["id"] if await room.shown(mine) else None)
            reply = await room.ask(other, "Something else.")
            found = await room.engine.probe(await room.service.branch_tokens(other, reply["id"]))
            cached = (await room.engine.snapshot())["cached"]
            ids = await room.service.branch_tokens(mine)
            await room.service.delete(mine)
            after = await room.engine.snapshot()
            assert after["cached"] < cached and after["conserved"]
            assert (await room.engine.probe(ids))["cached_tokens"] < 40
            assert await room.engine.probe(await room.service.branch_tokens(other, reply["id"])) == found
            assert mine not in str(await room.engine.events_since(0))
            await room.service.undelete(mine)
            assert (await room.ask(mine, "Once more?", (await room.shown(mine))[-1]["id"]))["status"] == "done"

    play(story())


def test_a_running_reply_is_stopped_and_then_forgotten(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "s.db", PagedFakeClient(["word " * 200], delay_s=0.001)) as room:
            session = await room.new()
            reply = (await room.service.send(session, None, "A question of some length, please."))["reply"]
            await room.begun(reply["id"], 8)
            await room.service.delete(session)
            snapshot = await room.engine.snapshot()
            assert snapshot["free"] == snapshot["num_blocks"]

    play(story())


class BusyClient(FakeEngineClient):
    """An engine that does not answer now."""

    async def forget(self, session: str) -> dict[str, int]:
        await asyncio.sleep(60)
        return {"blocks": 0}


def test_a_deletion_does_not_wait_for_a_busy_engine(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_forgetting, "WAIT_S", 0.05)

    async def story():
        async with ChatRoom(tmp_path / "s.db", BusyClient()) as room:
            session = await room.new()
            began = time.monotonic()
            assert (await room.service.delete(session))["deleted_at"]
            assert await room.service.library.purge([session]) == 1
            assert time.monotonic() - began < 5

    play(story())


class StumblingClient(FakeEngineClient):
    """An engine that fails to answer twice."""

    fails = 2

    async def forget(self, session: str) -> dict[str, int]:
        if self.fails:
            self.fails -= 1
            raise EngineError("The engine has too much to do.")
        return await super().forget(session)


def test_what_failed_is_asked_for_again(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_forgetting, "RETRY_S", 0.01)

    async def story():
        async with ChatRoom(tmp_path / "s.db", StumblingClient()) as room:
            session = await room.new()
            await room.service.delete(session)
            await room.until(lambda: room.engine.forgotten)
            assert room.engine.forgotten == [session]

    play(story())


@pytest.mark.parametrize("state", ["loading", "failed", "restarting"])
def test_an_engine_that_is_not_there_has_nothing_to_forget(tmp_path, state):
    async def story():
        async with ChatRoom(tmp_path / "s.db") as room:
            session = await room.new()
            room.engine.set_status(state)
            await room.service.delete(session)
            assert room.engine.forgotten == []

    play(story())
