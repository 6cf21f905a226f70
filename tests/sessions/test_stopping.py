"""Stop acts at once, whatever the engine is in the middle of; the blocks follow, and what comes next is right."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from pagedchat.sessions.reply_job import LAST_WORD_S
from support.chat_room import ChatRoom, play
from support.chat_templates import CHATML
from support.fake_client import FakeEngineClient
from support.loop_client import LoopClient, scripted_loop_client

PARAMS = {"temperature": 0.0, "max_tokens": 40, "min_tokens": 40}
QUESTION = "A question that is long enough to be computed in several parts, " * 4


class BusyEngine(LoopClient):
    """Makes as many steps as it is given; in between it hears nothing, as in the middle of a long one."""

    steps = 0

    async def _run(self) -> None:
        while self.engine.has_unfinished() or not self._commands.empty():
            while self.steps <= 0:
                await asyncio.sleep(0.001)
            self.steps -= 1
            self._loop.turn()
            await asyncio.sleep(0)

    async def after(self, steps: int) -> None:
        """Make so many steps."""
        self.steps = steps
        while self.steps:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.03)


def busy_engine() -> Any:
    return scripted_loop_client(CHATML, client=BusyEngine, max_num_batched_tokens=16)


async def stopped_at_once(room: ChatRoom, reply_id: str) -> dict[str, Any]:
    """Stop a reply while the engine makes no step; its view as it was told."""
    begun = time.monotonic()
    await room.service.stop(reply_id)
    assert time.monotonic() - begun < LAST_WORD_S + 0.9, "the engine is not waited for"
    view = room.last_view(reply_id)
    assert view and view["status"] == "stopped"
    return view


def test_stop_in_the_middle_of_a_prompt_frees_its_blocks_and_the_next_reply_finds_what_was_computed(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        client = busy_engine()
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session = await room.new(params=PARAMS)
            sent = await room.service.send(session, None, QUESTION)
            await client.after(3)
            held = client.engine.snapshot()["active"]
            assert held >= 2, "a part of the prompt is computed"
            view = await stopped_at_once(room, sent["reply"]["id"])
            assert view["hidden"] and view["content"] == ""
            assert client.engine.snapshot()["active"] == held, "the engine has not heard of it yet"
            assert [one["id"] for one in await room.shown(session)] == [sent["user"]["id"]]
            again = await room.service.regenerate(sent["user"]["id"])
            client.steps = 10_000
            reply = await room.end_of(again["id"])
            made = reply["generation"]
            assert reply["status"] == "done" and made["completion_tokens"] == 40
            assert made["cached_tokens"] >= 4 * held - 4, "what the stopped one had computed"
            assert client.engine.snapshot()["active"] == 0

    play(story())


def test_a_reply_stopped_while_the_engine_is_busy_ends_there_and_is_extended_by_the_next_turn(tmp_path: Path) -> None:
    async def story() -> None:
        client = busy_engine()
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session = await room.new(params=PARAMS)
            sent = await room.service.send(session, None, "Short")
            await client.after(14)
            text = room.text_of(sent["reply"]["id"])
            assert text
            view = await stopped_at_once(room, sent["reply"]["id"])
            assert view["content"] == text
            path = await room.service.prompt_path(sent["reply"]["id"])
            told = len(room.events)
            following = await room.service.send(session, sent["reply"]["id"], "More")
            client.steps = 10_000
            reply = await room.end_of(following["reply"]["id"])
            assert room.text_of(sent["reply"]["id"]) == text
            late = [one for one in room.events[told:] if one.get("message_id") == sent["reply"]["id"]]
            assert late == [], "nothing comes after Stop"
            known = view["generation"]["prompt_tokens"] + view["generation"]["completion_tokens"]
            assert reply["generation"]["cached_tokens"] == known - 1
            assert len(path.token_ids) == 2

    play(story())


def test_text_that_was_on_its_way_when_stop_came_is_not_shown(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["x" * 1000], delay_s=0.001)

        async def deaf(request_id: str) -> None:
            await asyncio.sleep(60)

        engine.cancel = deaf  # type: ignore[method-assign]
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session = await room.new()
            sent = await room.service.send(session, None, "q")
            await room.begun(sent["reply"]["id"], 5)
            work = asyncio.create_task(room.service.stop(sent["reply"]["id"]))
            await asyncio.sleep(0)
            text = room.text_of(sent["reply"]["id"])
            await work
            assert room.text_of(sent["reply"]["id"]) == text
            stored = (await room.shown(session))[1]
            assert (stored["status"], stored["content"]) == ("stopped", text)
            assert stored["generation"]["finish_reason"] == "abort"

    play(story())


@pytest.mark.parametrize("state", ["waiting", "loading"])
def test_replies_that_wait_for_their_turn_are_stopped_too(tmp_path: Path, state: str) -> None:
    async def story() -> None:
        client = busy_engine() if state == "waiting" else FakeEngineClient(ready=False)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session = await room.new(params=PARAMS)
            sent = await room.service.send(session, None, "first")
            others = [await room.service.regenerate(sent["user"]["id"]) for _ in range(2)]
            for one in [sent["reply"], *others]:
                assert (await stopped_at_once(room, one["id"]))["hidden"]
            assert not room.service.core.jobs
            if state == "waiting":
                client.steps = 10_000
                await room.until(lambda: not client.engine.has_unfinished())
                assert client.engine.snapshot()["active"] == 0

    play(story())
