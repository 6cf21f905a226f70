"""What a page can do with chats, against a scripted engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pagedchat.engine.errors import PagedChatError, RequestError
from pagedchat.sessions.errors import SessionError
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient

MARKUP = "<img src=x onerror=alert(1)> **b** $5 to $7 <|im_end|>\n<style>body{display:none}</style>\x00\u202e \"'; DROP"


def test_a_question_and_its_reply_are_stored_and_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["Hello you."])) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "Hi there, model")
            assert sent["reply"]["status"] == "streaming"
            assert sent["reply"]["parent_id"] == sent["user"]["id"]
            reply = await room.end_of(sent["reply"]["id"])
            assert (reply["content"], reply["status"]) == ("Hello you.", "done")
            assert room.text_of(reply["id"]) == "Hello you." and room.gapless
            assert reply["generation"]["completion_tokens"] == len("Hello you.") + 1
            assert room.engine.requests[0].labels == {"session": session_id, "message": reply["id"]}
            opened = await room.service.open(session_id)
            assert [one["content"] for one in opened["messages"]] == ["Hi there, model", "Hello you."]
            assert opened["session"]["title"] == "Hi there, model"
            assert opened["session"]["head_id"] == reply["id"]

    play(story())


def test_everything_is_found_after_a_new_start(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["one", "two"])) as room:
            first, second = await room.new(system_prompt=""), await room.new()
            await room.ask(second, "latest")
            reply = await room.ask(first, "a question")
            other = await room.service.regenerate(reply["id"])
            await room.end_of(other["id"])
            await room.service.select(reply["id"])
            await room.service.open(first)
            before = await room.shown(first)
            await room.service.open(second)
            await room.service.open(first)
            await asyncio.sleep(0.05)
        async with ChatRoom(tmp_path / "s.db") as room:
            last = await room.service.last_session()
            assert last is not None and last["id"] == first and last["system_prompt"] == ""
            assert await room.shown(first) == before
            assert {one["id"] for one in await room.service.list_sessions()} == {first, second}

    play(story())


def test_text_with_markup_is_stored_byte_for_byte(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient([MARKUP])) as room:
            session_id = await room.new(system_prompt=MARKUP)
            await room.ask(session_id, MARKUP)
            await room.service.rename(session_id, "<b>x</b> & y")
        async with ChatRoom(tmp_path / "s.db") as room:
            opened = await room.service.open(session_id)
            assert [one["content"] for one in opened["messages"]] == [MARKUP, MARKUP]
            assert opened["session"]["system_prompt"] == MARKUP
            assert opened["session"]["title"] == "<b>x</b> & y"
            assert room.engine.requests == []

    play(story())


def test_halves_of_characters_become_replacement_characters(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session_id = await room.new()
            await room.ask(session_id, "a\ud800b \ud83d\ude00")
            assert (await room.texts(session_id))[0] == "a\ufffdb 😀"

    play(story())


def test_regenerating_adds_a_sibling_and_shows_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["one", "two", "three"])) as room:
            session_id = await room.new()
            first = await room.ask(session_id, "q")
            second = await room.end_of((await room.service.regenerate(first["id"]))["id"])
            third = await room.end_of((await room.service.regenerate(first["parent_id"]))["id"])
            assert third["siblings"] == [first["id"], second["id"], third["id"]]
            assert third["sibling_index"] == 3
            assert await room.texts(session_id) == ["q", "three"]
            await room.service.select(first["id"])
            assert await room.texts(session_id) == ["q", "one"]
            seeds = {request.params.seed for request in room.engine.requests}
            assert len(seeds) == 3
            cached = third["generation"]["cached_tokens"]
            assert cached == third["generation"]["prompt_tokens"] - 1

    play(story())


def test_editing_a_question_keeps_the_old_branch(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(lambda request: "re: " + last_text(request))) as room:
            session_id = await room.new()
            first = await room.ask(session_id, "one")
            await room.ask(session_id, "two", first["id"])
            edited = await room.service.edit(first["parent_id"], "uno")
            await room.end_of(edited["reply"]["id"])
            assert await room.texts(session_id) == ["uno", "re: uno"]
            assert edited["user"]["siblings"] == [first["parent_id"], edited["user"]["id"]]
            await room.service.select(first["parent_id"])
            assert await room.texts(session_id) == ["one", "re: one", "two", "re: two"]
            assert room.count() == 6

    play(story())


def test_editing_a_reply_makes_a_finished_sibling_without_a_generation(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["one", "two"])) as room:
            session_id = await room.new()
            first = await room.ask(session_id, "q")
            await room.ask(session_id, "and?", first["id"])
            result = await room.service.edit(first["id"], "ONE")
            assert result["reply"] is None
            assert result["message"]["status"] == "done"
            assert result["message"]["generation"] is None
            assert await room.texts(session_id) == ["q", "ONE"]
            assert len(room.engine.requests) == 2
            await room.ask(session_id, "next", result["message"]["id"])
            sent = room.engine.requests[-1].messages or []
            assert [one["content"] for one in sent] == ["q", "ONE", "next"]
            assert [one["token_ids"] is None for one in sent] == [False, True, True]
            await room.service.select(first["id"])
            assert await room.texts(session_id) == ["q", "one", "and?", "two"]

    play(story())


def test_selecting_goes_down_to_the_leaf_used_last(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["r1", "r2", "r3", "r4"])) as room:
            session_id = await room.new()
            top = await room.ask(session_id, "a")
            left = await room.ask(session_id, "left", top["id"])
            right = await room.ask(session_id, "right", top["id"])
            other = await room.end_of((await room.service.regenerate(top["id"]))["id"])
            await room.service.select(top["id"])
            assert (await room.shown(session_id))[-1]["id"] == right["id"]
            await room.service.select(left["id"])
            await room.service.select(other["id"])
            await room.service.select(top["id"])
            assert (await room.shown(session_id))[-1]["id"] == left["id"]

    play(story())


def test_a_stale_tab_makes_a_branch_and_loses_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session_id = await room.new()
            stale = reply = await room.ask(session_id, "m0")
            for turn in range(1, 5):
                reply = await room.ask(session_id, f"m{turn}", reply["id"])
            late = await room.ask(session_id, "from the old tab", stale["id"])
            assert room.count() == 12
            assert await room.texts(session_id) == ["m0", "Hello!", "from the old tab", "Hello!"]
            await room.service.select(reply["id"])
            assert len(await room.shown(session_id)) == 10
        async with ChatRoom(tmp_path / "s.db") as room:
            await room.ask(session_id, "after a restart", late["id"])
            assert room.count() == 14

    play(story())


def test_switching_chats_during_a_reply_mixes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(lambda request: f"<{last_text(request)}> " * 20, delay_s=0.001)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            first, second = await room.new(), await room.new()
            long = await room.service.send(first, None, "A")
            await room.begun(long["reply"]["id"])
            await room.service.open(second)
            other = await room.service.send(second, None, "B")
            await room.service.rename(first, "renamed meanwhile")
            middle = await room.service.open(first)
            assert middle["messages"][1]["status"] == "streaming"
            assert middle["session"]["running"]
            ends = [await room.end_of(one["reply"]["id"]) for one in (long, other)]
            assert [one["content"] for one in ends] == ["<A> " * 20, "<B> " * 20]
            assert await room.texts(first) == ["A", "<A> " * 20]
            assert await room.texts(second) == ["B", "<B> " * 20]
            titles = {one["id"]: one["title"] for one in await room.service.list_sessions()}
            assert titles == {first: "renamed meanwhile", second: "B"}
            for event in room.events:
                if event["type"] == "delta":
                    expected = first if event["message_id"] == long["reply"]["id"] else second
                    assert event["session_id"] == expected

    play(story())


def test_a_page_that_comes_back_gets_all_text_so_far_and_then_every_delta(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["0123456789" * 30], delay_s=0.001)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            reply_id = (await room.service.send(session_id, None, "q"))["reply"]["id"]
            for _ in range(8):
                await asyncio.sleep(0.02)
                deltas: list[dict] = []
                opened = await room.service.open(session_id)
                leave = room.service.subscribe(deltas.append)
                text = opened["messages"][1]["content"]
                await asyncio.sleep(0.01)
                leave()
                for event in deltas:
                    if event["type"] == "delta":
                        assert event["offset"] == len(text)
                        text += event["text"]
            assert (await room.end_of(reply_id))["content"] == "0123456789" * 30

    play(story())


def test_deleting_stops_and_hides_a_chat_and_can_be_undone(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["long " * 400], delay_s=0.001)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id, other = await room.new(), await room.new()
            sent = await room.service.send(session_id, None, "q")
            await room.begun(sent["reply"]["id"], 4)
            gone = await room.service.delete(session_id)
            assert gone["deleted_at"]
            assert [one["id"] for one in await room.service.list_sessions()] == [other]
            for refused in (room.service.open(session_id), room.service.send(session_id, None, "more")):
                with pytest.raises(SessionError, match="restore it"):
                    await refused
            await room.service.undelete(session_id)
            question, reply = await room.shown(session_id)
            assert (question["content"], reply["status"]) == ("q", "stopped")
            assert reply["content"].startswith("long")

    play(story())


def test_requests_without_sense_are_one_sentence_each(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["x" * 500], delay_s=0.002)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id, other = await room.new(), await room.new()
            sent = await room.service.send(session_id, None, "q")
            await room.begun(sent["reply"]["id"])
            service, reply_id = room.service, sent["reply"]["id"]
            for refused, word in (
                (service.send(session_id, reply_id, "too early"), "still being written"),
                (service.send(other, sent["user"]["id"], "wrong chat"), "not in this chat"),
                (service.send(session_id, None, " \n"), "empty"),
                (service.send("nowhere", None, "x"), "does not exist"),
                (service.edit(reply_id, "x"), "still being written"),
                (service.regenerate("nothing"), "does not exist"),
                (service.select("nothing"), "does not exist"),
                (service.rename(session_id, "  "), "name"),
                (service.update_settings(session_id, params={"temperature": -1}), "temperature"),
                (service.update_settings(session_id, params={"heat": 1}), "heat"),
                (service.branch_tokens(other, sent["user"]["id"]), "not in this chat"),
            ):
                with pytest.raises(PagedChatError, match=word):
                    await refused
            assert room.count() == 2

    play(story())


def test_a_refused_message_is_kept_with_the_reason_and_the_chat_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session_id = await room.new()
            first = await room.ask(session_id, "fine")
            room.engine.refuse = RequestError("The prompt has 9,000 tokens, but the context holds 2,048.")
            reply = await room.ask(session_id, "much too long", first["id"])
            assert (reply["status"], reply["content"]) == ("error", "")
            assert "9,000" in reply["error"]
            shown = await room.shown(session_id)
            assert [one["content"] for one in shown] == ["fine", "Hello!", "much too long", ""]
            assert "9,000" in shown[-1]["error"]
            await room.ask(session_id, "shorter", reply["id"])
            assert await room.texts(session_id) == ["fine", "Hello!", "shorter", "Hello!"]
            assert [one["content"] for one in room.engine.requests[-1].messages or []] == ["fine", "Hello!", "shorter"]
            siblings = (await room.shown(session_id))[2]["siblings"]
            assert len(siblings) == 2
            await room.service.select(siblings[0])
            assert (await room.texts(session_id))[2] == "much too long"

    play(story())


def test_settings_reach_the_engine(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session_id = await room.new()
            reply = await room.ask(session_id, "defaults")
            params = room.engine.requests[-1].params
            assert (params.temperature, params.top_p, params.max_tokens) == (0.2, 0.9, 1024)
            changed = {"temperature": 0.7, "seed": 5, "max_tokens": 3}
            view = await room.service.update_settings(session_id, params=changed, system_prompt="Be brief.")
            assert view["params"] == {"top_p": 0.9, **changed}
            await room.service.update_settings(session_id, params={"max_tokens": None})
            await room.ask(session_id, "again", reply["id"])
            request = room.engine.requests[-1]
            assert (request.params.temperature, request.params.seed, request.params.max_tokens) == (0.7, 5, 1024)
            assert (request.messages or [])[0]["content"] == "Be brief."

    play(story())


def test_sampling_left_alone_follows_the_model(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(info={"sampling_defaults": {"temperature": 0.6, "top_k": 20, "top_p": None}})
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            await room.ask(await room.new(), "q")
            params = room.engine.requests[-1].params
            assert (params.temperature, params.top_k, params.top_p) == (0.6, 20, 1.0)

    play(story())


def test_a_follower_that_fails_hurts_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            room.service.subscribe(lambda event: 1 / 0)
            assert (await room.ask(await room.new(), "q"))["status"] == "done"

    play(story())


def test_one_who_asks_and_leaves_at_once_still_gets_a_reply(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session_id = await room.new()
            asking = asyncio.ensure_future(room.service.send(session_id, None, "q"))
            await asyncio.sleep(0)
            asking.cancel()
            ends = await room.until(lambda: [one for one in room.events if one["type"] == "delta"])
            await room.end_of(ends[0]["message_id"])
            assert await room.texts(session_id) == ["q", "Hello!"]

    play(story())


def last_text(request) -> str:
    return (request.messages or [])[-1]["content"]


def test_a_service_that_closes_takes_no_new_message_and_leaves_no_reply_running(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["one " * 50], delay_s=0.01)) as room:
            session_id = await room.new()
            sending = asyncio.ensure_future(room.service.send(session_id, None, "a"))
            await asyncio.sleep(0)
            await room.service.close()
            reply = (await sending)["reply"]
            with pytest.raises(PagedChatError, match="closing"):
                await room.service.send(session_id, None, "b")
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient([])) as room:
            shown = await room.service.open(session_id)
            assert [one["content"] for one in shown["messages"] if one["role"] == "user"] == ["a"]
            assert all(one["status"] != "streaming" for one in shown["messages"]), reply["id"]

    play(story())
