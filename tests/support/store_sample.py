"""Writes a small database as this version of the program does, for tests of the versions that come later:
``python -m tests.support.store_sample tests/data/store/version_N.db.z`` before version N + 1 is added."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.chat_room import ChatRoom
from support.fake_client import FakeEngineClient

REPLIES = [
    "Praha je hlavní město.",
    "Prague, of course.",
    "On the Vltava.",
    "To je dlouhá odpověď, která skončí v půlce. " * 5,
    "Ahoj!",
    "short",
    "in the trash",
    "too late, " * 200,
]
_WHEN = "2026-01-02T03:04:05.678Z"
_ID = "019c" + "0" * 28
_ROWS = {
    "folders": {"id": _ID, "name": "Cesty ✈", "created_at": _WHEN},
    "presets": {"id": _ID, "name": "Brief", "system_prompt": "Be brief.", "created_at": _WHEN, "updated_at": _WHEN},
    "drafts": {"session_id": "", "text": "not sent yet", "updated_at": _WHEN},
}


async def _play(room: ChatRoom, engine: FakeEngineClient) -> None:
    """Branches, edits, a hidden reply, one that was stopped, one that never ended, a chat in the trash."""
    service = room.service
    chat = await room.new(system_prompt="Be brief.", params={"temperature": 0.5, "seed": 7})
    first = await room.ask(chat, "Jaké je hlavní město? 你好")
    second = await room.end_of((await service.regenerate(first["id"]))["id"])
    await room.ask(chat, "Where does it lie?", second["id"])
    sent = await service.send(chat, second["id"], "And tell me more")
    await room.begun(sent["reply"]["id"], 20)
    await service.stop(sent["reply"]["id"])
    await room.end_of(sent["reply"]["id"])
    await service.edit(first["id"], "Praha (edited).")
    edit = await service.edit((await room.shown(chat))[0]["id"], "What is the capital?")
    await room.end_of(edit["reply"]["id"])
    engine.gate = asyncio.Event()
    empty = await service.regenerate(edit["reply"]["id"])
    await asyncio.sleep(0.05)
    await service.stop(empty["id"])
    await room.end_of(empty["id"])
    engine.gate = None
    await service.rename(chat, "שיחה על פראג 🏰")
    await room.ask(await room.new(params={"max_tokens": 5}), "short\x00with NUL and 'quotes'")
    trash = await room.new()
    await room.ask(trash, "this chat is in the trash")
    await service.delete(trash)
    await room.new(system_prompt="")
    if hasattr(service, "delete_branch"):
        await service.delete_branch(edit["user"]["id"])
    engine.delay_s = 0.02
    never = await service.send(await room.new(), None, "never finished")
    await room.begun(never["reply"]["id"], 5)
    await asyncio.sleep(0.4)  # a part of it is stored


def _add_rows(connection: sqlite3.Connection) -> None:
    for table, row in _ROWS.items():
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [table]).fetchone():
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))


async def _write(folder: Path, target: Path) -> None:
    engine: Any = FakeEngineClient(REPLIES, delay_s=0.001)
    room = ChatRoom(folder / "sample.db", engine)
    await _play(room, engine)
    with sqlite3.connect(folder / "sample.db", isolation_level=None) as connection:
        _add_rows(connection)
        connection.execute("VACUUM INTO ?", [str(folder / "copy.db")])
    target.write_bytes(zlib.compress((folder / "copy.db").read_bytes(), 9))
    os._exit(0)  # the last reply is still running, and stays so in the sample


if __name__ == "__main__":
    asyncio.run(_write(Path(tempfile.mkdtemp()), Path(sys.argv[1]).resolve()))
