"""What a page with the tree of a chat open is told, and branches side by side as it gets them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from pagedchat.ui.calls import answer
from pagedchat.ui.connection import Connection
from pagedchat.ui.hub import Hub
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient


class TreePage:
    """The frames of a page that shows a chat and its tree."""

    def __init__(self, room: ChatRoom) -> None:
        self.frames: list[dict[str, Any]] = []
        self.hub = Hub(room.service, room.engine)
        self.connection = Connection(self.hub, self._take)
        self.hub.join(self.connection)
        self._pump = asyncio.create_task(self.connection.pump())

    async def _take(self, data: bytes) -> None:
        self.frames.append(json.loads(data))

    async def call(self, op: str, **fields: Any) -> Any:
        told = await answer(self.connection, {"id": 1, "op": op, **fields})
        return told.get("ok", told.get("error"))

    async def nodes(self) -> list[dict[str, Any]]:
        """What has been told of messages since the last look."""
        await asyncio.sleep(0.05)
        frames, self.frames = self.frames, []
        return [node for frame in frames if frame.get("ev") == "nodes" for node in frame["nodes"]]

    def close(self) -> None:
        self._pump.cancel()
        self.hub.leave(self.connection)


def test_an_open_tree_is_told_of_all_branches_in_few_bytes(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["one", "word " * 4_000])) as room:
            session_id, elsewhere = await room.new(), await room.new()
            first = await room.ask(session_id, "q")
            page = TreePage(room)
            await page.call("open", session=session_id)
            outline = await page.call("outline", session=session_id)
            assert outline["ids"] == [first["parent_id"], first["id"]]
            await page.nodes()
            other = await room.end_of((await room.service.regenerate(first["id"]))["id"])
            await room.service.select(first["id"])
            await room.ask(elsewhere, "not of this chat")
            told = await page.nodes()
            assert {one["id"] for one in told} == {other["id"]}
            assert [one["status"] for one in told][-1] == "done" and told[-1]["parent"] == first["parent_id"]
            assert len(json.dumps(told[-1])) < 500
            assert await page.call("outline_find", session=session_id, query="wor") == [other["id"]]
            assert await page.call("outline", session=None) is None
            await room.end_of((await room.service.regenerate(first["id"]))["id"])
            assert await page.nodes() == []
            page.close()

    play(story())


def test_branches_are_compared_paragraph_by_paragraph(tmp_path: Path) -> None:
    async def story() -> None:
        replies = ["# Title\n\nSome *text*.\n\n```python\nx = 1\n\ny = 2\n```", "<b>Other</b>\n\nSome text."]
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(replies)) as room:
            session_id = await room.new()
            first = await room.ask(session_id, "q")
            other = await room.end_of((await room.service.regenerate(first["id"]))["id"])
            page = TreePage(room)
            left, right = (await page.call("compare", ids=[first["id"], other["id"]]))["branches"]
            (message,) = left["messages"]
            assert [one["text"] for one in message["blocks"]] == [
                "# Title",
                "Some *text*.",
                "```python\nx = 1\n\ny = 2\n```",
            ]
            assert "<em>text</em>" in message["blocks"][1]["html"]
            assert (message["sibling_index"], message["siblings"]) == (1, [first["id"], other["id"]])
            assert "<b>" not in right["messages"][0]["blocks"][0]["html"]
            edited = await room.service.edit(first["parent_id"], "one\n\ntwo")
            await room.end_of(edited["reply"]["id"])
            found = await page.call("compare", ids=[first["parent_id"], edited["user"]["id"]], follow=True)
            assert [[one["role"] for one in branch["messages"]] for branch in found["branches"]] == [
                ["user", "assistant"]
            ] * 2
            assert found["branches"][1]["messages"][0]["blocks"] == [{"text": "one"}, {"text": "two"}]
            assert "2 to 4" in await page.call("compare", ids=[first["id"]])
            page.close()

    play(story())
