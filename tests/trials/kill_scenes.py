"""What the processes do that the kill trials end: each tells through a pipe what it was told is safe."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import random
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pagedchat.engine.errors import PagedChatError
from pagedchat.sessions.backups import back_up, backup_folder
from pagedchat.sessions.chat_service import ChatService
from pagedchat.sessions.restore import restore
from pagedchat.sessions.store import SessionStore
from support.fake_client import FakeEngineClient

SCRIPT = "0123456789" * 200
"""What every reply begins with."""
USERS = 3
_LETTERS = "abc žluťoučký 模型 🏰\u202eab\n\x00"
_INFO = {"max_model_len": 1 << 20, "num_blocks": 1 << 16}


def digest(text: str) -> str:
    """Names a text in a line of the pipe."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Teller:
    """Writes lines that the parent can trust: what is in them was acknowledged before they were written."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def say(self, **facts: Any) -> None:
        os.write(self._pipe, json.dumps(facts).encode() + b"\n")


def chats(path: Path, draw: random.Random, teller: Teller) -> None:
    """Several users at once send, regenerate, edit, fork, delete and import, until the process is killed."""
    asyncio.run(_chats(path, draw, teller))


async def _chats(path: Path, draw: random.Random, teller: Teller) -> None:
    engine: Any = FakeEngineClient(lambda request: SCRIPT[: draw.randrange(10, 500)], delay_s=0.0005, info=_INFO)
    service = ChatService(SessionStore(path), engine)
    service.subscribe(lambda event: _hear(event, teller))
    _time_saving(service, teller)
    teller.say(ready=True)
    await asyncio.gather(*(_User(service, random.Random(draw.random()), teller).live() for _ in range(USERS)))


def _hear(event: dict[str, Any], teller: Teller) -> None:
    if event["type"] == "delta":
        teller.say(delta=event["message_id"], length=event["offset"] + len(event["text"]), at=time.monotonic())
    elif event["type"] == "message" and event["message"]["role"] == "assistant":
        message = event["message"]
        if message["status"] != "streaming" and not (message["error"] or "").startswith("Not saved"):
            teller.say(message=message["id"], text=digest(message["content"]), status=message["status"])


def _time_saving(service: ChatService, teller: Teller) -> None:
    """Tell how long each saving of a running reply waits for other writes and for the disk."""
    save = service.replies.save_partial

    async def timed(reply_id: str, *rest: Any) -> None:
        teller.say(saving=reply_id, at=time.monotonic())
        await save(reply_id, *rest)
        teller.say(saved=reply_id, at=time.monotonic())

    service.replies.save_partial = timed  # type: ignore[method-assign]


class _User:
    """Someone with one chat open."""

    def __init__(self, service: ChatService, draw: random.Random, teller: Teller) -> None:
        self._service, self._draw, self._teller = service, draw, teller
        self._chat = ""
        self._ways = (self._send, self._send, self._send, self._regenerate, self._edit, self._fork, self._delete)
        self._ways += (self._rename, self._import, self._delete_branch, self._select)

    async def live(self) -> None:
        while True:
            way = self._draw.choice(self._ways) if self._chat and self._draw.random() < 0.9 else self._begin
            with suppress(PagedChatError):
                await way()
            await asyncio.sleep(self._draw.random() * 0.02)

    async def _begin(self) -> None:
        chat = await self._service.create_session(params={"max_tokens": 5000})
        self._teller.say(chat=chat["id"])
        self._chat = chat["id"]

    async def _shown(self) -> list[dict[str, Any]]:
        return (await self._service.open(self._chat))["messages"]

    async def _any(self, *roles: str) -> dict[str, Any]:
        found = [one for one in await self._shown() if one["role"] in roles and one["status"] != "streaming"]
        if not found:
            raise PagedChatError("nothing there yet")
        return self._draw.choice(found)

    def _text(self) -> str:
        length = self._draw.choice((3, 30, 300, 9000))
        return "x" + "".join(self._draw.choices(_LETTERS, k=length))

    def _told(self, message: dict[str, Any]) -> None:
        self._teller.say(message=message["id"], text=digest(message["content"]), status="done")

    async def _send(self) -> None:
        shown, text = await self._shown(), self._text()
        if shown and shown[-1]["status"] == "streaming":
            if self._draw.random() < 0.3:
                await self._service.stop(shown[-1]["id"])
            return
        sent = await self._service.send(self._chat, shown[-1]["id"] if shown else None, text)
        assert sent["user"]["content"] == text
        self._told(sent["user"])

    async def _regenerate(self) -> None:
        await self._service.regenerate((await self._any("assistant", "user"))["id"])

    async def _edit(self) -> None:
        self._told((await self._service.edit((await self._any("assistant", "user"))["id"], self._text()))["message"])

    async def _fork(self) -> None:
        mode = self._draw.choice(("branch", "siblings", "tree"))
        chat = await self._service.fork((await self._any("assistant", "user"))["id"], mode)
        self._teller.say(chat=chat["id"], forked=True)

    async def _delete(self) -> None:
        await self._service.delete(self._chat)
        self._teller.say(chat=self._chat)
        if self._draw.random() < 0.7:
            await self._service.undelete(self._chat)
        else:
            self._chat = ""

    async def _delete_branch(self) -> None:
        await self._service.delete_branch((await self._any("assistant", "user"))["id"])

    async def _rename(self) -> None:
        await self._service.rename(self._chat, "שיחה " + self._text()[:20])

    async def _select(self) -> None:
        await self._service.select((await self._any("assistant", "user"))["id"])

    async def _import(self) -> None:
        name, _, data = await self._service.library.export([self._chat], "json")
        report = await self._service.library.import_file(name, data)
        for chat in report["chats"]:
            self._teller.say(imported=chat["id"], messages=chat["messages"])


def migrate(path: Path, draw: random.Random, teller: Teller) -> None:
    """A start on a database of an older version."""
    SessionStore(path).close()


def copy(path: Path, draw: random.Random, teller: Teller) -> None:
    """Copies are made one after the other while somebody writes."""
    store = SessionStore(path)
    (session, *_) = store.sessions()

    def write() -> None:
        for number in itertools.count():
            _, question, _ = store.add_question(session.id, None, f"meanwhile {number}")
            teller.say(message=question.id, text=digest(question.content), status="done")

    threading.Thread(target=write, daemon=True).start()
    teller.say(ready=True)
    while True:
        teller.say(copy=back_up(path, draw.choice(("daily", "hand"))).name)


def bring_back(path: Path, draw: random.Random, teller: Teller) -> None:
    """Two copies take the database's place in turn."""
    teller.say(ready=True)
    while True:
        for name in ("old.db", "new.db"):
            restore(path, backup_folder(path) / name)
            teller.say(restored=name)
