"""Copies of the database: made while it is used, verified, counted, thinned out."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from pagedchat.sessions import backups
from pagedchat.sessions.backups import back_up, daily_backup, is_due, list_backups, rotate
from pagedchat.sessions.errors import StoreError
from pagedchat.sessions.store import SessionStore
from pagedchat.sessions.versions import MIGRATION_NAMES
from support.stored_chats import add_chats, copied, texts


@pytest.fixture
def path(source: Path, tmp_path: Path) -> Path:
    return copied(source, tmp_path / "zkouška ?#%41 模型" / "sessions.db")


def made_at(path: Path, kind: str, moment: datetime, source: Path | None = None) -> Path:
    """A copy that says it was made at another time."""
    copy = backups.new_copy(path, kind, moment)
    return copied(source or path, copy)


def test_a_copy_holds_every_row_and_is_for_the_owner_only(path: Path) -> None:
    store = SessionStore(path)
    copy = store.backup()
    (found,) = list_backups(path)
    assert (found.path, found.kind, found.problem) == (copy, "hand", None)
    assert (found.chats, found.messages, found.version) == (3, 36, len(MIGRATION_NAMES))
    assert found.size == copy.stat().st_size and found.made_at.startswith(str(datetime.now(UTC).year))
    assert copy.stat().st_mode & 0o777 == 0o600
    store.close()
    assert texts(copy) == texts(path)
    assert [one.name for one in copy.parent.iterdir()] == [copy.name]


def test_a_copy_goes_where_it_is_asked_for_and_over_nothing(path: Path, tmp_path: Path) -> None:
    store = SessionStore(path)
    assert store.backup(tmp_path / "mine.db") == tmp_path / "mine.db"
    assert texts(tmp_path / "mine.db") == texts(path)
    for target in (tmp_path / "mine.db", tmp_path / "nowhere" / "mine.db", path):
        with pytest.raises(StoreError, match=r"exists already|does not exist"):
            store.backup(target)
    assert not backups.backup_folder(path).exists()
    store.close()
    with pytest.raises(StoreError, match="nothing to back up"):
        back_up(tmp_path / "none.db")


def test_a_copy_has_what_only_the_log_holds_and_writers_go_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SessionStore(path)
    session = store.sessions()[0]
    stop, written = threading.Event(), []

    def write() -> None:
        while not stop.is_set():
            written.append(store.add_question(session.id, None, f"during {len(written)}"))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while len(written) < 3:
            time.sleep(0.001)
        copy = store.backup()
        after = len(written)
        while len(written) == after:
            time.sleep(0.001)
    finally:
        stop.set()
        writer.join()
    store.close()
    found = {one[2] for one in texts(copy).values()}
    assert {"during 0", "during 1", "during 2"} <= found


def test_a_write_that_is_not_committed_is_in_no_copy_and_holds_none_up(path: Path) -> None:
    store = SessionStore(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE messages SET content = 'never'")
        copy = store.backup()
        other.execute("ROLLBACK")
    store.close()
    assert texts(copy) == texts(path)


def test_a_copy_that_is_not_whole_does_not_stay_and_no_older_one_goes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [made_at(path, "daily", datetime.now(UTC) - timedelta(days=50 + day)) for day in range(20)]
    monkeypatch.setattr(backups, "_is_whole", lambda *_: False)
    with pytest.raises(StoreError, match="did not come out whole"):
        daily_backup(path)
    assert sorted(backups.backup_folder(path).iterdir()) == sorted(old)


def test_a_copy_is_compared_with_what_it_was_made_of(path: Path) -> None:
    copy = back_up(path)
    with closing(sqlite3.connect(path)) as connection:
        counts = backups.row_counts(connection)
    assert backups._is_whole(copy, counts, counts)
    assert backups._is_whole(copy, counts, {**counts, "messages": counts["messages"] + 5})
    assert not backups._is_whole(copy, *[{**counts, "messages": counts["messages"] + 1}] * 2)
    assert not backups._is_whole(copy, *[{**counts, "more": 1}] * 2)
    with copy.open("r+b") as file:
        file.seek(4096 * 5)
        file.write(os.urandom(4096 * 8))
    assert not backups._is_whole(copy, counts, counts)


def test_a_copy_is_due_a_day_after_the_last_if_anything_changed(path: Path) -> None:
    now = datetime.now(UTC)
    assert is_due(path)
    assert daily_backup(path) is not None
    assert not is_due(path) and daily_backup(path) is None
    assert not is_due(path, now + timedelta(hours=23))
    assert not is_due(path, now + timedelta(days=2)), "nothing changed"
    store = SessionStore(path)
    store.create_session(None, {}, None)
    assert is_due(path, now + timedelta(days=2)), "what changed is only in the log yet"
    store.close()
    assert is_due(path, now + timedelta(days=2))
    assert not is_due(path)
    assert is_due(path, now - timedelta(days=30)), "the clock went back: copies of the future count for nothing"


def test_an_empty_database_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    assert daily_backup(path) is None
    SessionStore(path).close()
    assert daily_backup(path) is None
    assert not backups.backup_folder(path).exists()


def test_old_copies_go_but_those_asked_for_stay(path: Path) -> None:
    now = datetime(2026, 6, 28, 12, tzinfo=UTC)
    daily = [made_at(path, "daily", now - timedelta(days=day)) for day in range(60)]
    twice = made_at(path, "daily", now - timedelta(hours=3))
    before = [made_at(path, f"version-{number}", now - timedelta(days=300 - number)) for number in range(1, 6)]
    mine = [made_at(path, kind, now - timedelta(days=400)) for kind in ("hand", "replaced")]
    strange = copied(path, backups.backup_folder(path) / "my own name.db")
    part = backups.backup_folder(path) / "half.db.part"
    part.touch()
    os.utime(part, (0, 0))
    removed = rotate(path)
    left = set(backups.backup_folder(path).iterdir())
    assert {*mine, strange, *before[2:]} <= left and not {*before[:2], part, twice} & left
    assert left & set(daily) == {*daily[:7], daily[7], daily[14], daily[21]}, "7 days, and the Sundays of 4 weeks"
    assert set(removed).isdisjoint(left)
    assert rotate(path) == []


def test_the_copy_with_the_most_messages_stays(path: Path, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    small = tmp_path / "small.db"
    add_chats(small, 1, 1)
    fullest = made_at(path, "daily", now - timedelta(days=100))
    others = [made_at(path, "daily", now - timedelta(days=day), small) for day in range(70)]
    rotate(path)
    assert fullest.exists() and not others[60].exists()


def test_no_copy_is_made_where_the_disk_would_get_full(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = path.stat().st_size
    for kind, free, fits in (("daily", 300 << 20, True), ("daily", 200 << 20, False), ("version", size, True)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        if fits:
            assert back_up(path, kind, version=1).exists()  # type: ignore[arg-type]
            continue
        with pytest.raises(StoreError, match="free some space") as told:
            back_up(path, kind)  # type: ignore[arg-type]
        assert told.value.problem == "full"
    assert len(list_backups(path)) == 2


def test_what_cannot_be_read_is_listed_with_its_problem(path: Path) -> None:
    folder = backups.backup_folder(path)
    folder.mkdir()
    (folder / "noise.db").write_bytes(os.urandom(5000))
    (folder / "empty.db").touch()
    good = back_up(path)
    first, second = list_backups(path)
    assert (first.path, first.problem) == (good, None)
    assert second.name == "noise.db" and second.problem and (second.version, second.messages) == (0, 0)
