"""Which messages, and which of their words, lie in which tokens of a branch."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pagedchat.sessions.branch_parts import BranchPart, TextSpan, part_name, parts_of, spans_of, split_beginning
from support.chat_room import ChatRoom
from support.fake_client import FakeEngineClient


class Letters:
    """A gate that lets so many through."""

    def __init__(self, left: int) -> None:
        self.left = left

    def is_set(self) -> bool:
        self.left -= 1
        return self.left >= 0


def turn(role: str, ids: list[int] | None) -> dict[str, Any]:
    return {"role": role, "content": "", "token_ids": ids}


def message(content: str, **more: Any) -> Any:
    return SimpleNamespace(content=content, **{"reasoning": None, "sent_before": None, "sent_after": None, **more})


def letters(text: str, hidden: str = "<>") -> list[tuple[bytes, bool]]:
    return [(character.encode(), character in hidden) for character in text]


def test_parts_follow_each_other_and_one_without_known_ids_fills_the_gap() -> None:
    turns = [("", turn("system", [1, 2])), ("a", turn("user", None)), ("b", turn("assistant", [7, 8]))]
    found = parts_of([1, 2, 3, 4, 5, 7, 8], turns)
    assert [(one.message_id, one.first, one.end) for one in found] == [("", 0, 2), ("a", 2, 5), ("b", 5, 7)]
    assert [one.message_id for one in parts_of([1, 2, 3, 4], turns[:2])] == ["", "a"]


def test_nothing_is_said_of_what_does_not_fit() -> None:
    assert parts_of([9, 9], [("", turn("system", [1, 2])), ("a", turn("user", [9]))]) == []
    two = [("a", turn("user", None)), ("b", turn("user", None)), ("c", turn("assistant", [3]))]
    assert parts_of([1, 2, 3], two) == []


def test_the_words_of_some_tokens_are_found_behind_the_header() -> None:
    spelled = letters("<user\nthe user asks>")
    assert spans_of(message("the user asks"), spelled, 0, 10) == [TextSpan("content", 0, 4)]
    assert spans_of(message("the user asks"), spelled, 10, 20) == [TextSpan("content", 4, 13)]
    assert spans_of(message("the user asks"), spelled, 0, 6) == [], "the header is no text of the message"
    assert spans_of(message("other"), spelled, 0, 20) == []


def test_a_character_that_a_border_cuts_belongs_to_both_sides() -> None:
    party = "🎉".encode()
    spelled = [(b"a", False), (party[:2], False), (party[2:], False), (b"b", False)]
    assert spans_of(message("a🎉b"), spelled, 0, 2) == [TextSpan("content", 0, 2)]
    assert spans_of(message("a🎉b"), spelled, 2, 4) == [TextSpan("content", 1, 3)]


def test_files_around_a_question_and_thinking_before_an_answer_are_told_apart() -> None:
    asked = message("why", sent_before="why why ", sent_after=" why")
    spelled = letters("<why why why why>")
    assert spans_of(asked, spelled, 1, 9) == [] and spans_of(asked, spelled, 9, 12) == [TextSpan("content", 0, 3)]
    thought = message("so", reasoning="hm so")
    spelled = letters("<hm so|so>")
    assert spans_of(thought, spelled, 0, 8) == [TextSpan("reasoning", 0, 5), TextSpan("content", 0, 1)]


def test_a_system_turn_that_the_template_adds_is_no_part_of_the_question() -> None:
    spelled = letters("<system\nbe kind><user\nbe kind>")
    part = BranchPart("a", "user", 0, list(range(len(spelled))))
    found = split_beginning(part, message("be kind"), spelled)
    assert [(one.message_id, one.role, one.first, one.end) for one in found] == [
        ("", "system", 0, 16),
        ("a", "user", 16, 30),
    ]
    assert split_beginning(part, message("other"), spelled) == [part]
    alone = letters("<user\nhi>")
    assert split_beginning(part, message("hi"), alone) == [part]


def test_names_are_short() -> None:
    names = [
        part_name("system", 0),
        part_name("user", 2),
        part_name("assistant", 2),
        part_name("assistant", 2, "summary"),
    ]
    assert names == ["system", "you 2", "reply 2", "summary"]


def test_the_parts_of_a_branch_are_those_of_its_tokens_while_it_is_written_and_after(tmp_path: Path) -> None:
    async def story() -> None:
        engine: Any = FakeEngineClient(["First reply.", "Zweite Antwort 🎉 mit Zeichen."])
        async with ChatRoom(tmp_path / "sessions.db", engine) as room:
            session = await room.new(system_prompt="Be brief.")
            first = await room.ask(session, "Hello there")
            engine.gate = Letters(0)
            sent = await room.service.send(session, first["id"], "And now?")
            running = sent["reply"]["id"]
            await room.until(lambda: (job := room.service.core.jobs.get(running)) and job.prompt_tokens)
            during = await room.service.blocks.parts(session)
            names = ["system", "you 1", "reply 1", "you 2", "reply 2"]
            assert [one["name"] for one in during] == names
            engine.gate = Letters(6)
            await room.begun(running, 6)
            at = during[3]["end"]
            (grown,) = await room.service.blocks.words(session, None, at, at + 16)
            assert grown["text"] == "Zweite" and grown["written"]["content"] == "Zweite"
            engine.gate = None
            await room.end_of(running)
            parts = await room.service.blocks.parts(session)
            assert [one["name"] for one in parts] == names and parts[:4] == during[:4]
            tokens = await room.service.branch_tokens(session)
            assert parts[0]["first"] == 0 and parts[-1]["end"] == len(tokens)
            assert all(one["end"] == after["first"] for one, after in pairwise(parts))
            assert (await room.service.blocks.parts(session, first["id"])) == parts[:3]
            seen = ""
            for start in range(0, len(tokens), 16):
                for one in await room.service.blocks.words(session, None, start, start + 16):
                    seen += one["text"] if one["name"] == "reply 1" else ""
            assert seen == "First reply."
            party = tokens.index(0xF0)
            (one,) = await room.service.blocks.words(session, None, party, party + 2)
            assert one["text"] == "🎉" and one["spans"] == [{"field": "content", "start": 15, "end": 17}]
            assert await room.service.blocks.holds(session) and not await room.service.blocks.holds("0" * 32)

    asyncio.run(story())
