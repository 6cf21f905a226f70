"""Chats that outgrow the context: what is sent, stored, found again and told."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from pagedchat.engine.errors import RequestError
from support.chat_room import ChatRoom, play
from support.fake_client import HEADERS, FakeEngineClient
from support.paged_client import PagedFakeClient

# A message has its header and its end beside its bytes; a system prompt of 48 has 50 tokens, the others 100.
SYSTEM, TEXT = "s" * 48, "x" * 98
LIMITS = {"max_model_len": 1001, "num_blocks": 256}  # the reply's header is one token of its own
PARAMS = {"max_tokens": 200}


def engine_of(**options: object) -> PagedFakeClient:
    return PagedFakeClient([TEXT], info=LIMITS, num_blocks=256, **options)


async def turns(room: ChatRoom, session_id: str, count: int, parent: str | None = None) -> list[dict]:
    replies = []
    for _ in range(count):
        text = f"{room.count():03}"  # no two questions are alike
        replies.append(await room.ask(session_id, text + TEXT[len(text) :], parent))
        parent = replies[-1]["id"]
    return replies


def test_the_newest_turns_are_sent_and_the_page_is_told_what_was_left_out(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", engine_of()) as room:
            session_id = await room.new(system_prompt=SYSTEM, params=PARAMS)
            replies = await turns(room, session_id, 11)
            assert all(one["status"] == "done" for one in replies)
            shown = await room.shown(session_id)
            told = replies[-1]["generation"]
            assert told["prompt_tokens"] == 751
            assert (told["left_out"], told["left_out_tokens"]) == (14, 1400)
            assert told["kept_from"] == shown[14]["id"] and shown[14]["role"] == "user"
            assert "14 earlier messages (1,400 tokens)" in told["note"]
            assert len(shown) == 22
            assert shown[-1]["generation"]["kept_from"] == told["kept_from"]
            first = replies[0]["generation"]
            assert (first["left_out"], first["kept_from"], first["note"]) == (0, shown[0]["id"], None)

    play(story())


def test_after_the_context_is_full_consecutive_turns_still_hit(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", engine_of()) as room:
            session_id = await room.new(system_prompt=SYSTEM, params=PARAMS)
            replies = [one["generation"] for one in await turns(room, session_id, 16)]
            hits = 0
            for before, now in pairwise(replies[4:]):
                fed = before["prompt_tokens"] + before["completion_tokens"]
                if now["kept_from"] == before["kept_from"]:
                    assert now["cached_tokens"] == fed - 1  # the last token was sampled, never fed
                    hits += 1
                else:
                    assert now["cached_tokens"] >= 50
            assert hits >= 6

    play(story())


def test_the_cut_survives_a_restart_and_a_regenerated_reply_hits_whole(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", engine_of()) as room:
            session_id = await room.new(system_prompt=SYSTEM, params=PARAMS)
            replies = await turns(room, session_id, 6)
        async with ChatRoom(tmp_path / "s.db", engine_of()) as room:
            (reply,) = await turns(room, session_id, 1, replies[-1]["id"])
            assert reply["generation"]["kept_from"] == replies[-1]["generation"]["kept_from"]
            again = await room.service.regenerate(reply["id"])
            again = (await room.end_of(again["id"]))["generation"]
            assert again["kept_from"] == reply["generation"]["kept_from"]
            assert again["cached_tokens"] == again["prompt_tokens"] - 1

    play(story())


@pytest.mark.parametrize("system", [SYSTEM, None])
def test_the_panel_sees_the_ids_that_were_sent(tmp_path: Path, system: str | None) -> None:
    async def story() -> None:
        engine = engine_of()
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new(system_prompt=system, params=PARAMS)
            replies = await turns(room, session_id, 12)
            ids = await room.service.branch_tokens(session_id)
            told = replies[-1]["generation"]
            assert told["left_out"] > 0
            assert len(ids) == told["prompt_tokens"] + told["completion_tokens"]
            assert ids[0] == HEADERS["system" if system else "user"]
            assert all(row["block"] is not None for row in await engine.branch(ids))
            parts = await room.service.blocks.parts(session_id)
            assert parts[0]["first"] == 0 and parts[-1] == {**parts[-1], "message": replies[-1]["id"], "end": len(ids)}
            assert all(one["end"] == other["first"] for one, other in pairwise(parts))
            tree = await room.service.prefixes.tree(session_id)
            named = [tree["messages"][place]["id"] for run in tree["runs"] for place, named in run["messages"] if named]
            assert named == [one["message"] for one in parts] and tree["branches"][0]["tokens"] == len(ids)

    play(story())


def test_a_message_longer_than_the_context_is_refused_and_the_chat_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", engine_of()) as room:
            session_id = await room.new(system_prompt=SYSTEM, params=PARAMS)
            replies = await turns(room, session_id, 6)
            stored = room.count()
            with pytest.raises(RequestError, match=r"Your message has 1,253 tokens.* context holds 1,001 "):
                await room.service.send(session_id, replies[-1]["id"], "y" * 1200)
            assert room.count() == stored
            assert (await turns(room, session_id, 1, replies[-1]["id"]))[0]["status"] == "done"

    play(story())


def test_a_system_prompt_that_leaves_no_room_is_refused_when_it_is_set(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", engine_of()) as room:
            session_id = await room.new(system_prompt=SYSTEM)
            with pytest.raises(RequestError, match=r"system prompt alone has 1,503 tokens.* 1,001 "):
                await room.service.update_settings(session_id, system_prompt="s" * 1500)
            assert (await room.service.open(session_id))["session"]["system_prompt"] == SYSTEM
            with pytest.raises(RequestError, match="system prompt alone"):
                await room.new(system_prompt="s" * 1500)

    play(story())


def test_ids_of_messages_that_were_left_out_are_not_overwritten(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient([TEXT], info=LIMITS)) as room:
            session_id = await room.new(system_prompt=SYSTEM, params=PARAMS)
            replies = await turns(room, session_id, 8)
        other = FakeEngineClient([TEXT], info={**LIMITS, "fingerprint": "another"})
        async with ChatRoom(tmp_path / "s.db", other) as room:
            reply = (await turns(room, session_id, 1, replies[-1]["id"]))[0]
            assert reply["generation"]["left_out"] > 0
            path = await room.service.prompt_path(reply["id"])
            shown = [one["id"] for one in await room.shown(session_id)]
            kept = shown.index(reply["generation"]["kept_from"])
            assert [one for one in shown if one in path.token_ids] == shown[kept:]

    play(story())
