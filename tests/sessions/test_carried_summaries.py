"""A summary stays in the prompts of a chat that outgrows the context again, whatever turns are left out."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from pagedchat.engine.errors import ContextLengthError
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient

CONTEXT = 900
SUMMARY = "cats and dogs"
OPENING = "What we said so far, summed up:\n\ncats and dogs\n\nWe go on from here.\n\n"


async def summed_up(room: ChatRoom, text: str = SUMMARY) -> tuple[str, str]:
    """A chat that goes on from a summary: ids of the chat and of the summary."""
    session = await room.new(system_prompt="Be kind.")
    reply = await room.ask(session, "q0")
    made = await room.end_of((await room.service.compaction.compact(session, reply["id"]))["id"])
    return session, (await room.service.edit(made["id"], text))["message"]["id"]


@pytest.mark.parametrize("turns", [8, 40])
def test_the_first_question_that_is_sent_begins_with_the_summary_and_the_prefix_stays(
    tmp_path: Path, turns: int
) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["A reply."], info={"max_model_len": CONTEXT})
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session, parent = await summed_up(room)
            cuts: list[str] = []
            for number in range(turns):
                fed = await room.service.branch_tokens(session)
                reply = await room.ask(session, f"question {number} {'x' * 60}", parent)
                parent, made = reply["id"], reply["generation"]
                assert engine.prompt_text().startswith("Be kind." + OPENING + "question")
                assert engine.prompt_text().count(SUMMARY) == 1
                same_cut = bool(cuts) and made["kept_from"] == cuts[-1]
                if same_cut:
                    assert engine._build(engine.requests[-1]).prompt_token_ids[: len(fed)] == fed
                    assert made["cached_tokens"] >= len(fed) - engine.block_size
                cuts.append(made["kept_from"])
            assert len(set(cuts)) > 1 and any(one == other for one, other in pairwise(cuts[4:]))
            assert bool((await room.service.prompt_path(parent)).far) == (turns == 40)
            assert (await room.service.reproduce(parent))["same"] is True
            question = await room.service.question(session, parent, "more")
            assert question["messages"][1]["carried"] == OPENING

    play(story())


def test_a_larger_context_brings_the_turns_back_with_one_summary(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["A reply."], info={"max_model_len": CONTEXT})
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session, parent = await summed_up(room)
            for number in range(8):
                parent = (await room.ask(session, f"question {number} {'x' * 60}", parent))["id"]
            engine.status.info["max_model_len"] = 100_000
            reply = await room.ask(session, "all of it?", parent)
            assert reply["generation"]["left_out"] == 0 and engine.prompt_text().count(SUMMARY) == 1
            assert engine.prompt_text().count("question") == 8

    play(story())


def test_a_refusal_says_that_the_summary_counts(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["A reply."], info={"max_model_len": CONTEXT})
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session, parent = await summed_up(room, "cats " * 120)
            parent = (await room.ask(session, "q1", parent))["id"]
            with pytest.raises(ContextLengthError, match="system prompt and the summary before it included"):
                await room.service.send(session, parent, "x" * 400)
            assert room.count() == 6, "nothing of it is stored"

    play(story())
