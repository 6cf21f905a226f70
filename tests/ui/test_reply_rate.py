"""How fast a reply is said to be written: nothing, until there is enough of it to tell."""

from __future__ import annotations

import pytest

from pagedchat.sessions.rows import Generation
from pagedchat.sessions.views import tokens_per_second
from pagedchat.ui import reply_rate


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [50.0]
    monkeypatch.setattr(reply_rate.time, "monotonic", lambda: now[0])
    return now


def test_tokens_that_come_at_once_are_no_speed_and_a_span_of_them_is_one(clock: list[float]) -> None:
    rate = reply_rate.ReplyRate()
    for tokens in (1, 2, 3):
        rate.take(tokens)
        clock[0] += 0.00003
    assert rate.per_second is None
    clock[0] = 50.4
    rate.take(5)
    assert rate.per_second is None
    clock[0] = 52.0
    rate.take(21)
    assert rate.per_second == pytest.approx(10.0)


@pytest.mark.parametrize(("tokens", "speed"), [(None, None), (1, None), (3, None), (4, 6.0), (11, 20.0)])
def test_a_reply_of_a_few_tokens_has_no_speed(tokens: int | None, speed: float | None) -> None:
    run = Generation("m", completion_tokens=tokens, decode_s=0.5)
    assert tokens_per_second(run) == speed
