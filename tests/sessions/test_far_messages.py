"""What a question in a very long chat costs does not grow with what the chat once held: messages that no prompt can
hold are sent as their length, and the prompt is the same."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pagedchat.engine.context_policy import Room, build_to_fit
from pagedchat.engine.prompt import BuiltPrompt, PromptMessage
from pagedchat.sessions.prompts import prompt_messages
from support.chat_room import ChatRoom
from support.fake_client import FakeEngineClient

CONTEXT = 400


def build(messages: list[PromptMessage]) -> BuiltPrompt:
    segments = [list(one.token_ids or [7] * len(one.content)) for one in messages]
    return BuiltPrompt([token for part in segments for token in part], segments, [])


@pytest.mark.parametrize("seed", range(30))
def test_a_prompt_is_the_same_when_messages_that_cannot_be_in_it_come_by_their_length(seed: int) -> None:
    draw = Random(seed)
    room = Room(CONTEXT, 100, CONTEXT - 1)
    turns: list[PromptMessage] = [PromptMessage("system", "s" * 20)] if seed % 2 else []
    for _ in range(60):
        turns.append(PromptMessage("user", "q", [1] * draw.choice([5, 20, 60, 200])))
        built = build_to_fit(lambda part: build(list(part)), turns, room, len)
        first = built.left_out.first_kept if built.left_out else len(turns[:1]) * (seed % 2)
        turns.append(PromptMessage("assistant", "a", [2] * draw.randint(5, 60), kept_from=first))
    turns.append(PromptMessage("user", "the last question"))
    whole = build_to_fit(lambda part: build(list(part)), turns, room, len)
    last_cut = turns[-2].kept_from or 0
    tokens, start = 0, len(turns)
    while tokens < 2 * CONTEXT:
        start -= 1
        tokens += len(turns[start].token_ids or ())
    start = max(seed % 2, min(start, last_cut - 8))
    assert start > 20
    short = [
        replace(one, content="", token_ids=None, num_tokens=len(one.token_ids or ())) if seed % 2 <= at < start else one
        for at, one in enumerate(turns)
    ]
    assert build_to_fit(lambda part: build(list(part)), short, room, len) == whole
    assert whole.left_out is not None


def test_only_a_bounded_part_of_a_long_chat_is_read_and_sent(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["a reply of some length"], info={"max_model_len": CONTEXT})
        async with ChatRoom(tmp_path / "sessions.db", engine) as room:
            session, parent = await room.new(), None
            for number in range(36):
                reply = await room.ask(session, f"question {number} " * 3, parent)
                assert reply["status"] == "done"
                parent = reply["id"]
            path = await room.service.prompt_path(str(parent))
            whole = room.store.prompt_path(str(parent), room.service.core.fingerprint())
            assert len(path.far) > 20 and not whole.far
            assert [one.id for one in path.messages] == [one.id for one in whole.messages]
            assert all(one.content == "" and one.reasoning is None for one in path.messages[: len(path.far)])
            assert path.messages[len(path.far) :] == whole.messages[len(path.far) :]
            assert path.far == {one: len(whole.token_ids[one]) for one in path.far}
            assert path.token_ids == {one: ids for one, ids in whole.token_ids.items() if one not in path.far}
            question = {"role": "user", "content": "and now?", "token_ids": None}
            built = [
                engine._build_messages([*prompt_messages(one)[0], question], True, "", True, 50)
                for one in (path, whole)
            ]
            assert built[0] == built[1] and built[0].left_out_messages > len(path.far)
            sent = engine.requests[-1].messages or []
            assert sum(len(one["content"]) for one in sent) < 4 * CONTEXT
            lengths = [one["num_tokens"] for one in sent if "num_tokens" in one]
            assert len(lengths) > 20 and lengths == list(path.far.values())[: len(lengths)]
            before = room.store.prompt_path(str(parent), room.service.core.fingerprint()).token_ids
            await room.ask(session, "one more", parent)
            after = room.store.prompt_path(str(parent), room.service.core.fingerprint()).token_ids
            assert after == before  # what was sent as a length keeps its ids

    asyncio.run(story())


def test_a_larger_context_brings_messages_back(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["a reply of some length"], info={"max_model_len": CONTEXT})
        async with ChatRoom(tmp_path / "sessions.db", engine) as room:
            session, parent = await room.new(), None
            for number in range(30):
                parent = (await room.ask(session, f"question {number} " * 3, parent))["id"]
            assert (await room.service.prompt_path(str(parent))).far
            engine.status.info["max_model_len"] = 100_000
            assert not (await room.service.prompt_path(str(parent))).far
            assert (await room.ask(session, "all of it?", parent))["generation"]["left_out"] == 0

    asyncio.run(story())
