"""The page's calls about tokens and summaries, and what a page is told of a summary."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pagedchat.sessions.turns import INTERRUPTED
from pagedchat.ui import calls
from pagedchat.ui.connection import Connection
from pagedchat.ui.hub import Hub
from support.chat_room import ChatRoom
from support.fake_client import FakeEngineClient


async def asked(connection: Connection, op: str, **fields: Any) -> Any:
    answer = await calls.answer(connection, {"id": 1, "op": op, **fields})
    assert "error" not in answer, answer
    return answer["ok"]


def test_a_page_looks_into_a_reply_branches_it_and_sums_the_chat_up(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db", FakeEngineClient(["Well. ", "more", "In short."])) as room:
            connection = Connection(Hub(room.service, room.engine), lambda data: asyncio.sleep(0))
            session = await room.new()
            reply = await room.ask(session, "Hello")
            found = await asked(connection, "tokens", message=reply["id"])
            assert found["tokens"] == 7 and [one["text"] for one in found["pieces"]] == [*"Well. ", "<end>"]
            look = await asked(connection, "alternatives", message=reply["id"], index=1, count=3)
            assert len(look["alternatives"]) == 3 and look["taken"]["text"] == "e"
            token = look["alternatives"][2]["id"]
            room.engine._served = 1
            made = await asked(connection, "branch_at", message=reply["id"], index=1, token=token)
            assert (await room.end_of(made["reply"]))["content"] == f"W{chr(token)}more"
            made = await asked(connection, "compact", session=session)
            done = await room.end_of(made["reply"])
            assert (done["content"], done["kind"]) == ("In short.", "summary")
            refused = await calls.answer(connection, {"id": 2, "op": "compact", "session": session})
            assert "Nothing follows the last summary" in refused["error"]

    asyncio.run(story())


def test_a_page_hears_how_far_a_reproduction_is_and_ends_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db", FakeEngineClient(["Well. " * 20])) as room:
            connection = Connection(Hub(room.service, room.engine), lambda data: asyncio.sleep(0))
            reply = await room.ask(await room.new(), "Hello")
            room.engine.delay_s = 0.004
            running = asyncio.create_task(asked(connection, "reproduce", message=reply["id"]))
            await room.until(lambda: sum(one.get("ev") == "reproducing" for one in connection._out) > 2)
            told = [one["tokens"] for one in connection._out if one.get("ev") == "reproducing"]
            assert told == sorted(told) and told[0] >= 1
            await asked(connection, "stop_reproducing")
            assert await running is None
            assert (await room.engine.stats())["running"] == 0, "nothing is computed that nobody waits for"
            room.engine.delay_s = 0.0
            assert (await asked(connection, "reproduce", message=reply["id"]))["same"] is True

    asyncio.run(story())


def test_a_summary_that_a_killed_process_left_half_written_is_gone_at_the_next_start(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db", FakeEngineClient(["Well."])) as room:
            session = await room.new()
            reply = await room.ask(session, "Hello")
            _, half = room.store.add_summary(session, None)
            room.store.save_partial(half.id, "In sho")
            assert room.store.interrupt_running() == 1
            shown = await room.shown(session)
            assert shown[-1]["id"] == reply["id"]
            left = room.store.message(half.id)
            assert left.hidden and left.error == INTERRUPTED and left.content == "In sho"

    asyncio.run(story())
