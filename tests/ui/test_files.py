"""Files on their way from a page: the upload, the chips' words, what a probe says, and news for all windows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from pagedchat.ui import file_routes
from pagedchat.ui.calls import answer
from pagedchat.ui.connection import Connection
from pagedchat.ui.hub import Hub
from pagedchat.ui.routes import ui_router
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient

LARGE = "\n\n".join(f"Chapter {number}. " + "Nothing much happens here, word by word. " * 9 for number in range(40))


class Page:
    """One open page with a way to upload."""

    def __init__(self, room: ChatRoom, session_id: str) -> None:
        app = FastAPI()
        app.include_router(ui_router(room.service, room.engine))
        self.web = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page")
        self.session_id = session_id
        self.news: list[dict[str, Any]] = []
        hub = Hub(room.service, room.engine)
        self.connection = Connection(hub, lambda data: asyncio.sleep(0))
        self.connection.session_id = session_id
        self.connection.note_shelf = self.news.append
        hub.join(self.connection)

    async def upload(self, name: str, data: bytes, kind: str = "text/plain") -> httpx.Response:
        where = {"session": self.session_id, "name": name}
        return await self.web.post("/ui/files", params=where, content=data, headers={"content-type": kind})

    async def call(self, op: str, **fields: Any) -> Any:
        said = await answer(self.connection, {"id": 1, "op": op, **fields})
        return said["ok"] if "ok" in said else said["error"]


def test_a_file_is_uploaded_probed_and_sent(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(info={"max_model_len": 8_000, "num_blocks": 2_000})
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            page = Page(room, await room.new())
            small = (await page.upload("../notes.md", b"Apples are red.", "text/markdown")).json()
            assert {name: small[name] for name in ("name", "media_type", "size", "tokens", "problem", "how")} == {
                "name": "notes.md",
                "media_type": "text/markdown",
                "size": 15,
                "tokens": 15,
                "problem": None,
                "how": None,
            }
            large = (await page.upload("story.txt", LARGE.encode())).json()
            image = (await page.upload("cat.png", b"\x89PNG\r\n\x1a\n\0", "image/png")).json()
            assert image["problem"].startswith("This model reads text only")
            assert [one["id"] for one in await page.call("files", session=page.session_id)] == [
                one["id"] for one in (small, large, image)
            ]
            assert page.news == [{"type": "files", "session": page.session_id}] * 3

            await page.call("remove_file", file=image["id"])
            assert len(await page.call("files", session=page.session_id)) == 2
            await page.call("remove_file", file=image["id"], on=True)
            files = [small["id"], large["id"], small["id"]]
            message = {"session": page.session_id, "parent": None, "text": "Chapter 3?", "files": files}
            probed = await page.call("probe", **message)
            assert probed["files"][0] == {"id": small["id"], "how": "whole (15 tokens)"}
            assert probed["files"][1]["how"].endswith(" passages") and len(probed["files"]) == 2
            assert probed["prompt_tokens"] > 200 and probed["typed_tokens"] == len("Chapter 3?")

            sent = await page.call("send", **message)
            end = await room.end_of(sent["reply"])
            assert end["generation"]["prompt_tokens"] == probed["prompt_tokens"]
            question = room.last_view(sent["user"])
            assert question and [one["how"] for one in question["files"]] == [one["how"] for one in probed["files"]]
            assert [one["id"] for one in await page.call("files", session=page.session_id)] == [image["id"]]

            cited = await page.call("cited", message=sent["user"], n=1)
            passage = cited["passage"]
            assert "Chapter 3." in cited["text"][passage["start"] - cited["offset"] : passage["end"] - cited["offset"]]
            shown = await page.call("document", file=large["id"], offset=100)
            assert shown["text"].startswith(LARGE[100:150]) and shown["total"] == len(LARGE)
            assert await page.call("cited", message=sent["user"], n=99) == "The question above quotes no passage 99."

    play(story())


def test_what_cannot_be_taken_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            page = Page(room, "no such chat")
            refused = await page.upload("a.txt", b"x")
            assert refused.status_code == 400 and "does not exist" in refused.json()["error"]["message"]
            monkeypatch.setattr(file_routes, "SIZE_LIMIT", 1 << 20)
            refused = await page.upload("big.txt", b"x" * (1 << 21))
            assert refused.status_code == 400 and '"big.txt" has more than 1 MiB' in refused.json()["error"]["message"]
            for files in ([7], "x", [None]):
                said = await page.call("probe", session=None, text="x", files=files)
                assert said == "The page sent a list of ids that is none; reload it."
            assert "attach it again" in await page.call("send", session=None, text="x", files=["none"])
            assert not (tmp_path / "attachments").exists() and room.count() == 0

    play(story())
