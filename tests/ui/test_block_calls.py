"""What a page is told of one block, and what it is not told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pagedchat.ui import calls
from pagedchat.ui.block_text import AWAY, FREE, OTHERS, is_near
from pagedchat.ui.connection import Connection
from pagedchat.ui.hub import Hub
from support.chat_room import ChatRoom
from support.paged_client import PagedFakeClient

SECRET = "A secret that nobody else may ever read, whoever asks"


def page(room: ChatRoom, session: str | None, *, near: bool = True) -> Connection:
    connection = Connection(Hub(room.service, room.engine), lambda data: asyncio.sleep(0), near=near)
    connection.session_id = session
    return connection


async def asked(connection: Connection, op: str, **fields: Any) -> Any:
    answer = await calls.answer(connection, {"id": 1, "op": op, **fields})
    assert "error" not in answer, answer
    return answer["ok"]


def spelled(found: dict[str, Any]) -> str:
    return "".join(one["text"] for one in found["pieces"] if not one["control"])


async def blocks_of(room: ChatRoom, session: str) -> list[int]:
    rows = await room.engine.branch(await room.service.branch_tokens(session), room.service.salt(session))
    return [row["block"] for row in rows if row["block"] is not None]


def test_a_block_tells_its_text_its_chain_and_the_messages_in_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(
            tmp_path / "sessions.db", PagedFakeClient(["A reply of some length, to fill a block."])
        ) as room:
            session = await room.new()
            reply = await room.ask(session, "What is in a block?")
            connection = page(room, session)
            blocks = await blocks_of(room, session)
            found = [await asked(connection, "kv_block", block=one) for one in blocks]
            text = "".join(spelled(one) for one in found)
            assert text.startswith("What is in a block?") and text.endswith("A reply of some length, to fill a block.")
            assert [one["chain"] for one in found] == [blocks[:at] for at in range(len(blocks))]
            assert found[0]["children"] == blocks[1:2] and [one["row"] for one in found] == list(range(len(blocks)))
            assert [one["name"] for one in found[0]["places"]] == ["you 1"]
            (last,) = found[-1]["places"]
            assert last["message"] == reply["id"] and last["text"] == reply["content"][last["spans"][0]["start"] :]
            words = await asked(connection, "kv_words", block=blocks[0])
            assert words == "What is in a bl"
            parts = await asked(connection, "kv_parts")
            assert [one["name"] for one in parts["parts"]] == ["you 1", "reply 1"]
            assert all(isinstance(one["time"], float) for one in found[0]["events"])

    asyncio.run(story())


def test_the_engine_and_the_page_tell_the_same_of_a_block(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db", PagedFakeClient(["x" * 40])) as room:
            session = await room.new()
            await room.ask(session, "Some words")
            for row in (await room.engine.snapshot())["blocks"][:8]:
                found = await asked(page(room, session), "kv_block", block=row["id"])
                same = ("id", "state", "ref_count", "num_tokens", "owners")
                assert {name: found[name] for name in same} == {name: row[name] for name in same}
                assert found.get("reuses") == row.get("reuses") and found.get("pinned") == row.get("pinned")

    asyncio.run(story())


def test_away_from_this_computer_no_token_of_any_chat_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db", PagedFakeClient([SECRET])) as room:
            session = await room.new()
            await room.ask(session, SECRET)
            for shown in (session, None):
                connection = page(room, shown, near=False)
                for block in await blocks_of(room, session):
                    found = await asked(connection, "kv_block", block=block)
                    assert found["pieces"] is None and found["why"] == AWAY
                    assert "token_ids" not in found and not any(
                        one["text"] or one["written"] for one in found["places"]
                    )
                    assert not any(word in str(found) for word in ("secret", "nobody", "whoever"))
                    assert await asked(connection, "kv_words", block=block) == ""

    asyncio.run(story())


def test_a_temporary_chats_text_is_told_to_its_own_page_only(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db", PagedFakeClient([SECRET])) as room:
            other = await room.new()
            await room.ask(other, SECRET)
            hidden = await room.new(temporary=True)
            await room.ask(hidden, SECRET)
            blocks = await blocks_of(room, hidden)
            assert not set(blocks) & set(await blocks_of(room, other)), "a temporary chat shares with nobody"
            for block in blocks:
                own = await asked(page(room, hidden), "kv_block", block=block)
                assert own["pieces"] and own["why"] is None and own["places"]
                for shown in (other, None):
                    found = await asked(page(room, shown), "kv_block", block=block)
                    assert (found["pieces"], found["why"], found["places"]) == (None, OTHERS, [])
                    assert await asked(page(room, shown), "kv_words", block=block) == ""

    asyncio.run(story())


def test_what_no_chat_has_or_a_deleted_one_had_is_not_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db", PagedFakeClient(["x"])) as room:
            session = await room.new()
            await room.ask(session, SECRET)
            (block, *_) = await blocks_of(room, session)
            await room.service.delete(session)
            found = await asked(page(room, None), "kv_block", block=block)
            assert found["pieces"] is None and found["why"] in (OTHERS, FREE)
            free = next(row["id"] for row in (await room.engine.snapshot())["blocks"] if row["state"] == "free")
            assert (await asked(page(room, None), "kv_block", block=free))["why"] == FREE
            refused = await calls.answer(page(room, None), {"id": 1, "op": "kv_block", "block": 10**6})
            assert "does not exist" in refused["error"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("near", "client", "server", "headers"),
    [
        (True, "127.0.0.1", "127.0.0.1", {"host": "127.0.0.1:7861"}),
        (True, "::1", "::1", {"host": "[::1]:7861"}),
        (True, "127.0.0.1", "127.0.0.1", {"host": "localhost:7861"}),
        (False, "192.168.0.7", "127.0.0.1", {"host": "localhost:7861"}),
        (False, "127.0.0.1", "192.168.0.2", {"host": "localhost:7861"}),
        (False, "127.0.0.1", "127.0.0.1", {"host": "chat.example.org"}),
        (False, "127.0.0.1", "127.0.0.1", {"host": "localhost:7861", "x-forwarded-for": "192.168.0.7"}),
        (False, "127.0.0.1", "127.0.0.1", {}),
    ],
)
def test_near_is_who_reaches_loopback_by_its_own_name(
    near: bool, client: str, server: str, headers: dict[str, str]
) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert is_near({"client": (client, 50_000), "server": (server, 7861), "headers": raw}) is near
    assert not is_near({"client": None, "headers": raw})
