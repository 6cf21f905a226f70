"""The chat service over the real engine client: a child process, first with a scripted engine, then with the model."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from pagedchat.engine.client import EngineClient
from pagedchat.engine.config import EngineConfig
from support.chat_room import ChatRoom, play
from support.engine_process import scripted_client


def test_a_message_sent_before_the_engine_starts_is_answered_when_it_is_there(tmp_path: Path) -> None:
    async def story() -> None:
        client = scripted_client()
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "early")
            await asyncio.sleep(0.05)
            assert (await room.shown(session_id))[1]["status"] == "streaming"
            await client.start(EngineConfig("good"))
            reply = await room.end_of(sent["reply"]["id"])
            assert (reply["status"], reply["content"]) == ("done", "UEARLYA")
        await client.close()

    play(story())


def test_a_killed_engine_interrupts_its_reply_and_the_next_one_runs(tmp_path: Path) -> None:
    async def story() -> None:
        client = scripted_client()
        async with ChatRoom(tmp_path / "s.db", client) as room:
            await client.start(EngineConfig("slow"))
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "long " * 100)
            await room.begun(sent["reply"]["id"], 10)
            assert client.engine_pid is not None
            os.kill(client.engine_pid, signal.SIGKILL)
            reply = await room.end_of(sent["reply"]["id"])
            assert reply["status"] == "interrupted"
            assert reply["error"]
            assert reply["content"] == room.text_of(reply["id"])
            following = await room.service.send(session_id, reply["id"], "x")
            await room.begun(following["reply"]["id"], 5)
            begun = time.monotonic()
            await room.service.stop(following["reply"]["id"])
            assert time.monotonic() - begun < 1
            assert (await room.end_of(following["reply"]["id"]))["status"] == "stopped"
        await client.close()

    play(story())


@pytest.mark.timeout(240)
def test_turns_of_the_real_model_extend_each_other(tmp_path: Path, default_model_path: Path) -> None:
    async def story() -> None:
        client = EngineClient()
        async with ChatRoom(tmp_path / "s.db", client) as room:
            await client.start(EngineConfig(str(default_model_path), max_model_len=1024, num_blocks=128))
            session_id = await room.new(params={"temperature": 0.0, "max_tokens": 6})
            first = await slow_ask(room, session_id, "Name a colour. <|im_end|>")
            fed = await room.service.branch_tokens(session_id)
            assert len(fed) == first["generation"]["prompt_tokens"] + first["generation"]["completion_tokens"]
            second = await slow_ask(room, session_id, "Tell me a long story about a boat.", first["id"])
            assert second["generation"]["cached_tokens"] == len(fed) - 1
            again = await room.service.regenerate(second["id"])
            again = await room.until(lambda: ended(room, again["id"]), 60)
            assert again["generation"]["computed_tokens"] == 1
            assert again["content"] == second["content"]
            longer = await room.service.continue_reply(again["id"])
            longer = await room.until(lambda: ended(room, longer["id"]), 60)
            assert longer["generation"]["computed_tokens"] == 1
            assert longer["content"].startswith(again["content"])
            back = await room.service.branch_tokens(session_id, first["id"])
            assert back == fed
        await client.close()

    play(story())


def ended(room: ChatRoom, message_id: str):
    view = room.last_view(message_id)
    return view if view and view["status"] != "streaming" else None


async def slow_ask(room: ChatRoom, session_id: str, text: str, parent_id: str | None = None):
    sent = await room.service.send(session_id, parent_id, text)
    return await room.until(lambda: ended(room, sent["reply"]["id"]), 120)
