"""Titles by the model: from the cached prefix, in the background, never in the chat, and never worse than its words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pagedchat.engine.generate_request import GenerateRequest
from pagedchat.engine.types import BACKGROUND_PRIORITY
from pagedchat.sessions import title_job
from pagedchat.sessions.chat_service import ChatService
from pagedchat.sessions.title_job import INSTRUCTION
from pagedchat.sessions.titles import title_of_answer
from support.chat_room import ChatRoom, play
from support.paged_client import PagedFakeClient

QUESTION = "Tell me something about cats, please."


def is_title(request: GenerateRequest) -> bool:
    return request.request_id.startswith("own:title-")


class TitleClient(PagedFakeClient):
    """Answers chats and titles apart; a title may wait at its own gate."""

    def __init__(self, title: str = "Cats and more", **options) -> None:
        super().__init__(lambda request: title if is_title(request) else "An answer.", **options)
        self.title_gate: asyncio.Event | None = None

    async def _wait_gate(self, request_id: str) -> None:
        while (
            self.title_gate and not self.title_gate.is_set() and "title" in request_id and request_id not in self._ends
        ):
            await asyncio.sleep(0.002)

    def titles(self) -> list[GenerateRequest]:
        return [one for one in self.requests if is_title(one)]


def room_with(path: Path, engine: TitleClient | None = None, titles: title_job.TitleSource = "model") -> ChatRoom:
    room = ChatRoom(path / "s.db", engine or TitleClient())
    room.service = ChatService(room.store, room.engine, titles=titles)
    room.service.subscribe(room._hear)
    return room


async def title_of(room: ChatRoom, session: str) -> str:
    return (await room.service.open(session))["session"]["title"]


@asynccontextmanager
async def held_title(path: Path) -> AsyncIterator[tuple[ChatRoom, str, asyncio.Event]]:
    """A room whose first chat waits for its title until the event is set."""
    engine = TitleClient()
    engine.title_gate = asyncio.Event()
    async with room_with(path, engine) as room:
        session = await room.new()
        await room.ask(session, QUESTION)
        await room.until(lambda: engine._live)
        yield room, session, engine.title_gate


async def settled(room: ChatRoom) -> None:
    """No title is being written any more."""
    await room.until(lambda: not room.service._titles._tasks)


def test_the_model_names_a_chat_after_its_first_reply_and_the_instruction_is_in_no_prompt(tmp_path):
    async def story():
        async with room_with(tmp_path) as room:
            session = await room.new(system_prompt="Be kind.")
            first = await room.ask(session, QUESTION)
            assert any(one["type"] == "session" and one["session"]["title"] == QUESTION for one in room.events)
            await settled(room)
            assert await title_of(room, session) == "Cats and more"
            (request,) = room.engine.titles()
            assert request.priority == BACKGROUND_PRIORITY and not request.keep
            assert request.messages[-1] == {"role": "user", "content": INSTRUCTION, "token_ids": None}
            assert all(one["token_ids"] for one in request.messages[:-1]), "the chat's own ids are sent"
            await room.ask(session, "And dogs?", first["id"])
            await settled(room)
            assert len(room.engine.titles()) == 1, "a chat is named once"
            for one in room.engine.requests:
                told = [words for words in (INSTRUCTION, "Cats and more") if words in str(one.messages)]
                assert is_title(one) or not told
            assert await room.texts(session) == [QUESTION, "An answer.", "And dogs?", "An answer."]
            assert room.store.session(session).title_by == "model" and room.count() == 4

    play(story())


@pytest.mark.parametrize("tokens", [16, 300])
def test_b14_a_chat_that_just_fits_the_pool_is_found_whole_by_the_next_message(tmp_path, tokens):
    async def story():
        engine = TitleClient("a long title " * 20, num_blocks=40)
        async with room_with(tmp_path, engine) as room:
            session = await room.new()
            reply = await room.ask(session, "x" * tokens)
            await room.until(lambda: room.engine.titles())
            second = await room.ask(session, "And?", reply["id"])
            first_prompt = reply["generation"]["prompt_tokens"] + reply["generation"]["completion_tokens"] - 1
            assert second["generation"]["cached_tokens"] >= first_prompt

    play(story())


def test_b14_the_next_message_does_not_wait_for_a_title_and_a_later_reply_brings_one(tmp_path):
    async def story():
        async with held_title(tmp_path) as (room, session, gate):
            second = await room.ask(session, "And dogs?", (await room.shown(session))[-1]["id"])
            assert second["status"] == "done" and await title_of(room, session) == QUESTION
            await room.until(lambda: len(room.engine.titles()) == 2)
            gate.set()
            await settled(room)
            assert await title_of(room, session) == "Cats and more"

    play(story())


def test_b14_a_title_that_hangs_is_cut_after_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(title_job, "LIMIT_S", 0.05)

    async def story():
        async with held_title(tmp_path) as (room, session, _):
            await settled(room)
            await room.until(lambda: not room.engine._live)
            assert await title_of(room, session) == QUESTION

    play(story())


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("<think>The user wants a title.</think>\n\nCats", "Cats"),
        ("<think>The user wants a title, so let me think, and then think more", QUESTION),
        ('<think>\n\n</think>\n\n"Title: Cats"\nIt fits well.', "Cats"),
        ("", QUESTION),
        ("...", QUESTION),
        ("Three to six words, in its language, on one line.", QUESTION),
    ],
)
def test_b14_no_thought_is_ever_a_title(tmp_path, answer, title):
    async def story():
        engine = TitleClient(answer)
        engine.marks_thinking = True
        async with room_with(tmp_path, engine) as room:
            session = await room.new()
            await room.ask(session, QUESTION)
            await room.until(lambda: engine.titles())
            await settled(room)
            assert await title_of(room, session) == title

    play(story())


def test_a_persons_name_wins_and_is_not_refused_as_stale(tmp_path):
    async def story():
        async with held_title(tmp_path) as (room, session, gate):
            version = room.store.session(session).version
            await room.service.rename(session, "Mine", version=version)
            gate.set()
            await settled(room)
            assert await title_of(room, session) == "Mine" and room.store.session(session).title_by == "user"
            other = await room.new()
            await room.ask(other, QUESTION)
            before = room.store.session(other).version
            await settled(room)
            assert (await room.service.rename(other, "Mine, too", version=before))["title"] == "Mine, too"

    play(story())


def test_a_deleted_chat_gets_no_title_and_nothing_of_the_job_is_left(tmp_path):
    async def story():
        async with held_title(tmp_path) as (room, session, _):
            await room.service.delete(session)
            await room.until(lambda: not room.engine._live)
            snapshot = await room.engine.snapshot()
            assert snapshot["active"] == 0

    play(story())


def test_words_are_the_default_and_a_reply_that_failed_asks_for_no_title(tmp_path):
    async def story():
        async with room_with(tmp_path, titles="words") as room:
            await room.ask(await room.new(), QUESTION)
            assert not room.engine.titles() and not room.service._titles._tasks
        async with room_with(tmp_path) as room:
            reply = (await room.service.send(await room.new(), None, QUESTION))["reply"]
            await room.service.stop(reply["id"])
            await room.end_of(reply["id"])
            await settled(room)
            assert not room.engine.titles()

    play(story())


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ('"Cats and dogs"', "Cats and dogs"),
        ("**Title:** Cats in space.", "Cats in space"),
        ("# Chat Title: Cats\nand more", "Cats"),
        ("\n\n- `Cats`", "Cats"),
        ("Sure! Here is a title:\n\n**Cats**\n", "Cats"),
        ("Here is a title:", None),
        ("The cat's life", "The cat's life"),
        ("“Über Katzen”", "Über Katzen"),
        ("标题：猫", "标题：猫"),
        ("a" * 100, "a" * 48 + "…"),
        ("</think> Cats", None),
        ("🐈", None),
    ],
)
def test_an_answer_becomes_one_clean_line(answer, title):
    assert title_of_answer(answer) == title
