"""What replies without any text wait for, as the page is told."""

from __future__ import annotations

from typing import Any

from pagedchat.ui.waits_calls import waits_of


def row(message: str, state: str, **more: Any) -> dict[str, Any]:
    labels = {"session": f"chat of {message}", "message": message}
    return {"labels": labels, "state": state, "num_tokens": 400, "num_computed": 0, "metrics": {}, **more}


def test_each_reply_is_told_with_what_it_waits_for():
    found = waits_of(
        [
            row("ended", "finished", metrics={"completion_tokens": 9}),
            row("writes", "running", num_computed=410, num_tokens=411, metrics={"completion_tokens": 11}),
            row("reads", "running", num_computed=256),
            row("first", "waiting"),
            row("follower", "waiting", pending_on="reads"),
            row("third", "waiting"),
        ]
    )
    assert found == {
        "reads": {"state": "reading", "done": 256, "total": 400, "session": "chat of reads"},
        "first": {"state": "waiting", "ahead": 0, "session": "chat of first"},
        "follower": {"state": "pending", "session": "chat of follower"},
        "third": {"state": "waiting", "ahead": 2, "session": "chat of third"},
    }


def test_requests_that_are_no_replies_and_engines_that_tell_less_are_left_out():
    assert (
        waits_of([{"request_id": "r", "state": "running"}, {"labels": {"session": "a title"}, "state": "waiting"}])
        == {}
    )
