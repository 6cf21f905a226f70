"""What a page is told of prefixes: the tree in few bytes, and why something is not found, token texts on this computer
only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pagedchat.ui.calls import answer
from pagedchat.ui.connection import Connection
from pagedchat.ui.hub import Hub
from support.chat_room import ChatRoom, play
from support.paged_client import PagedFakeClient

LONG = "A question that is long enough to fill a few blocks of the pool."


def caller(room: ChatRoom, near: bool) -> Any:
    """What a page's calls answer."""

    async def take(_: bytes) -> None:
        return None

    connection = Connection(Hub(room.service, room.engine), take, near=near)

    async def call(op: str, **fields: Any) -> Any:
        told = await answer(connection, {"id": 1, "op": op, **fields})
        return told.get("ok", told.get("error"))

    return call


def test_the_tree_of_the_shown_chat_is_told_once_and_nothing_without_a_chat(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", PagedFakeClient(["One.", "Two."])) as room:
            call, session = caller(room, True), await room.new()
            assert await call("kv_tree") is None and await call("kv_why") is None
            first = await room.ask(session, LONG)
            await room.end_of((await room.service.regenerate(first["id"]))["id"])
            await call("open", session=session)
            tree, whole = await call("kv_tree"), await room.service.prefixes.tree(session)
            assert [run["blocks"] for run in tree["runs"]] == [run["blocks"] for run in whole["runs"]]
            assert [run["counts"] for run in tree["runs"]] == [0, 0, 0]
            why = await call("kv_why")
            assert why["session"] == session and "something follows" in why["sentence"]

    play(story())


def test_texts_of_tokens_are_told_on_this_computer_only(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", PagedFakeClient(["Yes."])) as room:
            session = await room.new()
            reply = await room.ask(session, LONG)
            await room.engine.forget(session)
            for near in (True, False):
                call = caller(room, near)
                await call("open", session=session)
                why = await call("kv_why")
                assert ("<user>" in why["sentence"]) == near and "never computed here" in why["sentence"]
                probe = await call("probe", session=session, parent=reply["id"], text="And now?")
                assert ("<user>" in probe["why"]) == near, probe["why"]
                assert "in your message 1, is not: it was never computed here" in probe["why"]

    play(story())


def test_what_is_new_in_a_message_that_is_written_needs_no_other_reason(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", PagedFakeClient(["Yes."])) as room:
            session = await room.new(temporary=True)
            reply = await room.ask(session, LONG)
            call = caller(room, True)
            await call("open", session=session)
            probe = await call("probe", session=session, parent=reply["id"], text="And now?")
            assert probe["cached_tokens"] > 60 and probe["why"].endswith("tokens are cached; the rest is new.")
            await room.engine.forget(session)
            probe = await call("probe", session=session, parent=reply["id"], text="And now?")
            assert "a temporary chat shares blocks with no other one" in probe["why"]

    play(story())
