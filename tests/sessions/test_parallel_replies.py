"""Several replies to one question at once, and replies with settings of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pagedchat.engine.errors import RequestError
from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.sampling import sibling_seeds
from support.chat_room import ChatRoom, play
from support.chat_templates import CHATML
from support.fake_client import FakeEngineClient
from support.loop_client import LoopClient, scripted_loop_client

PARAMS = {"temperature": 0.8, "max_tokens": 6, "min_tokens": 6}


async def at_once(room: ChatRoom, message_id: str, n: int, **options: Any) -> list[dict[str, Any]]:
    """So many replies begun together: their views once all have ended."""
    first = await room.service.regenerate(message_id, n, **options)
    return [await room.end_of(one) for one in first["siblings"][-n:]]


def test_four_replies_run_at_once_and_compute_their_prompt_once(tmp_path: Path) -> None:
    async def story() -> None:
        client = scripted_loop_client(CHATML, client=Watched)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session = await room.new(params=PARAMS)
            asked = await room.ask(session, "A question that fills several blocks of four tokens")
            await client.reset_cache()
            before = client.engine.metrics()["counters"]
            replies = await at_once(room, asked["id"], 4)
            after = client.engine.metrics()["counters"]
            prompt = replies[0]["generation"]["prompt_tokens"]
            assert client.most_running == 4
            assert after["prompt_tokens_total"] - before["prompt_tokens_total"] == 4 * prompt
            assert after["prompt_tokens_cached_total"] - before["prompt_tokens_cached_total"] == 3 * (prompt - 1)
            assert [one["generation"]["computed_tokens"] for one in replies] == [prompt, 1, 1, 1]
            assert all(one["generation"]["blocks_shared"] > 0 for one in replies[1:])
            assert len({one["content"] for one in replies}) == len({one["generation"]["seed"] for one in replies}) == 4
            assert [one["sibling_index"] for one in replies] == [2, 3, 4, 5]
            shown = await room.service.open(session)
            assert shown["session"]["head_id"] == replies[0]["id"] and len(shown["messages"]) == 2
            assert [one["status"] for one in replies] == ["done"] * 4

    play(story())


class Watched(LoopClient):
    """Knows how many requests ran at the same time at most."""

    most_running = 0

    async def generate(self, request: Any) -> Any:
        async for item in super().generate(request):
            self.most_running = max(self.most_running, self.engine.stats()["running"])
            yield item


def test_with_a_fixed_seed_the_first_gets_it_and_the_others_what_follows_from_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", scripted_loop_client(CHATML)) as room:
            session = await room.new(params={**PARAMS, "seed": 7})
            asked = await room.ask(session, "Say something")
            told = [await at_once(room, asked["id"], 3) for _ in range(2)]
            for replies in told:
                assert [one["generation"]["seed"] for one in replies] == sibling_seeds(7, 3)
            texts = [[one["content"] for one in replies] for replies in told]
            assert texts[0] == texts[1] and len(set(texts[0])) == 3 and texts[0][0] == asked["content"]
            for one in told[0]:
                assert (await room.service.reproduce(one["id"]))["same"] is True

    assert sibling_seeds(7, 8)[:3] == sibling_seeds(7, 3) and len(set(sibling_seeds(7, 8))) == 8
    play(story())


def test_settings_of_one_reply_leave_the_chat_and_its_siblings_as_they_are(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", scripted_loop_client(CHATML)) as room:
            session = await room.new(params={**PARAMS, "seed": 5})
            asked = await room.ask(session, "Say something")
            own = {"temperature": 1.7, "max_tokens": 8, "min_tokens": 8, "seed": None, "top_p": 0.9}
            (again,) = await at_once(room, asked["id"], 1, params=own)
            facts = await room.service.facts.details(again["id"])
            (run,) = facts["runs"]
            assert run["params"] == {"temperature": 1.7, "max_tokens": 8, "min_tokens": 8, "top_p": 0.9}
            assert run["own"] == own and run["seed"] != 5 and again["generation"]["own"] == own
            assert again["generation"]["completion_tokens"] == 8
            assert (await room.service.reproduce(again["id"]))["same"] is True
            assert (await room.shown(session))[-1]["id"] == again["id"]
            plain = await room.service.regenerate(again["id"])
            done = await room.end_of(plain["id"])
            assert "own" not in done["generation"] and done["content"] == asked["content"]
            assert (await room.service.core.session(session)).params == {**PARAMS, "seed": 5}

    play(story())


def test_a_reply_that_is_continued_keeps_its_own_settings(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", scripted_loop_client(CHATML)) as room:
            session = await room.new(params=PARAMS)
            asked = await room.ask(session, "Say something")
            (again,) = await at_once(room, asked["id"], 1, params={"temperature": 1.5})
            await room.service.continue_reply(again["id"])
            await room.until(lambda: not room.service.core.jobs)
            runs = (await room.service.facts.details(again["id"]))["runs"]
            assert [run["own"] for run in runs] == [{"temperature": 1.5}] * 2
            assert [run["params"]["temperature"] for run in runs] == [1.5, 1.5]
            assert (await room.service.reproduce(again["id"], 2))["same"] is True

    play(story())


def test_each_of_several_has_its_own_stop_and_what_it_has_is_kept(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(lambda request: "word " * 40, delay_s=0.001)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session = await room.new()
            asked = await room.ask(session, "Go")
            first = await room.service.regenerate(asked["id"], 3)
            ids = first["siblings"][-3:]
            assert set(room.service.core.jobs) == set(ids)
            for one in ids:
                await room.begun(one, 5)
            await room.service.stop(ids[1])
            assert room.service.core.jobs.keys() == {ids[0], ids[2]}
            ends = [await room.end_of(one) for one in ids]
            assert [one["status"] for one in ends] == ["done", "stopped", "done"]
            assert ends[1]["content"].startswith("word") and ends[0]["content"] == "word " * 40
            await room.service.stop(ids[1])  # what has ended is left alone

    play(story())


def test_of_several_that_end_without_text_the_head_goes_back_to_what_was_shown(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["A reply", "", "", "text"])
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session = await room.new()
            asked = await room.ask(session, "Go")
            engine.gate = asyncio.Event()
            first = await room.service.regenerate(asked["id"], 3)
            engine.gate.set()
            await room.until(lambda: not room.service.core.jobs)
            shown = (await room.shown(session))[-1]
            assert shown["id"] == asked["id"] and shown["siblings"] == [asked["id"], first["siblings"][-1]]

    play(story())


@pytest.mark.parametrize(
    ("n", "params", "error", "words"),
    [
        (0, None, SessionError, "From 1 to 8 replies"),
        (9, None, SessionError, "not 9"),
        (2, {"warmth": 1}, SessionError, "no such sampling setting"),
        (1, {"temperature": -1}, RequestError, "temperature"),
        (1, {"min_tokens": 5000}, RequestError, "min_tokens"),
    ],
)
def test_what_has_no_meaning_is_refused_before_anything_is_stored(
    tmp_path: Path, n: int, params: dict[str, Any] | None, error: type[Exception], words: str
) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            asked = await room.ask(await room.new(params={"max_tokens": 100}), "Go")
            before = room.count()
            with pytest.raises(error, match=words):
                await room.service.regenerate(asked["id"], n, params)
            assert room.count() == before

    play(story())
