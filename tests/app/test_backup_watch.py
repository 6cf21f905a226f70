"""Daily copies while the server runs."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from pagedchat.app import backup_watch
from pagedchat.app.backup_watch import BackupWatch
from pagedchat.sessions.backups import list_backups
from support.stored_chats import add_chats


def test_a_copy_is_made_when_it_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sessions.db"
    add_chats(path, 1, 2)
    monkeypatch.setattr(backup_watch, "FIRST_LOOK_S", 0.0)
    monkeypatch.setattr(backup_watch, "LOOK_EVERY_S", 0.01)

    made: list[Path | None] = []

    class Watch(BackupWatch):
        async def look(self) -> Path | None:
            made.append(await super().look())
            return made[-1]

    async def story() -> None:
        task = asyncio.create_task(Watch(path).run())
        while len(made) < 4:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(story())
    assert [one.kind for one in list_backups(path)] == ["daily"]
    assert made[0] is not None and not any(made[1:])


def test_what_keeps_a_copy_from_being_made_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sessions.db"
    add_chats(path, 1, 2)
    watch = BackupWatch(path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    assert [asyncio.run(watch.look()) for _ in range(3)] == [None] * 3
    assert capsys.readouterr().err.count("free some space") == 1
    monkeypatch.undo()
    assert asyncio.run(watch.look()) is not None
