"""Every call of a page is answered, whatever goes wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pagedchat.ui import calls


@pytest.mark.parametrize("error", [AttributeError("x"), OSError("x"), RuntimeError("x"), KeyError("x"), TypeError("x")])
def test_a_call_that_fails_unexpectedly_is_answered_with_a_sentence(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(connection: Any, frame: dict[str, Any]) -> None:
        raise error

    monkeypatch.setitem(calls.CALLS, "broken", broken)
    reply = asyncio.run(calls.answer(None, {"id": 7, "op": "broken"}))  # type: ignore[arg-type]
    assert reply["re"] == 7
    assert reply["error"].endswith(".")


@pytest.mark.parametrize("op", [["send"], {}, 5, None, "no such call"])
def test_a_call_of_an_unknown_name_is_answered(op: Any) -> None:
    reply = asyncio.run(calls.answer(None, {"id": 8, "op": op}))  # type: ignore[arg-type]
    assert reply["re"] == 8
    assert reply["error"]


@pytest.mark.parametrize(("op", "field"), [("settings", "change"), ("create", "params")])
@pytest.mark.parametrize("value", [7, [1], "text"])
def test_settings_that_are_none_are_refused_with_a_sentence(op: str, field: str, value: Any) -> None:
    reply = asyncio.run(calls.answer(None, {"id": 9, "op": op, field: value}))  # type: ignore[arg-type]
    assert reply == {"re": 9, "error": "The page sent settings that are none; reload it."}
