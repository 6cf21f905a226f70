"""What a token costs on its way to a page: the same however long the chat and the reply are."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pagedchat.ui.connection import WINDOW
from pagedchat.ui.hub import Hub
from pagedchat.ui.views import blocks_of, render_ahead
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient
from support.fake_page import FakePage
from support.long_chat import add_long_chat
from support.paged_client import PagedFakeClient

REPLY = "Some words of a reply that goes on. " * 12
INFO = {"max_model_len": 2_048, "num_blocks": 256}


async def traffic(room: ChatRoom, session: str, num_shown: int) -> dict[str, list[int]]:
    """Sizes in bytes of the frames of each kind while a reply is written in a chat of which so much is shown."""
    page = FakePage(Hub(room.service, room.engine))
    await page.call("open", session=session)
    while len(page.ids) < num_shown:
        more = min(num_shown, len(page.ids) + WINDOW)
        await page.call("older")
        await page.until(lambda more=more: len(page.ids) >= more)
    await page.call("kv", on=True)
    await page.until(lambda: "kv-table" in page.sizes)
    page.sizes.clear()
    again = await page.call("regenerate", message=page.ids[-1])
    await room.end_of(again["reply"])
    await page.until(lambda: page.blocks.get(again["reply"]) == list(blocks_of(REPLY)))
    assert len(page.ids) == num_shown
    return page.sizes


def test_b48_bytes_for_each_token_do_not_depend_on_the_history(tmp_path: Path) -> None:
    """How many frames there are depends on the machine's speed, what stands in one on the reply alone."""

    async def story() -> None:
        path = tmp_path / "s.db"
        short, long = add_long_chat(path, 10), add_long_chat(path, 1_500)
        client = PagedFakeClient([REPLY], delay_s=0.0005, info=INFO, num_blocks=INFO["num_blocks"])
        async with ChatRoom(path, client) as room:
            few, many = await traffic(room, short, 10), await traffic(room, long, 1_500)
            assert sum(many["patch"]) < 2 * len(REPLY) + 250 * len(many["patch"])
            for kind in few.keys() & many.keys():
                assert max(many[kind]) < 1.5 * max(few[kind]) + 1_000, kind

    play(story())


def test_b48_a_chat_of_30_megabytes_is_opened_as_a_small_one(tmp_path: Path) -> None:
    """What a page is sent is what it shows first; what is above that is neither read for it nor sent."""

    async def story() -> None:
        path, costs = tmp_path / "s.db", []
        chats = add_long_chat(path, WINDOW), add_long_chat(path, 1_500)
        async with ChatRoom(path) as room:
            fatten(path, chats[1], 22_000)
            for session in chats:
                page = FakePage(Hub(room.service, room.engine))
                costs.append(len(json.dumps(await page.call("open", session=session))))
                assert len(page.ids) == WINDOW
            assert costs[1] < 1.5 * costs[0]

    play(story())


def fatten(path: Path, session: str, characters: int) -> None:
    """Make a chat's messages larger by so much each, but for the last ones, which a page is shown first."""
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT id FROM messages WHERE session_id = ? ORDER BY rowid", [session]).fetchall()
        more = "word " * (characters // 5)
        query = "UPDATE messages SET content = content || ? WHERE id = ?"
        connection.executemany(query, [(more, row[0]) for row in rows[:-WINDOW]])
        size = connection.execute("SELECT sum(length(content)) FROM messages").fetchone()[0]
    assert size > 30e6


def test_a_reply_that_ends_is_not_sent_again(tmp_path: Path) -> None:
    text = "# Title\n\n" + "A paragraph of the reply, with *some* words.\n\n" * 16

    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient([text], delay_s=0.0002)) as room:
            page = FakePage(Hub(room.service, room.engine))
            session = await room.new()
            await page.call("open", session=session)
            sent = await page.call("send", session=session, parent=None, text="hi")
            await room.end_of(sent["reply"])
            await page.until(lambda: any("content" in one.get("message", {}) for one in page.frames))
            await page.until(lambda: page.blocks[sent["reply"]] == list(blocks_of(text)))
            ends = [one["message"] for one in page.frames if one.get("message", {}).get("status") == "done"]
            assert ends and all("blocks" not in one and one["content"] == text for one in ends)

    play(story())


def test_many_replies_are_rendered_with_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pagedchat.ui.views.LONGEST_AT_ONCE_S", 0.0)

    async def story() -> None:
        path = tmp_path / "s.db"
        session = add_long_chat(path, 300, seed=7)
        async with ChatRoom(path) as room:
            turns = 0

            async def others() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            page, company = FakePage(Hub(room.service, room.engine)), asyncio.create_task(others())
            opened = await page.call("open", session=session)
            company.cancel()
            assert (len(opened["ids"]), opened["earlier"]) == (WINDOW, 300 - WINDOW)
            assert turns >= WINDOW // 2
            shown: list[dict[str, Any]] = [one for one in opened["messages"] if one["role"] == "assistant"]
            assert all(one["blocks"] == list(blocks_of(one["content"])) for one in shown)
            monkeypatch.undo()
            assert not await render_ahead(opened["messages"]), "what is known is not rendered again"

    play(story())
