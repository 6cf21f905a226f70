"""A stored reply is made again, id for id, from what is stored; and what has changed since is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pagedchat.engine.errors import EngineError
from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.rows import pack
from support.chat_room import ChatRoom, play
from support.chat_templates import CHATML, CHATML_WITH_DEFAULT, GEMMA
from support.fake_client import FakeEngineClient
from support.loop_client import LoopClient, scripted_loop_client, tiny_model_client

SAMPLED = {"temperature": 0.9, "max_tokens": 9, "min_tokens": 5, "seed": 11, "top_p": 0.95, "repetition_penalty": 1.1}


async def asked(room: ChatRoom, texts: str = "abc", **options: Any) -> tuple[str, list[dict[str, Any]]]:
    """A chat with a question for each letter, and its replies."""
    session, replies = await room.new(params=SAMPLED, **options), []
    for text in texts:
        replies.append(await room.ask(session, text * 7, replies[-1]["id"] if replies else None))
    return session, replies


async def same(room: ChatRoom, message_id: str, run: int | None = None) -> dict[str, Any]:
    """Make it again; it must be the same."""
    result = await room.service.reproduce(message_id, run)
    assert result["same"] is True and result["first_difference"] is None, result
    assert result["changed"] == [] and result["verified"] and result["tokens"] > 0
    return result


@pytest.mark.parametrize(
    ("template", "system"),
    [(CHATML, None), (CHATML, "Be kind."), (CHATML_WITH_DEFAULT, None), (CHATML_WITH_DEFAULT, ""), (GEMMA, "Be kind.")],
    ids=["plain", "system", "default", "empty", "gemma"],
)
def test_each_reply_of_a_chat_comes_again_and_nothing_of_that_is_stored_or_cached(tmp_path, template, system):
    async def story():
        client = scripted_loop_client(template)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            _, replies = await asked(room, system_prompt=system)
            before = (await client.snapshot())["cached"], room.count(), room.store.commits
            for reply in replies:
                assert (await same(room, reply["id"]))["tokens"] == reply["generation"]["completion_tokens"]
            assert before == ((await client.snapshot())["cached"], room.count(), room.store.commits)
            request = client.requests[-1]
            assert request.priority > 0 and not request.keep and request.request_id.startswith("own:")

    play(story())


def test_continuations_regenerated_edited_forked_and_stopped_replies_come_again(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "s.db", scripted_loop_client(CHATML)) as room:
            session, (_, second, _) = await asked(room)
            again = (await room.service.regenerate(second["id"]))["id"]
            await room.end_of(again)
            for _ in range(2):
                await room.service.continue_reply(again)
                await room.until(lambda: not room.service.core.jobs)
            for run in (1, 2, 3):
                assert (await same(room, again, run))["run"] == run
            edited = await room.service.edit((await room.shown(session))[0]["id"], "Another question")
            await room.end_of(edited["reply"]["id"])
            await same(room, edited["reply"]["id"])
            written = await room.service.edit(second["id"], "Written by a person.")
            after = await room.ask(session, "And now?", written["message"]["id"])
            await same(room, after["id"])
            fork = await room.service.fork(again)
            copy = (await room.shown(fork["id"]))[-1]
            assert copy["id"] != again
            for run in (1, 2, 3):
                await same(room, copy["id"], run)

    play(story())


def test_a_reply_that_was_stopped_comes_again_as_far_as_it_went(tmp_path):
    async def story():
        client = scripted_loop_client(CHATML)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session = await room.new(params={**SAMPLED, "max_tokens": 1000})
            reply = (await room.service.send(session, None, "Hello"))["reply"]
            await room.begun(reply["id"], 5)
            await room.service.stop(reply["id"])
            assert (await room.end_of(reply["id"]))["status"] == "stopped"
            await same(room, reply["id"])

    play(story())


def test_a_reply_that_a_stop_string_cut_comes_again(tmp_path):
    async def story():
        client = scripted_loop_client(CHATML)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session = await room.new(params={**SAMPLED, "seed": 5, "max_tokens": 40, "min_tokens": 0})
            text = (await room.ask(session, "Hello"))["content"]
            other = await room.new(
                params={**SAMPLED, "seed": 5, "max_tokens": 40, "min_tokens": 0, "stop": [text[10:12]]}
            )
            reply = await room.ask(other, "Hello")
            assert reply["generation"]["finish_reason"] == "stop" and len(reply["content"]) <= 10
            await same(room, reply["id"])

    play(story())


def test_a_reply_whose_oldest_turns_were_left_out_comes_again_in_its_fork_too(tmp_path):
    async def story():
        client = scripted_loop_client(CHATML, max_model_len=160)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            _, replies = await asked(room, "abcdefgh", system_prompt="Be kind.")
            last = replies[-1]
            assert last["generation"]["left_out"]
            await same(room, last["id"])
            await same(room, replies[3]["id"])
            fork = await room.service.fork(last["id"])
            await same(room, (await room.shown(fork["id"]))[-1]["id"])

    play(story())


def test_ids_are_equal_on_a_tiny_model_in_float32_in_company_and_after_a_restart(tmp_path):
    pytest.importorskip("torch")

    async def story():
        path, limits = tmp_path / "tiny.gguf", {"num_blocks": 64, "max_num_batched_tokens": 64}
        async with ChatRoom(tmp_path / "s.db", tiny_model_client(path, **limits)) as room:
            _, replies = await asked(room, "ab")
            result = await same(room, replies[1]["id"])
            assert result["promised"]
        async with ChatRoom(tmp_path / "s.db", tiny_model_client(path, **limits)) as room:
            others = [await room.service.send(await room.new(params=SAMPLED), None, "x" * 30) for _ in range(2)]
            for reply in replies:
                await same(room, reply["id"])
            for one in others:
                await room.end_of(one["reply"]["id"])

    play(story())


def changed(client: LoopClient, **info: Any) -> None:
    """The engine is another one now."""
    client.engine._model_info = {**client.engine._model_info, **info}


def test_what_has_changed_is_told(tmp_path):
    async def story():
        client = scripted_loop_client(CHATML)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session, (first, *_) = await asked(room)
            described = client.engine.runner.describe
            client.engine.runner.describe = lambda: {**described(), "kernels": "others"}
            result = await room.service.reproduce(first["id"])
            assert result["changed"] == ["engine"] and result["engine"] == {"kernels": ["scripted", "others"]}
            assert result["same"] is True
            client.engine.runner.describe = described
            await room.service.update_settings(session, system_prompt="Another one.")
            result = await room.service.reproduce(first["id"])
            assert (result["same"], result["changed"]) == (None, ["prompt"])
            changed(client, fingerprint="another")
            result = await room.service.reproduce(first["id"])
            assert (result["same"], result["changed"]) == (None, ["model"])

    play(story())


def test_the_first_token_that_differs_is_told(tmp_path):
    async def story():
        client = scripted_loop_client(CHATML)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            _, (first, *_) = await asked(room, "a")
            recipe = await room.service.reproduction(first["id"])
            with room.store._writer.transaction(durable=False) as connection:
                query = "SELECT header_tokens FROM message_tokens WHERE message_id = ?"
                (count,) = connection.execute(query, [first["id"]]).fetchone()
                ids = [*recipe["prompt_ids"][len(recipe["prompt_ids"]) - count :], *recipe["expected_ids"]]
                ids[count + 4] = (ids[count + 4] + 1) % 50
                connection.execute(
                    "UPDATE message_tokens SET token_ids = ? WHERE message_id = ?", [pack(ids), first["id"]]
                )
            result = await room.service.reproduce(first["id"])
            assert (result["same"], result["first_difference"], result["changed"]) == (False, 4, [])

    play(story())


def test_what_no_model_wrote_or_an_engine_that_is_not_there_is_said(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["One."])) as room:
            session = await room.new()
            reply = await room.ask(session, "Hello")
            question = (await room.shown(session))[0]["id"]
            for message_id, run in ((question, None), (reply["id"], 7)):
                with pytest.raises(SessionError, match="nothing to repeat"):
                    await room.service.reproduce(message_id, run)
            room.engine.set_status("loading")
            with pytest.raises(EngineError):
                await room.service.reproduce(reply["id"])

    play(story())


def test_the_recipe_holds_all_that_is_needed(tmp_path):
    async def story():
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["One."])) as room:
            session = await room.new(params={"seed": 7, "temperature": 0.5})
            reply = await room.ask(session, "Hello")
            recipe = await room.service.reproduction(reply["id"])
            assert recipe["seed"] == 7 and recipe["params"]["temperature"] == 0.5 and len(recipe["prompt_hash"]) == 64
            assert bytes(recipe["expected_ids"][:-1]) == b"One." and recipe["model_fingerprint"]
            assert {"pagedchat", "device", "dtype", "kernels"} <= set(recipe["engine"])

    play(story())


def test_a_temporary_chats_reply_comes_again_under_its_own_salt(tmp_path: Path) -> None:
    async def story() -> None:
        client = scripted_loop_client(CHATML)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session = (await room.service.create_session(params=SAMPLED, temporary=True))["id"]
            reply = await room.ask(session, "Hello")
            await same(room, reply["id"])
            assert client.requests[-1].salt == f"temporary:{session}"
            assert (await client.list_requests())[-1]["metrics"]["cached_tokens"] > 0

    play(story())
