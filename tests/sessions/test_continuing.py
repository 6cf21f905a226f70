"""Going on with a reply that a person wrote or another model began: its text is sent, and what follows is new."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagedchat.sessions.errors import SessionError
from support.chat_room import ChatRoom, play
from support.chat_templates import ALL
from support.fake_client import END, HEADERS, FakeEngineClient
from support.loop_client import scripted_loop_client


def sent_ids(engine: FakeEngineClient) -> list[list[int] | None]:
    return [one["token_ids"] for one in engine.requests[-1].messages or []]


def test_an_edited_reply_is_continued_from_its_text(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["one", "and so on", "next"])
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            first = await room.ask(session_id, "q")
            question = (await room.service.branch_tokens(session_id))[:3]
            edited = (await room.service.edit(first["id"], "My words, "))["message"]
            assert (await room.service.continue_reply(edited["id"]))["id"] == edited["id"]
            done = await room.end_of(edited["id"])
            assert (done["content"], done["status"]) == ("My words, and so on", "done")
            request = engine.requests[-1]
            assert not request.add_generation_prompt and sent_ids(engine) == [question, None]
            assert done["generation"]["cached_tokens"] == len(question) + 1  # the reply's header, too
            whole = [*question, HEADERS["assistant"], *b"My words, and so on", END]
            assert await room.service.branch_tokens(session_id) == whole
            again = await room.ask(session_id, "b", edited["id"])
            assert again["generation"]["cached_tokens"] == len(whole)
            with pytest.raises(SessionError, match="cut off"):
                await room.service.continue_reply(edited["id"])
            await room.service.select(first["id"])
            assert await room.texts(session_id) == ["q", "one"]

    play(story())


def test_an_edited_reply_that_was_answered_is_continued_in_a_copy_without_its_end(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["one", "two", " go on"])
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            first = await room.ask(session_id, "q")
            edited = (await room.service.edit(first["id"], "mine"))["message"]
            await room.ask(session_id, "b", edited["id"])
            copy = await room.service.continue_reply(edited["id"])
            assert (await room.end_of(copy["id"]))["content"] == "mine go on"
            assert copy["copied_from"] == edited["id"]
            assert (await room.service.branch_tokens(session_id))[3:] == [HEADERS["assistant"], *b"mine go on", END]
            await room.service.select(edited["id"])
            assert await room.texts(session_id) == ["q", "mine", "b", "two"]

    play(story())


def test_a_reply_cut_off_under_another_model_goes_on_as_text(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["abcd"], info={"fingerprint": "A"})) as room:
            session_id = await room.new(params={"max_tokens": 2})
            first = await room.ask(session_id, "q")
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["XY"], info={"fingerprint": "B"})) as room:
            await room.service.continue_reply(first["id"])
            assert (await room.end_of(first["id"]))["content"] == "abXY"
            assert sent_ids(room.engine) == [None, None]
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["?"], info={"fingerprint": "A"})) as room:
            await room.ask(session_id, "b", first["id"])
            sent = room.engine.requests[-1].messages or []
            assert [one["content"] for one in sent] == ["q", "abXY", "b"]
            assert [one is None for one in sent_ids(room.engine)] == [False, True, True]  # A's ids lack what B wrote

    play(story())


def test_thinking_that_was_cut_off_under_another_model_cannot_go_on(tmp_path: Path) -> None:
    async def story() -> None:
        thinker = FakeEngineClient(["<think>abcdefgh"], info={"fingerprint": "A"})
        thinker.marks_thinking = True
        async with ChatRoom(tmp_path / "s.db", thinker) as room:
            session_id = await room.new(params={"max_tokens": 10})
            first = await room.ask(session_id, "q")
            assert (first["content"], first["reasoning"]) == ("", "abc")
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["XY"], info={"fingerprint": "B"})) as room:
            with pytest.raises(SessionError, match="regenerate"):
                await room.service.continue_reply(first["id"])
            assert (await room.shown(session_id))[-1]["status"] == "done"

    play(story())


def test_a_message_of_any_role_is_edited_into_a_sibling(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session_id = await room.new()
            reply = await room.ask(session_id, "q")
            with room.store._writer.transaction(durable=False) as connection:
                connection.execute("UPDATE messages SET role = 'system' WHERE id = ?", [reply["parent_id"]])
            edited = await room.service.edit(reply["parent_id"], "Be short.")
            assert (edited["message"]["role"], edited["message"]["status"]) == ("system", "done")
            assert edited["reply"] is None and edited["message"]["siblings"] == [
                reply["parent_id"],
                edited["message"]["id"],
            ]
            assert await room.texts(session_id) == ["Be short."]
            with pytest.raises(SessionError, match="cut off"):
                await room.service.continue_reply(edited["message"]["id"])
            await room.ask(session_id, "q", edited["message"]["id"])
            assert [one["role"] for one in room.engine.requests[-1].messages or []] == ["system", "user"]

    play(story())


@pytest.mark.parametrize("name", ALL)
def test_real_prompts_end_in_the_edited_text_and_the_next_turn_extends_them(tmp_path: Path, name: str) -> None:
    async def story() -> None:
        client = scripted_loop_client(ALL[name])
        tokenizer = client.engine.tokenizer
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session_id = await room.new(params={"max_tokens": 9})
            first = await room.ask(session_id, "A question?")
            asked = client.requests[-1]
            edited = (await room.service.edit(first["id"], "My own words go"))["message"]
            await room.service.continue_reply(edited["id"])
            done = await room.end_of(edited["id"])
            assert done["content"].startswith("My own words go") and len(done["content"]) > len("My own words go")
            assert done["generation"]["completion_tokens"] and not client.requests[-1].add_generation_prompt
            sent = tokenizer.join_bytes(await room.service.branch_tokens(session_id)).decode(errors="replace")
            header = sent[: sent.index("My own words go")]
            before = (await client.build_prompt(asked.messages or [], True, asked.begun_at)).prompt_token_ids
            assert header == tokenizer.join_bytes(before).decode()  # as if the model had begun so
            fed = await room.service.branch_tokens(session_id)
            after = await room.ask(session_id, "And now?", edited["id"])
            assert after["generation"]["cached_tokens"] == len(fed) - 1

    play(story())
