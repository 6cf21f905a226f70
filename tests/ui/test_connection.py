"""What travels to a page: little, in order, and enough to show exactly what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pagedchat.engine.errors import RequestError
from pagedchat.ui.hub import Hub
from pagedchat.ui.markdown import render_blocks
from pagedchat.ui.shown_part import WINDOW
from pagedchat.ui.views import patch
from support.chat_room import ChatRoom
from support.fake_client import FakeEngineClient
from support.fake_page import FakePage, unpacked_rows, utf16_prefix
from support.long_chat import add_long_chat
from support.paged_client import PagedFakeClient

TEXT = "# Title\n\nSome *text* and `code` 😀 …\n\n- one\n- two\n\n```python\nx = 1\n```\n\nThe end, with \\(x^2\\)."


def with_room(tmp_path: Path, client: FakeEngineClient, story: Callable[[ChatRoom, Hub], Awaitable[None]]) -> None:
    async def run() -> None:
        async with ChatRoom(tmp_path / "sessions.db", client) as room:
            await story(room, Hub(room.service, room.engine))

    asyncio.run(run())


def test_a_reply_arrives_whole_in_patches(tmp_path: Path) -> None:
    async def story(room: ChatRoom, hub: Hub) -> None:
        page, other = FakePage(hub), FakePage(hub)
        session = await room.new()
        for one in (page, other):
            await one.call("open", session=session)
        sent = await page.call("send", session=session, parent=None, text="hi")
        await room.end_of(sent["reply"])
        expected = [block.html for block in render_blocks(TEXT)]
        for one in (page, other):
            await one.until(lambda one=one: one.blocks.get(sent["reply"]) == expected)
            assert one.ids == [sent["user"], sent["reply"]]
            assert len(one.sizes["patch"]) >= 3
            assert max(one.sizes["patch"]) < 700

    with_room(tmp_path, FakeEngineClient([TEXT], delay_s=0.004), story)


def test_a_page_that_opens_in_the_middle_has_everything(tmp_path: Path) -> None:
    async def story(room: ChatRoom, hub: Hub) -> None:
        session = await room.new()
        sent = await room.service.send(session, None, "hi")
        await asyncio.sleep(0.1)
        page = FakePage(hub)
        await page.call("open", session=session)
        reply = sent["reply"]["id"]
        assert page.blocks[reply], "what was written before must be there at once"
        await room.end_of(reply)
        await page.until(lambda: page.blocks[reply] == [block.html for block in render_blocks(TEXT)])

    with_room(tmp_path, FakeEngineClient([TEXT], delay_s=0.004), story)


def test_a_chat_whose_queue_is_slow_to_read_opens_with_all_that_was_written_meanwhile(tmp_path: Path) -> None:
    async def story(room: ChatRoom, hub: Hub) -> None:
        session, queue = await room.new(), room.service.queue
        sent = await room.service.send(session, None, "hi")
        reply = sent["reply"]["id"]
        await queue.add(session, reply, "And then?")
        view = queue.view

        async def slow_view(session_id: str) -> list[dict[str, Any]]:
            found = await view(session_id)
            queue.view = view  # type: ignore[method-assign]
            await asyncio.sleep(0.1)
            await queue.add(session, reply, "And after that?")
            await asyncio.sleep(0.1)
            return found

        queue.view = slow_view  # type: ignore[method-assign]
        page = FakePage(hub)
        opened = await page.call("open", session=session)
        assert [one["text"] for one in opened["queue"]][:2] == ["And then?", "And after that?"]
        await room.end_of(reply)
        await page.until(lambda: page.blocks[reply] == [block.html for block in render_blocks(TEXT * 3)])

    with_room(tmp_path, FakeEngineClient([TEXT * 3, "Later."], delay_s=0.004), story)


def test_a_page_that_is_slow_to_read_gets_fewer_frames_and_no_backlog(tmp_path: Path) -> None:
    long = "word " * 190

    async def story(room: ChatRoom, hub: Hub) -> None:
        page = FakePage(hub)
        session = await room.new()
        await page.call("open", session=session)
        sent = await page.call("send", session=session, parent=None, text="hi")
        await page.until(lambda: page.sizes.get("patch"))
        page.hold.clear()
        before = len(page.frames)
        await room.end_of(sent["reply"])
        page.hold.set()
        await page.until(lambda: page.blocks[sent["reply"]] == [f"<p>{long.strip()}</p>\n"])
        assert len(page.frames) - before < 12

    with_room(tmp_path, FakeEngineClient([long], delay_s=0.0005), story)


def test_a_new_turn_sends_only_what_is_new(tmp_path: Path) -> None:
    async def story(room: ChatRoom, hub: Hub) -> None:
        page = FakePage(hub)
        session = await room.new()
        await page.call("open", session=session)
        parent = None
        for number in range(40):
            parent = (await room.ask(session, f"question {number}", parent))["id"]
        await page.until(lambda: len(page.ids) == 80)
        page.frames.clear()
        sent = await page.call("send", session=session, parent=parent, text="one more")
        await room.end_of(sent["reply"])
        await page.until(lambda: any(frame.get("ev") == "path" for frame in page.frames))
        views = [view["id"] for frame in page.frames if frame.get("ev") == "path" for view in frame["messages"]]
        assert set(views) <= {sent["user"], sent["reply"]}

    with_room(tmp_path, FakeEngineClient(["fine"]), story)


def test_a_long_branch_comes_in_parts(tmp_path: Path) -> None:
    async def story(room: ChatRoom, hub: Hub) -> None:
        session = await room.new()
        parent = None
        for number in range(80):
            parent = (await room.ask(session, f"question {number}", parent))["id"]
        page = FakePage(hub)
        opened = await page.call("open", session=session)
        assert (len(opened["ids"]), opened["earlier"]) == (120, 40)
        assert opened["ids"][-1] == parent
        await page.call("older")
        await page.until(lambda: len(page.ids) == 160)
        sent = await page.call("send", session=session, parent=parent, text="and another")
        await page.until(lambda: page.ids[-1] == sent["reply"])
        assert len(page.ids) == 162

    with_room(tmp_path, FakeEngineClient(["fine"]), story)


def test_who_sends_a_message_sees_the_last_ones_alone_again(tmp_path: Path) -> None:
    session = add_long_chat(tmp_path / "sessions.db", 300)

    async def story(room: ChatRoom, hub: Hub) -> None:
        page = FakePage(hub)
        await page.call("open", session=session)
        for shown in (240, 300):
            await page.call("older")
            await page.until(lambda shown=shown: len(page.ids) == shown)
        sent = await page.call("send", session=session, parent=page.ids[-1], text="and another")
        await page.until(lambda: page.ids[-1] == sent["reply"])
        assert len(page.ids) == WINDOW

    with_room(tmp_path, FakeEngineClient(["fine"]), story)


def test_without_pages_nothing_is_followed(tmp_path: Path) -> None:
    async def story(room: ChatRoom, hub: Hub) -> None:
        others = len(room.service.core.followers._callbacks)
        page = FakePage(hub)
        session = await room.new()
        await page.call("open", session=session)
        await page.call("kv", on=True)
        assert len(room.engine._event_watchers) == 1
        page.leave(hub)
        assert room.engine._event_watchers == []
        assert len(room.service.core.followers._callbacks) == others
        await room.ask(session, "nobody looks")
        assert hub._replies == {} and hub._timer is None

    with_room(tmp_path, FakeEngineClient(["fine"]), story)


def test_faults_of_the_user_come_back_as_a_sentence(tmp_path: Path) -> None:
    async def story(room: ChatRoom, hub: Hub) -> None:
        page = FakePage(hub)
        with pytest.raises(RequestError, match="older than the server"):
            await page.call("no such call")
        with pytest.raises(RequestError, match="not understood"):
            await page.call("send")
        with pytest.raises(RequestError, match="does not exist"):
            await page.call("open", session="nothing")
        session = await room.new()
        with pytest.raises(RequestError, match="empty"):
            await page.call("send", session=session, parent=None, text="  ")
        await page.call("open", session=session)
        assert page.connection.session_id == session
        for op in ("open", "rename", "delete", "send", "regenerate", "edit", "stop", "probe", "hello"):
            for wrong in ([session], {"id": session}, 7, 1 << 70, True):
                with pytest.raises(RequestError, match=r"The id of the \w+ must be a text, not .+\."):
                    await page.call(op, session=wrong, parent=wrong, message=wrong, title="t", text="t")
        with pytest.raises(RequestError, match="none; reload"):
            await page.call("send", session=session, parent=None, text=["t"])
        assert room.count() == 0

    with_room(tmp_path, FakeEngineClient(), story)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["<p>a</p>"], ["<p>ab</p>"]),
        (["<p>😀</p>"], ["<p>😀😀</p>"]),
        (["<p>😀a</p>"], ["<p>😁a</p>"]),
        ([], ["<p>x</p>"]),
        (["<p>x</p>", "<p>y</p>"], ["<p>x</p>"]),
        (["<p>x</p>"], ["<h1>x</h1>", "<p>y</p>"]),
    ],
)
def test_a_patch_turns_the_old_blocks_into_the_new_ones(old: list[str], new: list[str]) -> None:
    change = patch(old, new)
    assert change is not None
    result = old[: change["at"]]
    for index, html in enumerate(change["html"]):
        result.append((utf16_prefix(old[change["at"]], change["keep"]) if index == 0 and change["keep"] else "") + html)
    assert result == new and change["total"] == len(new)
    assert patch(new, new) is None


def test_only_rows_of_the_block_table_that_changed_travel(tmp_path: Path) -> None:
    async def story(room: ChatRoom, hub: Hub) -> None:
        page = FakePage(hub)
        session = await room.new()
        await page.call("open", session=session)
        await page.call("kv", on=True)
        first = await page.call("send", session=session, parent=None, text="a" * 400)
        await room.end_of(first["reply"])
        await page.until(lambda: tables(page) and tables(page)[-1]["total"] >= 25)
        shown = rows_of(page)
        await asyncio.sleep(0.8)
        page.frames.clear()
        second = await page.call("send", session=session, parent=first["reply"], text="b" * 60)
        await room.end_of(second["reply"])
        await page.until(lambda: tables(page) and tables(page)[-1]["total"] > len(shown))
        for table in tables(page):
            assert not table["fresh"]
            for row in unpacked_rows(table, shown):
                assert shown.get(row["logical"]) != row, "this row has not changed"
                shown[row["logical"]] = row
        rows = (await hub.kv.table(session))["rows"]
        await page.until(lambda: {**shown, **rows_of(page, shown)} == dict(enumerate(rows)))

    with_room(tmp_path, PagedFakeClient(["fine"]), story)


class BusyEngine(PagedFakeClient):
    """Answers nothing about its blocks until it is let go, as in the middle of a long step."""

    def __init__(self, replies: list[str]) -> None:
        super().__init__(replies)
        self.free = asyncio.Event()

    async def brief(self) -> dict[str, Any]:
        found = await super().brief()
        await self.free.wait()
        return found


def test_an_engine_that_is_slow_to_tell_of_its_blocks_holds_up_nothing_else(tmp_path: Path) -> None:
    client = BusyEngine(["fine"])

    async def story(room: ChatRoom, hub: Hub) -> None:
        page = FakePage(hub)
        session = await room.new()
        await page.call("open", session=session)
        await page.call("kv", on=True)
        sent = await page.call("send", session=session, parent=None, text="hello")
        await room.end_of(sent["reply"])
        await page.until(lambda: any(frame.get("ev") == "message" for frame in page.frames))
        await page.until(lambda: "fine" in "".join(page.blocks[sent["reply"]]))
        await asyncio.sleep(0.3)
        assert not [frame for frame in page.frames if frame.get("ev") in ("kv-snapshot", "kv")]
        client.free.set()
        await page.until(lambda: [frame for frame in page.frames if frame.get("ev") == "kv"])
        kinds = [frame["ev"] for frame in page.frames if frame.get("ev") in ("kv-snapshot", "kv")]
        assert kinds[0] == "kv-snapshot", "events follow the snapshot they belong to"

    with_room(tmp_path, client, story)


def tables(page: FakePage) -> list[dict[str, Any]]:
    return [frame for frame in page.frames if frame.get("ev") == "kv-table"]


def rows_of(page: FakePage, before: dict[int, dict[str, Any]] | None = None) -> dict[int, dict[str, Any]]:
    shown = dict(before or {})
    for table in tables(page):
        shown.update((row["logical"], row) for row in unpacked_rows(table, shown))
    return shown


def test_a_draft_goes_to_pages_that_show_its_chat_and_presets_to_all(tmp_path: Path) -> None:
    async def story(room: ChatRoom, hub: Hub) -> None:
        here, elsewhere, nowhere = FakePage(hub), FakePage(hub), FakePage(hub)
        first, second = await room.new(), await room.new()
        await here.call("open", session=first)
        await elsewhere.call("open", session=second)
        await nowhere.call("draft", session=first, text="for the first", version=0)
        await nowhere.call("draft", session=None, text="for none yet", version=0)
        await room.service.library.save_preset({"name": "Brief"})
        for page, texts in ((here, ["for the first"]), (elsewhere, []), (nowhere, ["for none yet"])):
            await page.until(lambda page=page: "presets" in page.sizes)
            assert [one["draft"]["text"] for one in page.frames if one.get("ev") == "draft"] == texts

    with_room(tmp_path, FakeEngineClient(), story)


def test_a_chat_opened_at_another_chats_message_changes_neither(tmp_path: Path) -> None:
    async def story(room: ChatRoom, hub: Hub) -> None:
        page = FakePage(hub)
        sent = await room.service.send(None, None, "one")
        session, other = sent["user"]["session_id"], await room.new()
        await room.end_of(sent["reply"]["id"])
        again = await room.service.regenerate(sent["reply"]["id"])
        await room.end_of(again["id"])
        with pytest.raises(RequestError, match="not in this chat"):
            await page.call("open", session=other, message=sent["reply"]["id"])
        assert (await room.service.open(session))["session"]["head_id"] == again["id"]

    with_room(tmp_path, FakeEngineClient([TEXT, TEXT]), story)
