"""What is deleted is out of sight, comes back whole, and goes for ever only when that is asked."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.store import SessionStore
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient
from support.stored_chat import StoredChat


def test_a_deleted_branch_is_out_of_sight_and_comes_back_whole(tmp_path: Path) -> None:
    chat = StoredChat.at(tmp_path)
    first = chat.ask("one")
    kept = chat.ask("two", first)
    other = chat.ask("two, asked again", first)
    tail = chat.ask("three", other)
    root = chat.store.message(other).parent_id or ""
    before = chat.store.shown_branch(chat.id)[1]
    done = chat.store.trash.delete_branch(root)
    assert (done.head_id, done.messages) == (kept, 4)
    assert chat.shown() == ["one", "re: one", "two", "re: two"]
    assert chat.store.message(kept).siblings == [kept] and chat.store.shown_branch(chat.id)[1][2].siblings == [
        chat.store.message(kept).parent_id
    ]
    [listed] = chat.store.trash.branches()
    assert (listed.id, listed.text, listed.messages, listed.within) == (root, "two, asked again", 4, None)
    assert chat.store.message(tail).deleted_root == root
    back = chat.store.trash.restore_branch(root)
    assert (back.head_id, back.messages) == (tail, 4)
    assert chat.store.shown_branch(chat.id)[1] == before
    assert chat.store.trash.branches() == [] and chat.count() == 8
    chat.store.close()


def test_the_head_goes_to_the_sibling_used_last_else_up_else_nowhere(tmp_path: Path) -> None:
    chat = StoredChat.at(tmp_path)
    one = chat.ask("q")
    two, three = chat.again(one, "two"), chat.again(one, "three")
    chat.store.select(one)
    chat.store.select(three)
    assert chat.store.trash.delete_branch(three).head_id == one
    assert chat.store.trash.delete_branch(one).head_id == two
    question = chat.store.message(two).parent_id
    assert chat.store.trash.delete_branch(two).head_id == question
    assert question is not None and chat.store.trash.delete_branch(question).head_id is None
    assert chat.shown() == []
    for lost in (two, one):
        with pytest.raises(SessionError, match="restore it first"):
            chat.store.trash.restore_branch(lost)
    assert chat.store.trash.restore_branch(question).head_id == question
    assert chat.store.trash.restore_branch(two).head_id == two
    assert chat.shown() == ["q", "two"]
    chat.store.close()


def test_a_branch_elsewhere_leaves_the_head_where_it_is(tmp_path: Path) -> None:
    chat = StoredChat.at(tmp_path)
    one = chat.ask("q")
    two = chat.again(one, "two")
    assert chat.store.trash.delete_branch(one).head_id == two
    assert chat.store.message(two).siblings == [two]
    chat.store.close()


def test_what_was_deleted_before_keeps_its_own_deletion(tmp_path: Path) -> None:
    chat = StoredChat.at(tmp_path)
    first = chat.ask("one")
    second = chat.ask("two", first)
    third = chat.ask("three", second)
    chat.store.trash.delete_branch(third)
    done = chat.store.trash.delete_branch(second)
    assert done.messages == 2  # the reply, and the question below it
    assert {one.id: one.within for one in chat.store.trash.branches()} == {second: None, third: second}
    chat.store.trash.restore_branch(second)
    assert chat.shown()[-2:] == ["re: two", "three"]
    chat.store.trash.restore_branch(third)
    assert chat.shown()[-1] == "re: three"
    chat.store.close()


def test_nothing_can_be_done_under_a_deleted_message_until_it_is_restored(tmp_path: Path) -> None:
    chat = StoredChat.at(tmp_path)
    first = chat.ask("one")
    second = chat.ask("two", first)
    question = chat.store.message(second).parent_id or ""
    chat.store.trash.delete_branch(question)
    for attempt in (
        lambda: chat.store.add_question(chat.id, second, "more"),
        lambda: chat.store.add_reply(second),
        lambda: chat.store.add_reply(question),
        lambda: chat.store.add_edit(question, "other"),
        lambda: chat.store.resume_reply(second),
        lambda: chat.store.select(second),
        lambda: chat.store.trash.delete_branch(second),
    ):
        with pytest.raises(SessionError, match="restore it"):
            attempt()
    chat.store.change_session(chat.id, deleted_at="2026-01-01T00:00:00.000Z")
    with pytest.raises(SessionError, match="restore it"):
        chat.store.trash.restore_branch(question)
    assert chat.store.trash.branches() == []
    chat.store.close()


def test_a_reply_without_text_does_not_go_back_to_what_was_deleted_meanwhile(tmp_path: Path) -> None:
    chat = StoredChat.at(tmp_path)
    one = chat.ask("q")
    two = chat.again(one, "two")
    _, running = chat.store.add_reply(two)
    chat.store.trash.delete_branch(two)
    with pytest.raises(SessionError, match="still being written"):
        chat.store.trash.delete_branch(running.id)
    _, head_id = chat.store.finish_reply(running.id, "", "stopped")
    assert head_id == one and chat.shown() == ["q", "re: q"]
    chat.store.close()


def test_a_purge_leaves_no_row_and_no_byte_behind(tmp_path: Path) -> None:
    chat = StoredChat.at(tmp_path)
    other = StoredChat(chat.store)
    kept = other.ask("what stays", reply="stays too", ids=[1, 2])
    gone = chat.ask("SECRETQUESTION", reply="SECRETREPLY " * 2000, ids=[77] * 50)
    deep = chat.ask("SECRETDEEP", gone)
    chat.store.trash.delete_branch(deep)
    with pytest.raises(SessionError, match="in the trash"):
        chat.store.trash.purge([chat.id])
    chat.store.change_session(chat.id, deleted_at="2026-01-01T00:00:00.000Z")
    with pytest.raises(SessionError, match="in the trash"):
        chat.store.trash.purge([chat.id, other.id])
    assert [one.id for one in chat.store.trash.sessions()] == [chat.id]
    assert chat.store.trash.purge([chat.id]) == 1
    assert other.count() == 2 and other.count("generations") == 1 and other.count("message_tokens") == 1
    assert other.shown() == ["what stays", "stays too"] and other.sound()
    assert chat.store.trash.sessions() == [] and chat.store.message(kept).content == "stays too"
    for file in tmp_path.iterdir():
        assert b"SECRET" not in file.read_bytes(), file.name
    chat.store.close()


def test_a_purged_branch_takes_what_was_deleted_below_it(tmp_path: Path) -> None:
    chat = StoredChat.at(tmp_path)
    first = chat.ask("one")
    second = chat.ask("two", first)
    third = chat.ask("three", second)
    chat.store.trash.delete_branch(third)
    chat.store.trash.delete_branch(second)
    with pytest.raises(SessionError, match="in the trash"):
        chat.store.trash.purge([first])
    assert chat.store.trash.purge([second]) == 1
    assert chat.shown() == ["one", "re: one", "two"] and chat.count() == 3 and chat.sound()
    assert chat.store.trash.branches() == []
    chat.store.close()


def test_a_long_chat_is_purged_at_once(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "s.db")
    chat, parent = StoredChat(store), None
    with store._writer.transaction(durable=False) as connection:
        for number in range(1500):
            connection.execute(
                "INSERT INTO messages (id, session_id, parent_id, role, content, status, created_at, updated_at) "
                "VALUES (?, ?, ?, ?, ?, 'done', '', '')",
                [f"m{number:05}", chat.id, parent, ("user", "assistant")[number % 2], "x" * 3000],
            )
            parent = f"m{number:05}"
        connection.execute("UPDATE sessions SET head_id = ?, deleted_at = 'x' WHERE id = ?", [parent, chat.id])
    begun = time.perf_counter()
    store.trash.purge([chat.id])
    assert time.perf_counter() - begun < 5  # tens of milliseconds; a lookup without an index takes minutes
    assert chat.count() == 0 and chat.count("sessions") == 0
    store.close()


def test_deleting_stops_the_replies_inside_and_tells_other_pages(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["short", "0123456789" * 100], delay_s=0.002)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            first = await room.ask(session_id, "a")
            sent = await room.service.send(session_id, first["id"], "b")
            await room.begun(sent["reply"]["id"], 3)
            room.events.clear()
            done = await room.service.delete_branch(sent["user"]["id"])
            assert done == {
                "undo": sent["user"]["id"],
                "session_id": session_id,
                "head_id": first["id"],
                "messages": 2,
            }
            assert room.last_view(sent["reply"]["id"])["status"] == "stopped"  # type: ignore[index]
            told = [one for one in room.events if one["type"] in ("branch", "head")]
            assert told == [
                {
                    "type": "branch",
                    "session_id": session_id,
                    "message_id": sent["user"]["id"],
                    "parent_id": first["id"],
                    "deleted": True,
                    "messages": 2,
                },
                {"type": "head", "session_id": session_id, "head_id": first["id"]},
            ]
            assert await room.texts(session_id) == ["a", "short"]
            room.events.clear()
            back = await room.service.restore_branch(done["undo"])
            assert back == {"session_id": session_id, "head_id": sent["reply"]["id"], "messages": 2}
            assert [one["type"] for one in room.events] == ["branch", "head"] and not room.events[0]["deleted"]
            assert (await room.texts(session_id))[2] == "b"

    play(story())


def test_the_trash_lists_chats_and_branches_and_empties_on_demand(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            first, second = await room.new(), await room.new()
            reply = await room.ask(first, "to go")
            await room.ask(second, "whole chat")
            await room.service.delete_branch(reply["id"])
            await room.service.delete(second)
            trash = await room.service.library.trash()
            assert [one["id"] for one in trash["sessions"]] == [second]
            [branch] = trash["branches"]
            assert (branch["id"], branch["title"], branch["text"]) == (reply["id"], "to go", "Hello!")
            room.events.clear()
            assert await room.service.library.purge([second, reply["id"]]) == 2
            assert room.events == [{"type": "purged", "ids": [second, reply["id"]]}]
            assert await room.service.library.trash() == {"sessions": [], "branches": []}
            assert await room.texts(first) == ["to go"]

    play(story())


def test_a_reply_without_text_gives_way_to_all_that_followed_what_it_replaced(tmp_path: Path) -> None:
    chat = StoredChat.at(tmp_path)
    one = chat.ask("q")
    _, running = chat.store.add_reply(one)
    two = chat.ask("meanwhile", one)
    chat.store.select(running.id)
    _, head_id = chat.store.finish_reply(running.id, "", "stopped")
    assert head_id == two and chat.shown() == ["q", "re: q", "meanwhile", "re: meanwhile"]
    chat.store.close()
