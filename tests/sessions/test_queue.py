"""Messages that wait for the end of a reply: each is sent once, in its place, or held, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pagedchat.engine.errors import ContextLengthError
from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.store import SessionStore
from support.chat_room import ChatRoom, play


async def begun(room: ChatRoom, text: str = "One", **options: Any) -> tuple[str, str]:
    """A chat whose reply stands still until ``room.engine.gate`` is set: (session id, reply id)."""
    session = await room.new(**options)
    room.engine.gate = asyncio.Event()
    reply = (await room.service.send(session, None, text))["reply"]["id"]
    return session, reply


async def waiting(room: ChatRoom, session: str) -> list[str]:
    return [one["text"] for one in await room.service.queue.view(session)]


async def all_sent(room: ChatRoom, session: str) -> None:
    """Wait until nothing waits and nothing is written any more."""
    async with asyncio.timeout(10):
        while await room.service.queue.view(session) or room.service.core.jobs:
            await asyncio.sleep(0.005)


def test_messages_are_sent_one_after_the_other_each_under_the_reply_before(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session, reply = await begun(room)
            queue = room.service.queue
            await queue.add(session, reply, "Two")
            three = await queue.add(session, reply, "Three")
            four = await queue.add(session, reply, "Four", place=1)
            assert [one["held"] for one in await queue.view(session)] == [None, None, None]
            await queue.order(session, [four["id"], three["id"]])
            assert await waiting(room, session) == ["Four", "Three", "Two"]
            assert room.events[-1]["type"] == "queue" and len(room.events[-1]["queue"]) == 3
            room.engine.gate.set()
            await all_sent(room, session)
            texts = await room.texts(session)
            assert texts == ["One", "Hello!", "Four", "Hello!", "Three", "Hello!", "Two", "Hello!"]
            assert room.events[-1]["type"] != "queue" or room.events[-1]["queue"] == []

    play(story())


def test_a_message_for_a_reply_that_has_just_ended_is_sent_at_once(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session = await room.new()
            reply = await room.ask(session, "One")
            await room.service.queue.add(session, reply["id"], "Two")
            await all_sent(room, session)
            assert await room.texts(session) == ["One", "Hello!", "Two", "Hello!"]

    play(story())


def test_what_waits_for_a_reply_that_does_not_end_well_is_held_and_goes_on_with_it(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session, reply = await begun(room)
            queue = room.service.queue
            await queue.add(session, reply, "Two")
            room.engine.gate.set()
            room.engine.delay_s = 0.02
            await room.begun(reply)
            await room.service.stop(reply)
            await room.until(lambda: room.last_view(reply)["status"] == "stopped")
            held = (await queue.view(session))[0]
            assert held["held"] == "The reply above was stopped." and held["under_id"] == reply
            room.engine.delay_s = 0.0
            await room.service.continue_reply(reply)
            await all_sent(room, session)
            assert len(await room.texts(session)) == 4

    play(story())


@pytest.mark.parametrize("end", ["error", "limit"])
def test_a_held_message_is_sent_by_its_reader_under_what_is_shown(tmp_path, end):
    async def story():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session, reply = await begun(room, params={"max_tokens": 3 if end == "limit" else 50})
            queue = room.service.queue
            one = await queue.add(session, reply, "Two")
            await queue.add(session, reply, "Three")
            if end == "error":
                room.engine.die("It broke.")
                room.engine.set_status("ready")
            room.engine.gate.set()
            await room.end_of(reply)
            await room.until(lambda: room.events[-1]["type"] == "queue")
            assert (await queue.view(session))[0]["held"] == (
                "The reply above met its limit." if end == "limit" else "The reply above failed."
            )
            room.engine.gate = None
            await room.service.update_settings(session, params={"max_tokens": 50})
            last = (await room.shown(session))[-1]["id"]
            more = await room.ask(session, "Meanwhile", last)
            await queue.send(session, one["id"], more["id"])
            await all_sent(room, session)
            assert (await room.texts(session))[-6:] == ["Meanwhile", "Hello!", "Two", "Hello!", "Three", "Hello!"]
            with pytest.raises(SessionError, match="does not wait any more"):
                await queue.send(session, one["id"], more["id"])

    play(story())


def test_a_stop_before_the_first_token_leaves_it_for_the_next_reply_to_the_question(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session, reply = await begun(room)
            await room.service.queue.add(session, reply, "Two")
            await room.service.stop(reply)
            question = (await room.shown(session))[-1]
            held = (await room.service.queue.view(session))[0]
            assert held["held"] and held["under_id"] == question["id"]
            again = await room.service.regenerate(question["id"])
            assert (await room.service.queue.view(session))[0]["after_id"] == again["id"]
            room.engine.gate.set()
            await all_sent(room, session)
            assert await room.texts(session) == ["One", "Hello!", "Two", "Hello!"]

    play(story())


def test_another_branch_that_is_shown_stays_shown_and_gets_nothing(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session = await room.new()
            first = await room.ask(session, "One")
            other = await room.service.edit(first["id"], "Another answer")
            await room.service.select(first["id"])
            room.engine.gate = asyncio.Event()
            reply = (await room.service.send(session, first["id"], "Go on"))["reply"]["id"]
            await room.service.queue.add(session, reply, "Two")
            await room.service.select(other["message"]["id"])
            room.engine.gate.set()
            await all_sent(room, session)
            assert await room.texts(session) == ["One", "Another answer"]
            assert {one["head_id"] for one in room.events[-6:] if one["type"] == "head"} <= {other["message"]["id"]}
            await room.service.select(reply)
            assert (await room.texts(session))[2:] == ["Go on", "Hello!", "Two", "Hello!"]

    play(story())


def test_it_waits_for_another_branch_where_its_reader_says_so(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session, reply = await begun(room)
            one = await room.service.queue.add(session, reply, "Two")
            await room.service.stop(reply)
            second = (await room.service.regenerate((await room.shown(session))[-1]["id"]))["id"]
            third = (await room.service.regenerate(second))["id"]
            await room.service.queue.bring(session, one["id"], third)
            await room.service.stop(second)
            room.engine.gate.set()
            await all_sent(room, session)
            shown = await room.shown(session)
            assert shown[1]["id"] == third and shown[2]["content"] == "Two"

    play(story())


def test_a_deleted_branch_gives_its_waiting_texts_back_to_the_draft(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session, reply = await begun(room)
            await room.service.queue.add(session, reply, "Two")
            await room.service.queue.add(session, reply, "Three")
            await room.service.library.save_draft(session, "half a thought")
            await room.service.delete_branch((await room.shown(session))[0]["id"])
            assert await waiting(room, session) == []
            assert (await room.service.library.draft(session))["text"] == "half a thought\n\nTwo\n\nThree"
            assert any(one["type"] == "draft" and "Three" in one["draft"]["text"] for one in room.events)

    play(story())


def test_a_chat_takes_its_queue_into_the_trash_and_back_and_out_of_the_world(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session, reply = await begun(room)
            await room.service.queue.add(session, reply, "Two")
            await room.service.delete(session)
            await room.service.undelete(session)
            assert [one["held"] is not None for one in await room.service.queue.view(session)] == [True]
            await room.service.delete(session)
            await room.service.library.purge([session])
            assert room.store.queue.sessions() == []

    play(story())


def test_a_waiting_message_goes_back_into_the_draft_or_away(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session, reply = await begun(room)
            queue = room.service.queue
            two, three = [await queue.add(session, reply, text) for text in ("Two", "Three")]
            await room.service.library.save_draft(session, "typed")
            taken = await queue.take_back(session, two["id"])
            assert taken["text"] == "Two" and taken["draft"]["text"] == "Two\n\ntyped"
            gone = await queue.remove(session, three["id"])
            assert await waiting(room, session) == []
            await queue.add(session, gone["after"], gone["text"], gone["files"], 0)
            assert await waiting(room, session) == ["Three"]
            for wrong in (two["id"], "none"):
                with pytest.raises(SessionError, match="does not wait any more"):
                    await queue.remove(session, wrong)
            with pytest.raises(SessionError, match="no such reply"):
                await queue.add(session, "none", "Four")

    play(story())


def test_a_message_that_has_no_room_is_held_with_the_reason(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session, reply = await begun(room)
            await room.service.queue.add(session, reply, "x" * 5_000)
            room.engine.gate.set()
            told = await room.until(
                lambda: [one for one in room.events if one["type"] == "queue" and one["queue"][0]["held"]]
            )
            held = (await room.service.queue.view(session))[0]
            assert told[-1]["queue"] == [held]
            assert "tokens" in held["held"] and await room.texts(session) == ["One", "Hello!"]
            with pytest.raises(ContextLengthError):
                await room.service.queue.send(session, held["id"])
            assert await waiting(room, session) == [held["text"]]

    play(story())


def test_a_temporary_chat_has_a_queue_too(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session, reply = await begun(room, temporary=True)
            await room.service.queue.add(session, reply, "Two")
            assert room.store.queue.sessions() == []
            room.engine.gate.set()
            await all_sent(room, session)
            assert await room.texts(session) == ["One", "Hello!", "Two", "Hello!"]

    play(story())


def test_after_an_end_of_the_program_it_is_held_and_sent_once(tmp_path):
    async def before():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session, reply = await begun(room)
            await room.service.queue.add(session, reply, "Two")
            return session

    async def after(session: str):
        async with ChatRoom(tmp_path / "sessions.db") as room:
            held = (await room.service.queue.view(session))[0]
            assert held["held"] == "The reply above was interrupted." or held["under_id"] != held["after_id"]
            await asyncio.sleep(0.02)
            assert await waiting(room, session) == ["Two"]
            last = (await room.shown(session))[-1]["id"]
            await room.service.queue.send(session, held["id"], last)
            await all_sent(room, session)
            assert (await room.texts(session))[-2:] == ["Two", "Hello!"]

    play(after(play(before())))


@pytest.mark.parametrize("sent", [False, True])
def test_a_kill_before_or_after_the_one_step_loses_nothing_and_sends_nothing_twice(tmp_path, sent):
    """What a kill leaves is what was committed: the reply done and the message waiting, or the message sent."""
    path = tmp_path / "sessions.db"
    store = SessionStore(path)
    chat = store.create_session(None, {}, None)
    _, _, reply = store.add_question(chat.id, None, "One")
    queued = store.queue.add(chat.id, reply.id, "Two")
    store.finish_reply(reply.id, "Hello!", "done")
    if sent:
        store.send_draft(chat.id, chat.id, reply.id, "Two", [], queued.id)
        with pytest.raises(SessionError):
            store.send_draft(chat.id, chat.id, reply.id, "Two", [], queued.id)
    store.close()

    async def story():
        async with ChatRoom(path) as room:
            await asyncio.sleep(0.02)
            shown = await room.texts(chat.id)
            held = await room.service.queue.view(chat.id)
            assert shown == ["One", "Hello!", *(["Two"] if sent else [])]
            assert [one["text"] for one in held] == ([] if sent else ["Two"])
            assert sent or "ended before" in held[0]["held"]

    play(story())


def test_files_wait_with_their_message_go_with_it_and_come_back_with_it(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session, reply = await begun(room)
            queue, documents = room.service.queue, room.service.documents
            file = await documents.add(session, "notes.txt", b"The boat is called Marla.")
            one = await queue.add(session, reply, "Read this", [file["id"]])
            assert (await queue.view(session))[0]["files"] == [{"id": file["id"], "name": "notes.txt", "size": 25}]
            gone = await queue.remove(session, one["id"])
            assert await documents.waiting(session) == []
            with pytest.raises(SessionError, match="no such reply"):
                await queue.add(session, gone["files"][0], gone["text"], gone["files"])
            assert room.store.attachments.find(file["id"]).deleted_at is not None, "what is refused brings nothing back"
            again = await queue.add(session, gone["after"], gone["text"], gone["files"])
            assert (await queue.take_back(session, again["id"]))["files"] == [file["id"]]
            assert [one["id"] for one in await documents.waiting(session)] == [file["id"]]
            await queue.add(session, reply, "Read this", [file["id"]])
            room.engine.gate.set()
            await all_sent(room, session)
            sent = (await room.shown(session))[2]
            assert [one["name"] for one in sent["files"]] == ["notes.txt"]
            assert "Marla" in str(room.engine.requests[-1].messages)

    play(story())


def test_what_was_typed_waits_and_is_no_draft_any_more_and_another_draft_stays(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "sessions.db") as room:
            session, reply = await begun(room)
            queue, library = room.service.queue, room.service.library
            await library.save_draft(session, "Two")
            await queue.add(session, reply, "Undone", place=0)
            assert (await library.draft(session))["text"] == "Two"
            await queue.add(session, reply, "Two", typed=True)
            assert (await library.draft(session))["text"] == ""
            told = [one["draft"] for one in room.events if one["type"] == "draft"]
            assert (told[-1]["text"], told[-1]["version"]) == ("", 2)

    play(story())
