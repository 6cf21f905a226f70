"""Whatever happens while messages wait, in whatever order: each is sent once, or held with a reason that pages show."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pagedchat.engine.errors import PagedChatError, RequestError
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient

BEHIND = "A message before this one is held."
ENDED = "The reply above ended before this could be sent."
LONG = "x" * 5_000
STEPS = 24
KINDS = ["add", "add", "add", "stop", "remove", "order", "bring", "send", "again", "continue"]


class Story:
    """One chat in which what is asked of its queue, and what becomes of its replies, comes as a seed says."""

    def __init__(self, room: ChatRoom, session: str, seed: int) -> None:
        self.room, self.session = room, session
        self.random = random.Random(seed)
        self.added: set[str] = set()
        self.removed: set[str] = set()
        core: Any = room.service.core
        core.read, core.write = self._later(core.read), self._later(core.write)

    def _later(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def called(*arguments: Any) -> Any:
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)
            return await call(*arguments)

        return called

    def replies(self) -> list[str]:
        found = [one["message"] for one in self.room.events if one["type"] == "message"]
        return list(dict.fromkeys(one["id"] for one in found if one["role"] == "assistant"))

    async def step(self, number: int) -> None:
        """Something that a reader may do."""
        service, queue = self.room.service, self.room.service.queue
        reply = self.random.choice(self.replies()[-3:])
        kind = self.random.choice(KINDS)
        if kind == "add":
            text = f"m{number}" + (LONG if self.random.random() < 0.2 else "")
            await queue.add(self.session, reply, text, place=self.random.choice([None, 0]))
            self.added.add(text)
        elif kind == "stop":
            await service.stop(reply)
        elif kind == "again":
            await service.regenerate(reply)
        elif kind == "continue":
            await service.continue_reply(reply)
        else:
            await self._with_one(kind, reply)

    async def _with_one(self, kind: str, reply: str) -> None:
        queue = self.room.service.queue
        waiting = await queue.view(self.session)
        if not waiting:
            return
        one = self.random.choice(waiting)
        if kind == "remove":
            self.removed.add((await queue.remove(self.session, one["id"]))["text"])
        elif kind == "order":
            await queue.order(self.session, [one["id"]])
        elif kind == "bring":
            await queue.bring(self.session, one["id"], reply)
        else:
            await queue.send(self.session, one["id"], reply)

    async def play(self) -> None:
        """Do it all, partly at the same time, and wait until nothing happens any more."""
        steps = []
        for number in range(STEPS):
            if self.random.random() < 0.1:
                self.room.engine.refuse = RequestError("Not now.")
            steps.append(asyncio.ensure_future(self.step(number)))
            for _ in range(self.random.randrange(30)):
                await asyncio.sleep(0)
        failures = await asyncio.gather(*steps, return_exceptions=True)
        assert all(one is None or isinstance(one, PagedChatError) for one in failures), failures
        core = self.room.service.core
        await self.room.until(lambda: not core.tasks and not core.jobs)

    def sent(self) -> list[str]:
        with self.room.store._reader.reading() as connection:
            query = "SELECT content FROM messages WHERE role = 'user' AND session_id = ?"
            return [row[0] for row in connection.execute(query, [self.session])]


def replying(chance: random.Random) -> FakeEngineClient:
    """Replies that end well, say nothing, or meet their limit of four characters."""
    return FakeEngineClient(lambda request: chance.choice(["ok", "ok", "ok", "", "longer"]))


@pytest.mark.parametrize("seed", range(16))
def test_each_message_is_sent_once_or_held_with_its_reason(tmp_path: Path, seed: int) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", replying(random.Random(seed))) as room:
            session = await room.new(params={"max_tokens": 4})
            await room.service.send(session, None, "One")
            told = Story(room, session, seed)
            await told.play()
            view = await room.service.queue.view(session)
            kept = [*told.sent()[1:], *(one["text"] for one in view)]
            assert sorted(kept) == sorted(told.added - told.removed), "nothing is lost, and nothing is sent twice"
            assert all(one["held"] for one in view), view
            last = next((one["queue"] for one in reversed(room.events) if one["type"] == "queue"), [])
            assert last == view, "pages show it as it is"
            for place, one in enumerate(view):
                assert one["held"] != ENDED, "its reply has ended well, so it is sent"
                before = [each for each in view[:place] if each["after_id"] == one["after_id"]]
                assert one["held"] != BEHIND or any("tokens" in each["held"] for each in before)

    play(story())


def test_a_message_added_while_the_queue_is_looked_at_is_sent(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session = await room.new()
            reply = await room.ask(session, "One")
            queue = room.service.queue
            seen, go = asyncio.Event(), asyncio.Event()
            first = queue._first

            async def slow(*place: str) -> Any:
                found = await first(*place)
                seen.set()
                await go.wait()
                return found

            queue._first = slow  # type: ignore[method-assign]
            looking = asyncio.ensure_future(queue._ended(session, reply["id"]))
            await seen.wait()
            await queue.add(session, reply["id"], "Two")
            go.set()
            await looking
            await room.until(lambda: len(room.engine.requests) == 2 and not room.service.core.jobs)
            assert await room.texts(session) == ["One", "Hello!", "Two", "Hello!"]

    play(story())


def test_what_waits_behind_a_held_message_says_so_and_goes_on_without_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session = await room.new()
            room.engine.gate = asyncio.Event()
            reply = (await room.service.send(session, None, "One"))["reply"]["id"]
            queue = room.service.queue
            long, _, other = [await queue.add(session, reply, text) for text in (LONG, "Two", LONG + "y")]
            room.engine.gate.set()
            await room.until(lambda: not room.service.core.jobs and not room.service.core.tasks)
            first, second, third = [one["held"] for one in await queue.view(session)]
            assert "tokens" in first and second == third == BEHIND
            await queue.order(session, [other["id"]])
            assert [one["held"] == BEHIND for one in await queue.view(session)] == [False, False, True]
            await queue.remove(session, other["id"])
            assert (await queue.view(session))[1]["held"] == BEHIND and len(room.engine.requests) == 1
            await queue.remove(session, long["id"])
            await room.until(lambda: len(room.engine.requests) == 2 and not room.service.core.jobs)
            assert await room.texts(session) == ["One", "Hello!", "Two", "Hello!"]

    play(story())


def test_a_message_that_is_taken_back_to_be_shortened_is_not_overtaken(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session = await room.new()
            room.engine.gate = asyncio.Event()
            reply = (await room.service.send(session, None, "One"))["reply"]["id"]
            long, _ = [await room.service.queue.add(session, reply, text) for text in (LONG, "Two")]
            room.engine.gate.set()
            await room.until(lambda: not room.service.core.jobs and not room.service.core.tasks)
            await room.service.queue.take_back(session, long["id"])
            (held,) = await room.service.queue.view(session)
            assert (held["text"], held["held"]) == ("Two", ENDED)
            assert len(room.engine.requests) == 1

    play(story())


def test_the_view_of_a_message_that_waits_has_its_files(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session = await room.new()
            room.engine.gate = asyncio.Event()
            reply = (await room.service.send(session, None, "One"))["reply"]["id"]
            files = [(await room.service.documents.add(session, f"{one}.txt", b"x"))["id"] for one in "ab"]
            told = await room.service.queue.add(session, reply, "Two", files[::-1])
            assert [one["name"] for one in told["files"]] == ["b.txt", "a.txt"] and told["held"] is None
            assert [told] == await room.service.queue.view(session)

    play(story())
