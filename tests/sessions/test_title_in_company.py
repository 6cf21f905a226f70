"""B14 on the engine's own scheduler and blocks: a title that is being written costs the chat nothing."""

from __future__ import annotations

import asyncio

import pytest

from pagedchat.sessions.chat_service import ChatService
from support.chat_room import ChatRoom, play
from support.chat_templates import CHATML, THINKING
from support.loop_client import scripted_loop_client

QUESTION = "What is a cat, and why does it purr?"


def room_with(path, client, titles="model") -> ChatRoom:
    room = ChatRoom(path / "s.db", client)
    room.service = ChatService(room.store, client, titles=titles)
    room.service.subscribe(room._hear)
    return room


@pytest.mark.parametrize("template", [CHATML, THINKING], ids=["plain", "thinking"])
@pytest.mark.parametrize("num_blocks", [26, 512])
def test_the_second_message_finds_the_whole_first_turn_while_a_title_is_written(tmp_path, template, num_blocks):
    async def story(titles: str):
        client = scripted_loop_client(
            template, num_blocks=num_blocks, block_size=8, max_num_batched_tokens=32, max_num_seqs=4
        )
        async with room_with(tmp_path / titles, client, titles) as room:
            session = await room.new(params={"temperature": 0, "max_tokens": 20})
            first = await room.ask(session, QUESTION)
            if titles == "model":
                await room.until(lambda: any(one.startswith("own:title") for one in client.engine._replies))
                await asyncio.sleep(0.01)
            second = (await room.ask(session, "And a dog?", first["id"]))["generation"]
            had = first["generation"]["prompt_tokens"] + first["generation"]["completion_tokens"] - 1
            assert second["cached_tokens"] >= had
            (row,) = [one for one in client.engine.requests() if one["request_id"].startswith(second_id(client))]
            assert row["metrics"]["preemptions"] == 0
            waited = [one for one in row["timeline"] if one["event"] in ("pending", "preempted")]
            assert waited == []
            return second["computed_tokens"], await room.texts(session)

    for titles in ("words", "model"):
        (tmp_path / titles).mkdir()
    assert play(story("words")) == play(story("model")), "the chat is the same, and computes the same, with titles"


def second_id(client) -> str:
    """The request of the newest reply."""
    return [one.request_id for one in client.requests if not one.request_id.startswith("own:")][-1]


def test_a_titles_prompt_is_found_in_the_cache_and_leaves_nothing_there(tmp_path):
    async def story():
        client = scripted_loop_client(CHATML)
        async with room_with(tmp_path, client) as room:
            session = await room.new(params={"temperature": 0, "max_tokens": 20})
            reply = (await room.ask(session, QUESTION))["generation"]
            cached = len(client.engine.kv.index)
            await room.until(
                lambda: client.engine._replies or client.engine.requests()[-1]["request_id"].startswith("own")
            )
            await room.until(lambda: not room.service._titles._tasks and not client.engine.has_unfinished())
            (title,) = [one for one in client.engine.requests() if one["request_id"].startswith("own:title")]
            assert title["metrics"]["cached_tokens"] >= reply["prompt_tokens"] + reply["completion_tokens"] - 1
            assert len(client.engine.kv.index) == (await client.snapshot())["cached"] == cached

    play(story())
