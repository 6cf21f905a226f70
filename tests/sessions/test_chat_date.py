"""B13: a chat's date is the day it began, whatever the clock says when its turns are sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pagedchat.engine import chat_date, template_sandbox
from pagedchat.sessions import new_session
from support.chat_room import ChatRoom, play
from support.chat_templates import CLOCKED, DATED
from support.loop_client import scripted_loop_client

BEGUN = datetime(2026, 11, 29, 23, 59, 50)


class Clock(datetime):
    """The local time of day, wherever a prompt or a chat may take it from."""

    at = BEGUN

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return cls.at if tz is None else cls.at.astimezone(tz)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    monkeypatch.setattr(Clock, "at", BEGUN)
    monkeypatch.setattr(chat_date, "_today", Clock.now)
    monkeypatch.setattr(template_sandbox, "datetime", Clock)
    monkeypatch.setattr(new_session, "now", lambda: Clock.now(UTC).isoformat())
    return Clock


@pytest.mark.parametrize("template", [DATED, CLOCKED], ids=["variable", "clock"])
@pytest.mark.parametrize("system", [None, "Be brief."])
@pytest.mark.parametrize("later", [timedelta(seconds=20), timedelta(minutes=1), timedelta(days=40)])
def test_b13_turn_two_finds_all_of_turn_one_whatever_day_it_is(tmp_path, clock, template, system, later):
    async def story():
        client = scripted_loop_client(template)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session = await room.new(system_prompt=system, params={"temperature": 0, "max_tokens": 8})
            first = await room.ask(session, "What day is it?")
            sent = await room.service.branch_tokens(session)
            text = client.engine.tokenizer.decode(sent, skip_special=False)
            assert "29 Nov 2026" in text and "2024" not in text
            clock.at = BEGUN + later
            second = await room.ask(session, "And now?", first["id"])
            had = first["generation"]["prompt_tokens"] + first["generation"]["completion_tokens"] - 1
            assert second["generation"]["cached_tokens"] == had
            assert (await room.service.branch_tokens(session))[: len(sent)] == sent
            fork = await room.service.fork(first["id"])
            third = await room.ask(fork["id"], "And there?", fork["head_id"])
            assert third["generation"]["cached_tokens"] >= had, "a fork keeps the date of what it was forked from"
            assert (await room.service.reproduce(first["id"]))["same"]
            new = await room.new(params={"temperature": 0, "max_tokens": 8})
            await room.ask(new, "What day is it?")
            written = client.engine.tokenizer.decode(await room.service.branch_tokens(new), skip_special=False)
            assert clock.at.strftime("%d %b %Y") in written, "another chat has its own day"

    play(story())
