"""One reply from the queue to its end: stopped, cut off, refused, unsaved."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from pagedchat.sessions.errors import SessionError
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient


def test_the_row_is_there_before_the_first_token(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(ready=False)) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "q")
            question, reply = await room.shown(session_id)
            assert (reply["id"], reply["status"], reply["content"]) == (sent["reply"]["id"], "streaming", "")
            assert question["content"] == "q"

    play(story())


def test_a_message_sent_while_the_model_loads_waits_for_it(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(ready=False)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            sent = await room.service.send(await room.new(), None, "q")
            for state in ("fetching", "loading"):
                engine.set_status(state, 0.5)
                await asyncio.sleep(0.01)
                assert engine.requests == []
            engine.set_status("ready")
            assert (await room.end_of(sent["reply"]["id"]))["content"] == "Hello!"

    play(story())


def test_an_engine_that_cannot_start_says_why_on_the_reply(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(ready=False)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "q")
            engine.set_failed("The model file is cut; fetch it again.")
            reply = await room.end_of(sent["reply"]["id"])
            assert (reply["status"], reply["error"]) == ("error", "The model file is cut; fetch it again.")
            engine.set_status("ready")
            again = await room.service.regenerate(reply["id"])
            done = await room.end_of(again["id"])
            assert (done["content"], done["siblings"]) == ("Hello!", [again["id"]])

    play(story())


@pytest.mark.parametrize("state", ["loading", "prefill", "decode"])
def test_stop_acts_at_once_in_every_state(tmp_path: Path, state: str) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["0123456789" * 100], delay_s=0.002, ready=state != "loading")
        if state == "prefill":
            engine.gate = asyncio.Event()
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "q")
            reply_id = sent["reply"]["id"]
            if state == "decode":
                await room.begun(reply_id, 5)
            else:
                await asyncio.sleep(0.05)
            begun = time.monotonic()
            await room.service.stop(reply_id)
            assert time.monotonic() - begun < 1
            reply = await room.end_of(reply_id)
            assert reply["status"] == "stopped"
            shown = await room.shown(session_id)
            if state == "decode":
                assert shown[1]["content"] == reply["content"] == room.text_of(reply_id)
                assert len(reply["content"]) >= 5
            else:
                assert [one["id"] for one in shown] == [sent["user"]["id"]]
                assert reply["hidden"] and reply["siblings"] == []
            # The next turn works, and tells the model nothing of an empty one.
            engine.set_status("ready")
            engine.gate = None
            await room.service.stop(reply_id)
            following = await room.service.send(session_id, shown[-1]["id"], "next")
            await room.until(lambda: len(engine.requests) > (state != "loading"))
            assert all(one["content"] for one in engine.requests[-1].messages or [])
            await room.service.stop(following["reply"]["id"])

    play(story())


def test_stop_at_the_very_moment_of_sending(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["x" * 1000], delay_s=0.001)) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "q")
            await asyncio.wait_for(room.service.stop(sent["reply"]["id"]), 2)
            assert (await room.end_of(sent["reply"]["id"]))["status"] == "stopped"

    play(story())


def test_an_engine_that_does_not_answer_cannot_hold_up_a_stop(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["x" * 1000])
        engine.gate = asyncio.Event()

        async def deaf(request_id: str) -> None:
            await asyncio.sleep(60)

        engine.cancel = deaf  # type: ignore[method-assign]
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            sent = await room.service.send(await room.new(), None, "q")
            await asyncio.sleep(0.05)
            begun = time.monotonic()
            await room.service.stop(sent["reply"]["id"])
            assert time.monotonic() - begun < 2
            assert (await room.end_of(sent["reply"]["id"]))["status"] == "stopped"

    play(story())


@pytest.mark.parametrize("end", ["stopped", "refused", "engine died"])
def test_a_regenerated_reply_without_text_gives_way_to_the_one_it_replaced(tmp_path: Path, end: str) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["one", "two"])
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            first = await room.ask(session_id, "q")
            last = await room.ask(session_id, "more", first["id"])
            before = await room.shown(session_id)
            engine.gate = asyncio.Event()
            if end == "refused":
                engine.refuse = SessionError("No.")
            again = await room.service.regenerate(first["id"])
            if end != "refused":
                assert (await room.shown(session_id))[-1]["id"] == again["id"]
                await asyncio.sleep(0.02)
            if end == "stopped":
                await room.service.stop(again["id"])
            elif end == "engine died":
                engine.die("The engine ran out of memory; it starts again.")
            view = await room.end_of(again["id"])
            assert view["hidden"]
            assert end != "engine died" or "out of memory" in view["error"]
            await room.until(lambda: room.events[-1]["type"] == "session")
            heads = [one["head_id"] for one in room.events if one["type"] == "head"]
            assert heads[-2:] == [again["id"], last["id"]]
            assert await room.shown(session_id) == before

    play(story())


def test_an_empty_end_does_not_move_a_head_that_went_elsewhere(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["one", "two"])
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            first = await room.ask(session_id, "q")
            second = await room.end_of((await room.service.regenerate(first["id"]))["id"])
            engine.gate = asyncio.Event()
            third = await room.service.regenerate(second["id"])
            await room.service.select(first["id"])
            await room.service.stop(third["id"])
            assert (await room.shown(session_id))[-1]["id"] == first["id"]

    play(story())


def test_an_engine_that_dies_leaves_the_text_so_far_and_the_reason(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["0123456789" * 50], delay_s=0.002)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "q")
            await room.begun(sent["reply"]["id"], 10)
            engine.die("The engine ran out of memory; it starts again.")
            reply = await room.end_of(sent["reply"]["id"])
            assert reply["status"] == "interrupted"
            assert "out of memory" in reply["error"]
            assert (await room.texts(session_id))[1].startswith("0123456789")
            engine.set_status("ready")
            resumed = await room.service.continue_reply(reply["id"])
            assert resumed["id"] == reply["id"]
            assert (await room.end_of(reply["id"]))["status"] == "done"

    play(story())


def test_closing_saves_running_replies_as_interrupted(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["0123456789" * 50], delay_s=0.002)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id, waiting = await room.new(), await room.new()
            sent = await room.service.send(session_id, None, "q")
            await room.begun(sent["reply"]["id"], 10)
            engine.set_status("loading")
            await room.service.send(waiting, None, "w")
            begun = time.monotonic()
        assert time.monotonic() - begun < 2
        async with ChatRoom(tmp_path / "s.db") as room:
            reply = (await room.shown(session_id))[1]
            assert reply["status"] == "interrupted" and "closed" in reply["error"]
            assert reply["content"].startswith("0123456789")
            assert await room.texts(waiting) == ["w"]

    play(story())


def test_a_reply_at_its_limit_can_be_continued(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["abcdefgh", "ijkl"])
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new(params={"max_tokens": 8})
            reply = await room.ask(session_id, "alphabet")
            assert (reply["status"], reply["generation"]["finish_reason"]) == ("done", "length")
            before = await room.service.branch_tokens(session_id)
            room.events.clear()
            await room.service.continue_reply(reply["id"])
            assert [one["offset"] for one in room.events if one["type"] == "delta"][:1] in ([], [8])
            done = await room.end_of(reply["id"])
            assert (done["content"], done["generation"]["finish_reason"]) == ("abcdefghijkl", "stop")
            request = engine.requests[-1]
            assert not request.add_generation_prompt
            assert (request.messages or [])[-1]["token_ids"] == before[-9:]
            assert done["generation"]["cached_tokens"] == len(before) - 1
            assert await room.service.branch_tokens(session_id) == [*before, *b"ijkl", 256]
            with pytest.raises(SessionError, match="cut off"):
                await room.service.continue_reply(reply["id"])

    play(story())


def test_continuing_a_reply_that_others_follow_makes_a_copy(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["abcd", "then", "efgh"])
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new(params={"max_tokens": 4})
            first = await room.ask(session_id, "q")
            await room.ask(session_id, "next", first["id"])
            copy = await room.service.continue_reply(first["id"])
            assert copy["id"] != first["id"]
            await room.end_of(copy["id"])
            assert await room.texts(session_id) == ["q", "abcdefgh"]
            await room.service.select(first["id"])
            assert await room.texts(session_id) == ["q", "abcd", "next", "then"]

    play(story())


def test_a_running_reply_is_saved_a_few_times_a_second(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["0123456789" * 100], delay_s=0.002)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "q")
            await room.begun(sent["reply"]["id"])
            commits, begun = room.store.commits, time.monotonic()
            late = []
            while (seconds := time.monotonic() - begun) < 1.5:
                stored = room.store.message(sent["reply"]["id"]).content
                shown = room.text_of(sent["reply"]["id"]) or ""
                late.append((time.monotonic(), len(shown), len(stored)))
                await asyncio.sleep(0.02)
            assert 3 <= room.store.commits - commits <= 5 * seconds + 1
            for moment, _, stored in late:
                earlier = [shown for before, shown, _ in late if before <= moment - 0.35]
                assert stored >= max(earlier, default=0)
            await room.service.stop(sent["reply"]["id"])

    play(story())


def test_two_replies_survive_a_program_that_locks_the_database(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["0123456789" * 100], delay_s=0.0005)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            first, second = await room.new(), await room.new()
            sent = [await room.service.send(one, None, "q") for one in (first, second)]
            for one in sent:
                await room.begun(one["reply"]["id"])
            locked = threading.Event()
            holder = threading.Thread(target=hold_lock, args=(tmp_path / "s.db", locked, 3.0))
            holder.start()
            await asyncio.to_thread(locked.wait)
            third = asyncio.ensure_future(room.service.send(first, None, "during the lock"))
            slowest = 0.0
            while holder.is_alive():
                begun = time.monotonic()
                assert len(await room.service.list_sessions()) == 2
                slowest = max(slowest, time.monotonic() - begun)
                await asyncio.sleep(0.02)
            assert slowest < 0.5
            views = [await room.end_of(one["reply"]["id"]) for one in [*sent, await third]]
            assert [(one["content"], one["status"], one["error"]) for one in views] == [
                ("0123456789" * 100, "done", None)
            ] * 3

    play(story())


def hold_lock(path: Path, locked: threading.Event, seconds: float) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    locked.set()
    time.sleep(seconds)
    other.execute("ROLLBACK")
    other.close()


def fill_disk(room: ChatRoom) -> None:
    """Let the database grow no further."""
    raw = room.store._writer._raw
    raw.execute(f"PRAGMA max_page_count = {raw.execute('PRAGMA page_count').fetchone()[0]}")


def empty_disk(room: ChatRoom) -> None:
    room.store._writer._raw.execute("PRAGMA max_page_count = 1000000")


def test_a_full_disk_marks_the_reply_and_saves_it_when_there_is_room(tmp_path: Path) -> None:
    async def story() -> None:
        text = "0123456789" * 600
        engine = FakeEngineClient([text], info={"max_model_len": 1 << 16, "num_blocks": 1 << 12})
        engine.gate = asyncio.Event()
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new(params={"max_tokens": 50000})
            sent = await room.service.send(session_id, None, "q")
            await asyncio.sleep(0.05)
            fill_disk(room)
            engine.gate.set()
            marked = await room.end_of(sent["reply"]["id"])
            assert "Not saved yet" in marked["error"] and str(tmp_path / "s.db") in marked["error"]
            assert marked["content"] == text
            shown = (await room.shown(session_id))[1]
            assert shown["content"] == text and "Not saved yet" in shown["error"]
            before = room.count()
            with pytest.raises(SessionError, match=r"before it is stored.*is full"):
                await room.service.send(session_id, sent["reply"]["id"], "more")
            with pytest.raises(Exception, match="is full"):
                await room.service.send(session_id, None, "x" * 20000)
            assert room.count() == before
            empty_disk(room)
            await room.until(lambda: (room.last_view(sent["reply"]["id"]) or {})["error"] is None)
        async with ChatRoom(tmp_path / "s.db") as room:
            reply = (await room.shown(session_id))[1]
            assert (reply["content"], reply["status"], reply["error"]) == (text, "done", None)

    play(story())


def test_a_disk_that_stays_full_does_not_hold_up_closing(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["0123456789" * 600])
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            sent = await room.service.send(await room.new(params={"max_tokens": 50000}), None, "q")
            await room.begun(sent["reply"]["id"])
            fill_disk(room)
            await room.end_of(sent["reply"]["id"])
            begun = time.monotonic()
        assert time.monotonic() - begun < 3

    play(story())
