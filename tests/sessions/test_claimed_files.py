"""A file goes with one message: another one that would take it, too, is refused, and nothing of it is stored."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pagedchat.sessions.errors import SessionError
from support.chat_room import ChatRoom, play


async def begun(room: ChatRoom) -> tuple[str, str, str]:
    """A chat whose reply stands still, and a file for its next message: ids of chat, reply and file."""
    session = await room.new()
    room.engine.gate = asyncio.Event()
    reply = (await room.service.send(session, None, "One"))["reply"]["id"]
    file = await room.service.documents.add(session, "notes.txt", b"The boat is called Marla.")
    return session, reply, file["id"]


def test_a_file_that_waits_with_a_message_goes_with_no_other(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session, reply, file = await begun(room)
            queue = room.service.queue
            one = await queue.add(session, reply, "Two", [file, file])
            with pytest.raises(SessionError, match=r'"notes\.txt" goes with a message that waits'):
                await queue.add(session, reply, "Three", [file])
            with pytest.raises(SessionError, match="goes with a message that waits"):
                await room.service.send(session, None, "Beside it", [file])
            with pytest.raises(SessionError, match="goes with a message that waits"):
                await room.service.documents.set_removed(file, True)
            view = await queue.view(session)
            assert [(each["text"], len(each["files"])) for each in view] == [("Two", 1)]
            assert room.count() == 2, "a refused message leaves no row"
            await queue.take_back(session, one["id"])
            await queue.add(session, reply, "Three", [file])
            room.engine.gate.set()
            await room.until(lambda: len(room.engine.requests) == 2 and not room.service.core.jobs)
            with pytest.raises(SessionError, match="cannot be sent with this message"):
                await queue.add(session, reply, "Four", [file])
            assert (await room.texts(session))[2:] == ["Three", "Hello!"]

    play(story())


def test_of_two_messages_that_take_a_file_at_once_one_gets_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session, reply, file = await begun(room)
            adding = [room.service.queue.add(session, reply, text, [file]) for text in ("Two", "Three")]
            told = await asyncio.gather(*adding, return_exceptions=True)
            assert sorted(isinstance(one, SessionError) for one in told) == [False, True]
            (kept,) = await room.service.queue.view(session)
            room.engine.gate.set()
            await room.until(lambda: len(room.engine.requests) == 2 and not room.service.core.jobs)
            sent = (await room.shown(session))[2]
            assert (sent["content"], [one["name"] for one in sent["files"]]) == (kept["text"], ["notes.txt"])

    play(story())


def test_a_file_of_another_chat_does_not_wait_here(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session, reply, _ = await begun(room)
            foreign = await room.service.documents.add(await room.new(), "theirs.txt", b"x")
            with pytest.raises(SessionError, match="cannot be sent with this message"):
                await room.service.queue.add(session, reply, "Two", [foreign["id"]])
            assert await room.service.queue.view(session) == []

    play(story())
