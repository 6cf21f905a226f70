"""Faults that other programs had with storing chats, as stories.

What else belongs to them is proved elsewhere: locks held by other programs and the bound on commits in
``test_reply_job``, second starts in ``tests/app/test_instance``, first starts, unusable folders, newer and damaged
files in ``test_schema`` and ``test_opening``, older versions and kills in each step in ``test_older_versions``.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from pagedchat.engine.chat_template import ChatTemplate
from pagedchat.engine.prompt import PromptBuilder, PromptMessage
from pagedchat.sessions.store import SessionStore
from support.chat_room import ChatRoom, play
from support.chat_templates import GEMMA
from support.fake_client import FakeEngineClient
from support.forked import DIED, die, in_fork, start_fork
from support.tiny_tokenizers import byte_level_tokenizer

posix = pytest.mark.skipif(os.name != "posix", reason="forks")
LONG = "0123456789" * 40
ENDS = ("refresh", "kill", "stop before the first token", "stop after five")


def engine() -> FakeEngineClient:
    return FakeEngineClient([LONG, "second"], delay_s=0.001)


async def began(room: ChatRoom, path: Path, end: str) -> str:
    """The id of a chat whose first reply was ended so."""
    chat = await room.new()
    if end == "stop before the first token":
        room.engine.gate = asyncio.Event()
    sent = await room.service.send(chat, None, "first question")
    reply = sent["reply"]["id"]
    assert room.store.message(sent["user"]["id"]).content == "first question", "stored before anything is generated"
    if end == "stop before the first token":
        await room.until(lambda: room.engine.requests)
        await room.service.stop(reply)
        room.engine.gate = None
        return chat
    await room.begun(reply, 5)
    if end == "kill":
        await room.until(lambda: room.store.message(reply).content)
        die()
    if end == "stop after five":
        await room.service.stop(reply)
    else:
        shown = (await room.service.open(chat))["messages"][-1]
        assert shown["status"] == "streaming" and len(shown["content"]) >= 5, "a page that comes back sees all so far"
        assert (await room.end_of(reply))["content"] == LONG
    return chat


def renders(messages: list[dict[str, Any]]) -> str:
    """The prompt of a template that insists on alternation; it raises where questions and replies do not take turns."""
    tokenizer = byte_level_tokenizer(GEMMA)
    builder = PromptBuilder(tokenizer, ChatTemplate(GEMMA, {"bos_token": "", "eos_token": ""}))
    built = builder.build([PromptMessage(one["role"], one["content"]) for one in messages])
    return tokenizer.decode(built.token_ids)


@posix
@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_a_reply_question_and_text_stay_and_the_next_turn_works(tmp_path: Path, end: str) -> None:
    """B44."""
    path = tmp_path / "s.db"

    async def first() -> None:
        async with ChatRoom(path, engine()) as room:
            await began(room, path, end)

    assert in_fork(lambda: asyncio.run(first())) == (DIED if end == "kill" else 0)

    async def then() -> None:
        async with ChatRoom(path, FakeEngineClient(["second"])) as room:
            (chat,) = await room.service.list_sessions()
            question, *replies = await room.shown(chat["id"])
            assert (question["role"], question["content"]) == ("user", "first question")
            if end == "stop before the first token":
                assert replies == [], "no empty turn is shown"
                again = await room.service.regenerate(question["id"])
                assert (await room.end_of(again["id"]))["content"] == "second"
                await room.service.select(question["id"])
            else:
                (reply,) = replies
                status = {"refresh": "done", "kill": "interrupted", "stop after five": "stopped"}[end]
                assert reply["status"] == status and LONG.startswith(reply["content"]) and len(reply["content"]) >= 5
                assert (end == "refresh") is (reply["content"] == LONG)
            last = (await room.shown(chat["id"]))[-1]
            await room.ask(chat["id"], "next question", last["id"])
            request = room.engine.requests[-1]
            assert all(one["content"] for one in request.messages or [])
            prompt = renders(request.messages or [])
            assert "first question" in prompt and "next question" in prompt
            if replies:
                await room.service.select(replies[0]["id"])
                cut = replies[0]["status"] != "done"
                more = await (room.service.continue_reply if cut else room.service.regenerate)(replies[0]["id"])
                assert (await room.end_of(more["id"]))["status"] == "done"

    play(then())


@posix
def test_a_turn_after_an_empty_one_alternates(tmp_path: Path) -> None:
    """B44: the reply that a kill cut off before its first token is no turn of the next prompt."""
    path = tmp_path / "s.db"

    def killed() -> None:
        store = SessionStore(path)
        chat = store.create_session(None, {}, None)
        store.add_question(chat.id, None, "never answered")
        die()

    assert in_fork(killed) == DIED

    async def then() -> None:
        async with ChatRoom(path, FakeEngineClient(["answer"])) as room:
            (chat,) = await room.service.list_sessions()
            (question,) = await room.shown(chat["id"])
            done = await room.ask(chat["id"], "asked again", question["id"])
            assert done["content"] == "answer"
            prompt = renders(room.engine.requests[-1].messages or [])
            assert prompt == "user\nnever answered\n\nasked again\nmodel\n", "joined to one turn"

    play(then())


@posix
def test_two_replies_and_a_list_go_on_while_another_process_locks_the_database(tmp_path: Path) -> None:
    """B45, with a process of its own that holds the lock: locks of one process do not count for itself."""
    path = tmp_path / "s.db"

    def hold() -> None:
        other = sqlite3.connect(path, isolation_level=None, timeout=5)
        other.execute("BEGIN IMMEDIATE")
        (tmp_path / "locked").touch()
        deadline = time.monotonic() + 30
        while not (tmp_path / "enough").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        other.execute("ROLLBACK")

    async def story() -> None:
        async with ChatRoom(path, FakeEngineClient([LONG], delay_s=0.003)) as room:
            chats = [await room.new(params={"max_tokens": 5000}) for _ in range(2)]
            replies = [(await room.service.send(one, None, "q"))["reply"]["id"] for one in chats]
            for one in replies:
                await room.begun(one)
            commits, begun = room.store.commits, time.monotonic()
            holder = start_fork(hold)
            await room.until(lambda: (tmp_path / "locked").exists())
            question = asyncio.ensure_future(room.service.send(chats[0], None, "during the lock"))
            for _ in range(20):  # reading waits for no lock
                assert len(await room.service.list_sessions()) == 2
                await asyncio.sleep(0.02)
            assert os.waitpid(holder, os.WNOHANG)[0] == 0 and not question.done(), "the lock is still there"
            (tmp_path / "enough").touch()
            await room.until(lambda: os.waitpid(holder, os.WNOHANG)[0])
            replies.append((await question)["reply"]["id"])
            views = [await room.end_of(one) for one in replies]
            seconds = time.monotonic() - begun
            assert [(one["content"], one["status"], one["error"]) for one in views] == [(LONG, "done", None)] * 3
            assert room.store.commits - commits <= 3 * (5 * seconds + 2) + 4
            assert len(room.engine.requests) == 3

    play(story())
