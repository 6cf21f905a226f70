"""A summary is a message of the tree: later turns go on from it, the earlier ones stay, and its prompt is cached."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pagedchat.engine.errors import RequestError
from pagedchat.sessions.chat_service import ChatService
from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.summaries import INSTRUCTION, SUMMARY
from support.chat_room import ChatRoom, play
from support.chat_templates import ALL
from support.fake_client import FakeEngineClient
from support.loop_client import scripted_loop_client

GREEDY = {"temperature": 0, "max_tokens": 8}


def asked(engine: Any, place: int = -1) -> list[str]:
    """Texts of the messages of a request."""
    return [one["content"] for one in engine.requests[place].messages]


async def compact(room: ChatRoom, session: str, message_id: str | None = None) -> dict[str, Any]:
    made = await room.service.compaction.compact(session, message_id)
    return await room.end_of(made["id"])


async def chat_of(room: ChatRoom, *questions: str, **options: Any) -> tuple[str, list[dict[str, Any]]]:
    session, replies = await room.new(**options), []
    for one in questions:
        replies.append(await room.ask(session, one, replies[-1]["id"] if replies else None))
    return session, replies


def replying(**options: Any) -> FakeEngineClient:
    """Sums up when asked to, and else repeats the question's end."""

    def reply(request: Any) -> str:
        last = [one for one in request.messages if one["role"] == "user"][-1]["content"]
        return "cats and dogs" if last.startswith(INSTRUCTION) else f"re {last[-2:]}"

    return FakeEngineClient(reply, **options)


@pytest.mark.parametrize(
    ("name", "system"), [*((name, "Be kind.") for name in ALL), ("chatml_with_default", None), ("gemma", None)]
)
def test_the_summarys_prompt_is_cached_and_later_turns_extend_one_prefix(
    tmp_path: Path, name: str, system: Any
) -> None:
    async def story() -> None:
        client = scripted_loop_client(ALL[name], block_size=16, max_num_batched_tokens=2048)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session, replies = await chat_of(room, "Hello there", "And now?", system_prompt=system, params=GREEDY)
            fed = await room.service.branch_tokens(session)
            summary = await compact(room, session)
            made = summary["generation"]
            assert (summary["kind"], summary["status"], summary["parent_id"]) == (SUMMARY, "done", replies[1]["id"])
            assert made["cached_tokens"] == len(fed) - 1 and client.requests[-1].priority == 0
            assert made["completion_tokens"] == 8 and (await room.shown(session))[-1]["id"] == summary["id"]
            third = await room.ask(session, "What next?", summary["id"])
            sent = client.requests[-1].messages or []
            assert [one["role"] for one in sent] == (["system", "user"] if system else ["user"])
            assert summary["content"].strip() in sent[-1]["content"] and sent[-1]["content"].endswith("What next?")
            assert third["generation"]["prompt_tokens"] < made["prompt_tokens"]
            for text in ("More", "And more"):
                fed = await room.service.branch_tokens(session)
                third = await room.ask(session, text, third["id"])
                assert third["generation"]["cached_tokens"] == len(fed) - 1
                assert asked(client)[-1] == text and sum(INSTRUCTION in one for one in asked(client)) == 0
            assert (await room.service.reproduce(third["id"]))["same"] is True
            assert (await room.service.reproduce(summary["id"]))["same"] is True
            assert len(await room.texts(session)) == 4 + 1 + 6, "nothing of the chat is gone"

    play(story())


def test_the_probe_the_shown_blocks_and_a_title_begin_at_the_summary_too(tmp_path: Path) -> None:
    async def story() -> None:
        engine = replying()
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            room.service = ChatService(room.store, engine, titles="model")
            room.service.subscribe(room._hear)
            session, _ = await chat_of(room, "q1", "q2", system_prompt="Be kind.")
            await room.until(lambda: not room.service._titles._tasks)
            titles = sum(one.request_id.startswith("own:title") for one in engine.requests)
            summary = await compact(room, session)
            await asyncio.sleep(0.02)
            assert sum(one.request_id.startswith("own:title") for one in engine.requests) == titles
            question = (await room.service.question(session, summary["id"], "q3"))["messages"]
            assert [one["role"] for one in question] == ["system", "user"] and "cats and dogs" in question[1]["content"]
            assert await room.service.branch_tokens(session) == question[0]["token_ids"]
            third = await room.ask(session, "q3", summary["id"])
            assert asked(engine) == [one["content"] for one in question]
            whole = question[1]["content"].encode()
            assert bytes(one for one in await room.service.branch_tokens(session) if one < 256).count(whole) == 1
            after = (await room.service.question(session, third["id"], "q4"))["messages"]
            assert [one["content"] for one in after][1:] == [question[1]["content"], "re q3", "q4"]
            before = (await room.service.question(session, summary["parent_id"], "q3"))["messages"]
            assert len(before) == 6 and before[-1]["content"] == "q3", "from before it the chat goes on as ever"

    play(story())


def test_a_summary_is_written_calmly_in_a_wild_chat(tmp_path: Path) -> None:
    async def story() -> None:
        engine = replying()
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            penalties = {"presence_penalty": 1.5, "repetition_penalty": 1.4, "dry_multiplier": 0.8, "min_tokens": 9}
            wild = {"temperature": 1.9, "max_tokens": 8000, "seed": 7, "stop": ["x"], **penalties}
            session, _ = await chat_of(room, "q1", params=wild)
            made = await compact(room, session)
            params = engine.requests[-1].params
            assert (params.temperature, params.max_tokens, params.seed, params.stop) == (0.3, 1024, 7, [])
            assert (params.presence_penalty, params.repetition_penalty, params.dry_multiplier) == (0.0, 1.0, 0.0)
            assert params.min_tokens == 0
            again = await room.service.regenerate(made["id"], 1, {"temperature": 0.7})
            await room.end_of(again["id"])
            assert engine.requests[-1].params.temperature == 0.7, "what is chosen for it alone acts"
            await room.ask(session, "q2", again["id"])
            assert engine.requests[-1].params.temperature == 1.9, "the chat goes on as it was"

    play(story())


def test_a_summary_that_is_stopped_fails_or_says_nothing_leaves_the_chat_as_it_was(tmp_path: Path) -> None:
    async def story() -> None:
        engine = replying(delay_s=0.004)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session, replies = await chat_of(room, "q1")
            before = [one["id"] for one in await room.shown(session)]
            made = await room.service.compaction.compact(session)
            await room.begun(made["id"], 4)
            with pytest.raises(SessionError, match="being written"):
                await room.service.compaction.compact(session)
            await room.service.stop(made["id"])
            assert [one["id"] for one in await room.shown(session)] == before
            engine.refuse = RequestError("The engine is out of breath.")
            failed = await compact(room, session)
            assert failed["status"] == "error" and failed["hidden"] and "breath" in failed["error"]
            engine.replies = lambda request: ""
            assert (await compact(room, session))["hidden"]
            assert [one["id"] for one in await room.shown(session)] == before
            assert (await room.ask(session, "q2", replies[0]["id"]))["status"] == "done"
            assert asked(engine)[-1] == "q2" and len(asked(engine)) == 3

    play(story())


def test_what_cannot_be_summed_up_is_said(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", replying()) as room:
            empty = await room.new()
            with pytest.raises(SessionError, match="empty"):
                await room.service.compaction.compact(empty)
            session, replies = await chat_of(room, "q1")
            with pytest.raises(SessionError, match="not in this chat"):
                await room.service.compaction.compact(empty, replies[0]["id"])
            with pytest.raises(SessionError, match="no reply"):
                await room.service.compaction.compact(session, replies[0]["parent_id"])
            await compact(room, session)
            with pytest.raises(SessionError, match="Nothing follows"):
                await room.service.compaction.compact(session)

    play(story())


def test_edited_regenerated_and_continued_summaries_are_siblings_and_each_goes_its_own_way(tmp_path: Path) -> None:
    async def story() -> None:
        engine = replying()
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session, _ = await chat_of(room, "q1", "q2")
            first = await compact(room, session)
            third = await room.ask(session, "q3", first["id"])
            edited = (await room.service.edit(first["id"], "only cats"))["message"]
            assert (edited["kind"], edited["siblings"]) == (SUMMARY, [first["id"], edited["id"]])
            await room.ask(session, "q3", edited["id"])
            assert "only cats" in asked(engine)[0] and len(asked(engine)) == 1
            again = (await room.service.regenerate(first["id"]))["id"]
            done = await room.end_of(again)
            assert (done["kind"], done["content"], done["sibling_index"]) == (SUMMARY, "cats and dogs", 3)
            assert asked(engine)[-1] == INSTRUCTION and len(asked(engine)) == 5
            await room.service.select(third["id"])
            await room.ask(session, "q4", third["id"])
            assert "cats and dogs" in asked(engine)[0] and asked(engine)[1:] == ["re q3", "q4"]
            copy = await room.service.continue_reply(edited["id"])
            assert copy["kind"] == SUMMARY, "one that was answered is gone on with in a copy"
            assert (await room.end_of(copy["id"]))["content"].startswith("only cats")
            sent = engine.requests[-1]
            assert not sent.add_generation_prompt and asked(engine)[-2:] == [INSTRUCTION, "only cats"]
            second = await compact(room, session, third["id"])
            assert len(asked(engine)) == 3 and "cats and dogs" in asked(engine)[0]
            await room.ask(session, "q5", second["id"])
            assert len(asked(engine)) == 1

    play(story())


def test_a_summary_cut_by_the_limit_is_continued_in_place_and_comes_again_in_both_runs(tmp_path: Path) -> None:
    async def story() -> None:
        client = scripted_loop_client(ALL["chatml"])
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session, _ = await chat_of(room, "Hello", params=GREEDY)
            summary = await compact(room, session)
            assert summary["generation"]["finish_reason"] == "length"
            await room.service.continue_reply(summary["id"])
            await room.until(lambda: not room.service.core.jobs)
            longer = (await room.shown(session))[-1]
            assert longer["id"] == summary["id"] and longer["content"].startswith(summary["content"])
            assert longer["generation"]["cached_tokens"] == longer["generation"]["prompt_tokens"] - 1
            for run in (1, 2):
                assert (await room.service.reproduce(summary["id"], run))["same"] is True
            await room.service.continue_reply(summary["id"])
            await room.service.stop(summary["id"])
            assert (await room.shown(session))[-1]["content"].startswith(longer["content"]), "what there was stays"
            look = await room.service.tokens.alternatives(summary["id"], 3, 2)
            made = await room.service.tokens.branch_at(summary["id"], 3, look["alternatives"][1]["id"])
            branch = await room.end_of(made["id"])
            assert branch["kind"] == SUMMARY and branch["generation"]["cached_tokens"] > 0

    play(story())


def test_forks_trash_search_and_a_new_system_prompt_cope_with_summaries(tmp_path: Path) -> None:
    async def story() -> None:
        engine = replying()
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session, replies = await chat_of(room, "q1", system_prompt="Be kind.")
            summary = await compact(room, session)
            third = await room.ask(session, "q3", summary["id"])
            fork = await room.service.fork(third["id"])
            shown = await room.shown(fork["id"])
            assert [one["kind"] for one in shown] == [None, None, SUMMARY, None, None]
            again = await room.ask(fork["id"], "q4", shown[-1]["id"])
            assert len(asked(engine)) == 4 and again["generation"]["cached_tokens"] > 0
            assert (await room.service.library.search("cats dogs"))["total"] == 2
            await room.service.update_settings(session, system_prompt="Be short.")
            await room.ask(session, "q5", third["id"])
            assert (engine.requests[-1].messages or [])[1]["token_ids"] is None, "its ids may hold the old one"
            for name, words in (
                ("markdown", "## Summary"),
                ("openai", "Summary of what"),
                ("sharegpt", "Summary of what"),
            ):
                assert words in (await room.service.library.export([session], name))[2].decode()
            _, _, ours = await room.service.library.export([session], "pagedchat")
            assert ours.count(b'"summary"') == 1
            gone = await room.service.delete_branch(summary["id"])
            assert (await room.shown(session))[-1]["id"] == replies[0]["id"]
            await room.service.restore_branch(gone["undo"])
            assert SUMMARY in [one["kind"] for one in await room.shown(session)]

    play(story())


def test_a_branch_that_does_not_fit_leaves_its_oldest_turns_out_but_never_the_earlier_summary(tmp_path: Path) -> None:
    async def story() -> None:
        engine = replying(info={"max_model_len": 1300})
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session, replies = await chat_of(room, *(f"{'x' * 150} {number}" for number in range(6)))
            made = (await compact(room, session))["generation"]
            assert made["left_out"] and made["left_out_tokens"], "the card says so"
            parent = (await room.shown(session))[-1]["id"]
            for number in range(6):
                parent = (await room.ask(session, f"{'y' * 150} {number}", parent))["id"]
            await compact(room, session)
            assert asked(engine)[-1] == INSTRUCTION and engine.prompt_text().count("cats and dogs") == 1
        engine = replying(info={"max_model_len": len(INSTRUCTION) + 60})
        async with ChatRoom(tmp_path / "t.db", engine) as room:
            session, replies = await chat_of(room, "x" * 100)
            failed = await compact(room, session)
            assert "Not even the last turn" in failed["error"]
            assert (await room.shown(session))[-1]["id"] == replies[0]["id"]

    play(story())


def test_what_a_question_costs_does_not_grow_with_what_is_above_the_summary(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", replying(info={"max_model_len": 1 << 20})) as room:
            session, _ = await chat_of(room, *(f"q{number}" for number in range(30)))
            summary = await compact(room, session)
            last = await room.ask(session, "q2", summary["id"])
            path = await room.service.prompt_path(last["id"])
            assert len(path.messages) == 2 and len(path.token_ids) == 2 and path.summary is not None
            with room.store._reader.reading() as connection:
                plan = str(
                    [
                        tuple(row)
                        for row in connection.execute(
                            "EXPLAIN QUERY PLAN SELECT id FROM messages WHERE "
                            "session_id = ? AND kind = 'summary' AND status != 'streaming'",
                            [session],
                        )
                    ]
                )
            assert "messages_summaries" in plan

    play(story())
