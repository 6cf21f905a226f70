"""Every call of a page is answered, whatever goes wrong."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pagedchat.ui import calls
from pagedchat.ui.connection import Connection
from pagedchat.ui.hub import Hub
from pagedchat.ui.views import list_item
from support.chat_room import ChatRoom


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


WRONG = (None, 7, 1.5, True, "text", [1], {"a": 1}, 1 << 70, -1)


@pytest.mark.parametrize("op", sorted(calls.CALLS))
def test_no_call_meets_an_internal_error_whatever_kinds_it_carries(op: str, tmp_path: Path) -> None:
    names = ("session", "message", "parent", "folder", "branch", "preset", "a", "b", "text", "title", "name", "query")
    others = ("mode", "on", "temporary", "version", "limit", "offset", "ids", "change", "params", "system_prompt")
    others += ("queued", "file", "files", "place")

    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db") as room:
            hub = Hub(room.service, room.engine)
            connection = Connection(hub, lambda data: asyncio.sleep(0))
            for value in WRONG:
                for given in ((*names, *others), others):
                    frame: dict[str, Any] = {**dict.fromkeys(names), **dict.fromkeys(given, value)}
                    reply = await calls.answer(connection, {**frame, "id": 1, "op": op})
                    assert "internal error" not in reply.get("error", ""), (op, value, reply)
                    assert "error" not in reply or reply["error"].endswith(".")

    asyncio.run(story())


def test_a_message_that_can_never_fit_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db") as room:
            connection = Connection(Hub(room.service, room.engine), lambda data: asyncio.sleep(0))
            room.engine._info["max_model_len"] = 100
            frame = {"id": 1, "op": "probe", "session": None, "parent": None, "files": []}
            (fits, refused) = [(await calls.answer(connection, {**frame, "text": "x" * n}))["ok"] for n in (50, 200)]
            assert "refused" not in fits and fits["prompt_tokens"] >= 50
            assert refused["refused"].startswith("Your message has 2") and refused["typed_tokens"] == 200

    asyncio.run(story())


def test_the_list_of_many_chats_is_lean() -> None:
    session: dict[str, Any] = dict.fromkeys(
        ("system_prompt", "params", "pinned", "archived", "folder_id", "deleted_at")
    )
    session |= {"id": "0" * 32, "title": "t" * 30, "updated_at": "2026-11-30T10:20:30.123456Z", "version": 3, "hue": 1}
    assert set(list_item(session)) == {"id", "title", "updated_at", "version", "hue"}
    assert len(json.dumps(list_item(session))) < 180
    assert list_item({**session, "pinned": True})["pinned"] is True


def test_a_page_is_told_why_its_chat_is_not_in_the_list(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db") as room:
            connection = Connection(Hub(room.service, room.engine), lambda data: asyncio.sleep(0))
            kept, deleted = await room.new(), await room.new()
            await room.service.delete(deleted)
            for asked, missing in ((kept, None), (deleted, "deleted"), ("f" * 32, "gone"), (None, None)):
                frame = {"id": 1, "op": "hello", "session": asked}
                said = (await calls.answer(connection, frame))["ok"]
                assert (said["missing"], said["session"]) == (missing, kept)
                assert said["notice"] is None

    asyncio.run(story())


def test_a_new_chat_is_one_that_was_never_used_unless_something_is_chosen_for_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db") as room:
            hub = Hub(room.service, room.engine)
            page, other = (Connection(hub, lambda data: asyncio.sleep(0)) for _ in range(2))
            for one in (page, other):
                hub.join(one)

            async def create(connection: Connection = page, **fields: Any) -> str:
                return (await calls.answer(connection, {"id": 1, "op": "create", **fields}))["ok"]["id"]

            first = await create()
            assert await create() == first and len(await hub.sessions()) == 1
            await room.service.library.save_draft(first, "half a thought")
            second = await create()
            assert second != first
            await page.open(second)
            third = await create(other)
            assert third not in (first, second)
            await room.service.update_settings(third, params={"temperature": 0.1})
            fourth = await create(other)
            await room.ask(fourth, "hi")
            assert len({first, second, third, fourth, await create(other), await create(other, temporary=True)}) == 6
            assert await create(params={"seed": 1}) not in (await create(other), second)

    asyncio.run(story())
