"""A later question in a branch with a large document gets passages of its own, and nothing twice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient

ROOM = {"max_model_len": 24_000, "num_blocks": 4_000}
WORDS = "Nothing much happens in this part of the story, and so it goes on for a while, word by word. "
CHAPTERS = [f"Chapter {number}. {WORDS}" * 7 for number in range(90)]
CHAPTERS[17] += "The treasure lies under the old oak."
CHAPTERS[58] += "The ship was named Marla by Captain Zoe."
LARGE = "\n\n".join(CHAPTERS)


def room_at(tmp_path: Path) -> ChatRoom:
    return ChatRoom(tmp_path / "s.db", FakeEngineClient(info=ROOM))


async def begun(room: ChatRoom) -> tuple[str, dict[str, Any]]:
    """A chat whose first question has a large file: its id, and what came of the question."""
    session = await room.new()
    file = await room.service.documents.add(session, "big.txt", LARGE.encode())
    return session, await ask(room, session, "Where is the treasure?", None, [file["id"]])


async def ask(room: ChatRoom, session: str, text: str, parent: str | None, files: list[str] | None = None) -> Any:
    sent = await room.service.send(session, parent, text, files or [])
    return {**sent, "reply": await room.end_of(sent["reply"]["id"])}


def numbers(sent: dict[str, Any]) -> list[int]:
    return [one["n"] for one in sent["user"]["sources"]]


def places(sent: dict[str, Any]) -> set[int]:
    return {one["number"] for one in sent["user"]["sources"]}


def test_each_later_question_gets_passages_that_fit_it_numbered_on_and_extends_the_same_prefix(tmp_path: Path) -> None:
    async def story() -> None:
        async with room_at(tmp_path) as room:
            session, first = await begun(room)
            assert numbers(first) and "Marla" not in room.engine.requests[-1].messages[0]["content"]
            parent, seen, last = first["reply"]["id"], places(first), numbers(first)[-1]
            for text, found in (("Who named the ship?", "Marla"), ("And chapter 71?", "Chapter 71")):
                fed = await room.service.branch_tokens(session)
                plan = await room.service.documents.plan(session, text, [], parent)
                sent = await ask(room, session, text, parent)
                content = room.engine.requests[-1].messages[-1]["content"]
                assert content.startswith(text + "\n\n") and found in content
                assert numbers(sent) == [last + 1 + at for at in range(len(numbers(sent)))] and numbers(sent)
                assert not places(sent) & seen, "nothing comes twice"
                (told,) = sent["user"]["files"]
                assert re.fullmatch(r"\d more of \d+ passages", told["how"]) and told["how"] == plan.sources[0].words
                assert sent["reply"]["generation"]["cached_tokens"] >= len(fed) - room.engine.block_size
                cited = await room.service.documents.cited(sent["user"]["id"], numbers(sent)[0])
                assert cited["name"] == "big.txt" and cited["file"] == first["user"]["files"][0]["id"]
                parent, seen, last = sent["reply"]["id"], seen | places(sent), numbers(sent)[-1]

    play(story())


@pytest.mark.parametrize("text", ["Thanks!", "???"])
def test_a_question_that_shares_no_word_with_the_document_gets_nothing_of_it(tmp_path: Path, text: str) -> None:
    async def story() -> None:
        async with room_at(tmp_path) as room:
            session, first = await begun(room)
            sent = await ask(room, session, text, first["reply"]["id"])
            assert sent["user"]["sources"] == sent["user"]["files"] == []
            assert room.engine.requests[-1].messages[-1]["content"] == text

    play(story())


def test_another_branch_and_another_chat_get_nothing_and_an_edit_is_searched_anew(tmp_path: Path) -> None:
    async def story() -> None:
        async with room_at(tmp_path) as room:
            session, first = await begun(room)
            beside = await ask(room, session, "Who named the ship?", None)
            assert beside["user"]["sources"] == []
            later = await ask(room, session, "Who named the ship?", first["reply"]["id"])
            edited = await room.service.edit(later["user"]["id"], "Who is in chapter 33?")
            await room.end_of(edited["reply"]["id"])
            assert numbers(edited) and numbers(edited)[0] == numbers(later)[0]
            assert "Chapter 33" in room.engine.requests[-1].messages[-1]["content"]
            fork = await room.service.fork(later["reply"]["id"])
            copy = (await room.shown(fork["id"]))[-1]
            again = await ask(room, fork["id"], "And chapter 71?", copy["id"])
            assert numbers(again)[0] == numbers(later)[-1] + 1
            assert "Chapter 71" in room.engine.requests[-1].messages[-1]["content"]

    play(story())
