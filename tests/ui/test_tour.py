"""What the panel's tour and menu ask of the engine."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from pagedchat.ui import calls
from pagedchat.ui.connection import Connection
from pagedchat.ui.hub import Hub
from pagedchat.ui.tour_calls import stamped_messages
from pagedchat.ui.tour_trial import MOST_REPLIES, REPLY_TOKENS, BlocksInUse
from support.chat_room import ChatRoom
from support.paged_client import PagedFakeClient


def test_a_line_goes_before_all_that_a_prompt_has() -> None:
    system = {"role": "system", "content": "Be brief.", "token_ids": [1, 2]}
    asked = {"role": "user", "content": "Hello", "token_ids": [3]}
    reply = {"role": "assistant", "content": "Hi", "token_ids": [4], "kept_from": 2}
    first, *rest = stamped_messages([system, asked, reply], "It is noon.", "Be kind.")
    assert first == {"role": "system", "content": "It is noon.\nBe brief.", "token_ids": None}
    assert rest == [asked, reply]
    first, *rest = stamped_messages([asked, reply], "It is noon.", "Be kind.")
    assert first["content"] == "It is noon.\nBe kind."
    assert rest == [asked, {**reply, "kept_from": 3}], "the messages stand one place later"
    assert stamped_messages([], "It is noon.", "")[0]["content"] == "It is noon."


class Told:
    """A client that tells events while its answer about the pool is on the way."""

    def watch_events(self, callback: Any) -> Any:
        self.tell = callback
        return lambda: None

    async def brief(self) -> dict[str, Any]:
        self.tell([{"seq": 4, "blocks": [7], "states": "a"}, {"seq": 6, "blocks": [1, 2], "states": "as"}])
        return {"seq": 5, "held": [[0, 1, 1, []], [7, 2, 2, [0]]]}


def test_the_most_blocks_in_use_are_counted_from_a_snapshot_and_the_events_after_it() -> None:
    async def story() -> None:
        client = Told()
        async with BlocksInUse(client) as blocks:  # 0, 8 and 9 are held, then 1 and 2, too
            assert blocks.peak == 5, "the event before the answer is in it already"
            client.tell([{"seq": 7, "blocks": [9, 1], "states": "cf"}, {"seq": 8, "blocks": [3, 8], "states": "aa"}])
            assert blocks.peak == 5
            client.tell([{"seq": 9, "blocks": [4, 5, 5], "states": "aac"}, {"seq": 10, "blocks": [6], "states": "a"}])
        assert blocks.peak == 6

    asyncio.run(story())


def test_one_page_measures_at_a_time_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db", PagedFakeClient()) as room:
            connection = Connection(Hub(room.service, room.engine), lambda data: asyncio.sleep(0))
            session = await room.new()
            reply = await room.ask(session, "What is measured?")
            frame = {"id": 1, "op": "tour_speed", "session": session, "parent": reply["id"]}
            first, second = await asyncio.gather(calls.answer(connection, frame), calls.answer(connection, frame))
            assert first["ok"]["alone"]["tokens"] == first["ok"]["together"]["tokens"] > 0
            assert "Another page measures" in second["error"]
            asked = room.engine.requests[-1]
            assert not asked.keep and asked.request_id.startswith("own:") and not asked.labels
            assert (await calls.answer(connection, frame))["ok"]["replies"] == 4
            assert len((await room.service.open(session))["messages"]) == 2

    asyncio.run(story())


def test_forgetting_tells_how_many_blocks_there_were_and_is_refused_while_a_reply_runs(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db", PagedFakeClient()) as room:
            connection = Connection(Hub(room.service, room.engine), lambda data: asyncio.sleep(0))
            session = await room.new()
            await room.ask(session, "Something to forget, of some blocks")
            held = (await room.engine.snapshot())["cached"]
            room.engine.gate = asyncio.Event()
            sent = await room.service.send(session, None, "Still running")
            while not (await room.engine.snapshot())["active"]:
                await asyncio.sleep(0)
            refused = await calls.answer(connection, {"id": 1, "op": "kv_forget"})
            assert refused["error"].endswith(".") and (await room.engine.snapshot())["cached"]
            room.engine.gate.set()
            await room.end_of(sent["reply"]["id"])
            forgotten = await calls.answer(connection, {"id": 2, "op": "kv_forget"})
            assert forgotten["ok"]["blocks"] >= held > 0
            assert (await room.engine.snapshot())["cached"] == 0

    asyncio.run(story())


def test_the_page_about_the_panel_names_its_tabs_its_menu_and_the_stops_of_its_tour() -> None:
    root = Path(__file__).resolve().parents[2]
    page = " ".join((root / "docs" / "kv-panel.md").read_text(encoding="utf-8").split())
    script = {one.name: one.read_text(encoding="utf-8") for one in (root / "ui" / "static").glob("*.js")}
    stops = re.findall(r'id: "\w+", title: "([^"]+)"', script["tour_stops.js"])
    tabs = re.findall(r'id: "\w+", title: "(\w+)", element', script["panel.js"])
    entries = [
        entry
        for name in ("panel_menu.js", "panel_summary.js", "recording_files.js", "tour.js")
        for entry in re.findall(r'\{ words: "([^"]+)", icon', script[name])
    ]
    assert len(stops) == 6 and len(tabs) == 5 and len(entries) >= 8
    assert [one for one in stops if f"| {one} |" not in page] == []
    assert [one for one in tabs if f"- **{one}**" not in page] == []
    assert [one for one in entries if f"`{one}`" not in page] == []
    assert MOST_REPLIES == 4 and f"four replies of {REPLY_TOKENS} tokens" in page
