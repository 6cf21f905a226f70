"""Drafts: what was typed survives, is shown everywhere, and goes with the message that it became."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagedchat.sessions.errors import SessionError
from support.chat_room import ChatRoom, play


def test_a_draft_survives_and_other_pages_hear_of_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session_id = await room.new()
            reply = await room.ask(session_id, "q")
            room.events.clear()
            draft = await room.service.library.save_draft(session_id, "half a ques", reply["id"], None, 0)
            assert (draft["version"], draft["text"], draft["parent_id"]) == (1, "half a ques", reply["id"])
            assert [one for one in room.events if one["type"] == "draft"] == [{"type": "draft", "draft": draft}]
            room.events.clear()
            assert await room.service.library.save_draft(session_id, "half a ques", reply["id"], None, 1) == draft
            assert not [one for one in room.events if one["type"] == "draft"]
        async with ChatRoom(tmp_path / "s.db") as room:
            assert await room.service.library.draft(session_id) == draft

    play(story())


def test_a_page_with_an_older_draft_overwrites_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            library, session_id = room.service.library, await room.new()
            one = await library.save_draft(session_id, "page one", version=0)
            with pytest.raises(SessionError, match="not overwritten"):
                await library.save_draft(session_id, "page two", version=0)
            emptied = await library.save_draft(session_id, "", version=one["version"])
            assert (emptied["text"], emptied["version"]) == ("", 2)
            with pytest.raises(SessionError, match="not overwritten"):
                await library.save_draft(session_id, "page one, back from sleep", version=one["version"])
            assert (await library.draft(session_id))["text"] == ""
            assert (await library.save_draft(session_id, "whatever there is"))["version"] == 3

    play(story())


def test_sending_takes_the_draft_away_in_the_same_transaction(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            library, session_id = room.service.library, await room.new()
            await library.save_draft(session_id, "to send")
            await library.save_draft("", "in no chat yet")
            room.events.clear()
            commits = room.store.commits
            sent = await room.service.send(session_id, None, "to send it")
            assert room.store.commits == commits + 1
            [told] = [one["draft"] for one in room.events if one["type"] == "draft"]
            assert (told["session_id"], told["text"], told["version"]) == (session_id, "", 2)
            assert (await library.draft(""))["text"] == "in no chat yet"
            await room.end_of(sent["reply"]["id"])
            await room.ask(session_id, "no draft this time", sent["reply"]["id"])
            assert len([one for one in room.events if one["type"] == "draft"]) == 1
            await room.service.send(None, None, "in no chat yet, now in one")
            assert (await library.draft(""))["text"] == ""

    play(story())


def test_an_edit_that_is_being_typed_outlives_a_question_and_goes_with_its_own_message(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            library, session_id = room.service.library, await room.new()
            reply = await room.ask(session_id, "q")
            await library.save_draft(session_id, "another q", None, reply["parent_id"])
            await room.ask(session_id, "from another page", reply["id"])
            assert (await library.draft(session_id))["text"] == "another q"
            edited = await room.service.edit(reply["parent_id"], "another q!")
            await room.end_of(edited["reply"]["id"])
            assert (await library.draft(session_id))["text"] == ""

    play(story())


def test_a_draft_needs_a_chat_that_is_there_and_goes_with_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            library, session_id = room.service.library, await room.new()
            with pytest.raises(SessionError, match="does not exist"):
                await library.save_draft("nowhere", "text")
            await library.save_draft(session_id, "secret words")
            await room.service.delete(session_id)
            assert (await library.draft(session_id))["text"] == "secret words"
            await library.purge([session_id])
            assert (await library.draft(session_id))["version"] == 0

    play(story())
