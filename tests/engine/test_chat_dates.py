"""Dates in prompts: the day the chat began, never the template's own, and never another one for what was sent."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from pagedchat.engine import chat_date, template_sandbox
from support.chat_engine import ChatEngine, said
from support.chat_templates import CLOCKED, DATED

BEGUN = datetime(2026, 11, 29, 23, 59, 50)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The time of day, wherever a prompt may take it from."""

    class Clock(datetime):
        at = BEGUN

        @classmethod
        def now(cls, tz=None):
            return cls.at if tz is None else cls.at.astimezone(tz)

    monkeypatch.setattr(chat_date, "_today", Clock.now)
    monkeypatch.setattr(template_sandbox, "datetime", Clock)
    return Clock


@pytest.mark.parametrize("template", [DATED, CLOCKED])
@pytest.mark.parametrize("system", [None, "Be brief."])
@pytest.mark.parametrize("later", [timedelta(seconds=20), timedelta(minutes=1), timedelta(days=40)])
def test_a_kept_chat_has_the_date_it_began_and_hits_after_midnight(
    clock: Any, template: str, system: str | None, later: timedelta
) -> None:
    chat = ChatEngine(template)
    begun_at = BEGUN.astimezone().isoformat()
    messages = [] if system is None else [said("system", system)]
    messages.append(said("user", "What day is it?"))
    first, _, output = chat.say(messages, "Sunday.", begun_at=begun_at)
    text = chat.tokenizer.decode(first.prompt_token_ids, skip_special=False)
    assert "29 Nov 2026" in text and "2024" not in text
    clock.at = BEGUN + later
    # Nothing is known of the ids that were sent: the worst case.
    again = chat.prompting.start(chat.request(messages, begun_at=begun_at))
    assert again.prompt_token_ids == first.prompt_token_ids
    kept = [
        said(one["role"], one["content"], ids if one["role"] == "user" else None)
        for one, ids in zip(messages, first.segments, strict=True)
    ]
    kept += [said("assistant", "Sunday.", first.generation_ids + output), said("user", "And now?")]
    second, metrics, _ = chat.say(kept, "Still Sunday.", begun_at=begun_at)
    assert metrics.cached_tokens == len(first.prompt_token_ids) + len(output) - 1
    assert second.note is None and second.first_difference is None


def test_a_chat_that_nobody_keeps_has_todays_date(clock: Any) -> None:
    chat = ChatEngine(DATED)
    clock.at = datetime(2027, 1, 2, 12)
    started = chat.prompting.start(chat.request([said("user", "What day is it?")]))
    assert "Today Date: 02 Jan 2027" in chat.tokenizer.decode(started.prompt_token_ids, skip_special=False)
    args = {"date_string": "01 Apr 2030"}
    started = chat.prompting.start(chat.request([said("user", "What day is it?")], template_args=args))
    assert "Today Date: 01 Apr 2030" in chat.tokenizer.decode(started.prompt_token_ids, skip_special=False)


def test_chats_of_many_days_leave_no_more_than_a_few_variants_behind() -> None:
    chat = ChatEngine(DATED)
    for day in range(1, 29):
        begun_at = f"2026-02-{day:02}T12:00:00+00:00"
        started = chat.prompting.start(chat.request([said("user", "Hi")], begun_at=begun_at))
        assert f"{day:02} Feb 2026" in chat.tokenizer.decode(started.prompt_token_ids, skip_special=False)
    assert len(chat.builder._variants) <= 8
