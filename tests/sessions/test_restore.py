"""A copy in the place of the database: nothing is lost, whatever lay there and wherever a kill comes."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

from pagedchat.sessions import replacing
from pagedchat.sessions.backups import back_up, backup_folder, list_backups
from pagedchat.sessions.errors import StoreError
from pagedchat.sessions.pages import log_of
from pagedchat.sessions.restore import find_backup, restore, restore_salvaged
from pagedchat.sessions.store import SessionStore
from pagedchat.sessions.versions import MIGRATION_NAMES
from support.stored_chats import add_chats, copied, overwrite, texts


class Killed(BaseException):
    """Stands for a process that ends here."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An old state and a later one."""
    old, new = (tmp_path_factory.mktemp("sources") / name for name in ("old.db", "new.db"))
    add_chats(old, 2, 6)
    copied(old, new)
    add_chats(new, 1, 4, seed=1)
    return old, new


@pytest.fixture
def place(sources: tuple[Path, Path], tmp_path: Path) -> Path:
    """The later state as the database, the old one among its backups."""
    path = copied(sources[1], tmp_path / "zkouška ß 模型 dir" / "sessions.db")
    copied(sources[0], backup_folder(path) / "sessions-20260101T000000.000000Z-daily.db")
    return path


def killed_while_writing(path: Path, text: str) -> None:
    """A process that changes the first message and is killed: the change is only in the log."""
    child = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('PRAGMA journal_mode = WAL'); "
        "c.execute('UPDATE messages SET content = ? WHERE key = 1', [sys.argv[2]]); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", child, str(path), text], check=False)
    assert log_of(path).stat().st_size


def test_a_restore_brings_back_the_copy_and_can_be_undone(place: Path, sources: tuple[Path, Path]) -> None:
    aside = restore(place, find_backup(place, "latest"))
    assert texts(place) == texts(sources[0])
    assert aside is not None and aside in [one.path for one in list_backups(place) if one.kind == "replaced"]
    assert place.stat().st_mode & 0o777 == 0o600
    SessionStore(place).close()
    restore(place, aside)
    assert texts(place) == texts(sources[1])
    assert len(list_backups(place)) == 3
    assert sorted(one.name for one in place.parent.iterdir()) == ["backups", "sessions.db"]


def test_what_only_the_log_held_is_kept_aside_too(place: Path, sources: tuple[Path, Path]) -> None:
    killed_while_writing(place, "in the log")
    aside = restore(place, find_backup(place, "latest"))
    assert texts(place) == texts(sources[0])
    assert aside is not None and "in the log" in {one[2] for one in texts(aside).values()}


def test_a_damaged_file_is_kept_aside_with_its_log_as_it_was(place: Path, sources: tuple[Path, Path]) -> None:
    killed_while_writing(place, "in the log")
    overwrite(place, [1])
    before, log = place.read_bytes(), log_of(place).read_bytes()
    aside = restore(place, find_backup(place, "latest"))
    assert texts(place) == texts(sources[0])
    assert aside is not None and (aside.read_bytes(), log_of(aside).read_bytes()) == (before, log)


def test_a_missing_or_empty_database_is_simply_replaced(place: Path, sources: tuple[Path, Path]) -> None:
    place.unlink()
    assert restore(place, find_backup(place, "latest")) is None
    assert texts(place) == texts(sources[0])
    place.write_bytes(b"")
    assert restore(place, find_backup(place, "latest")) is None
    assert texts(place) == texts(sources[0])


@pytest.mark.parametrize("fault", ["damaged", "newer", "foreign", "no file", "noise", "empty"])
def test_a_copy_that_cannot_be_used_is_refused_and_nothing_changes(place: Path, fault: str, tmp_path: Path) -> None:
    copy = find_backup(place, "latest")
    if fault == "damaged":
        overwrite(copy, [3, 4, 5, 6])
    elif fault in ("noise", "empty"):
        copy.write_bytes(os.urandom(9000) if fault == "noise" else b"")
    elif fault == "no file":
        copy = tmp_path / "nothing.db"
    else:
        if fault == "foreign":
            copy = tmp_path / "other.db"
        with closing(sqlite3.connect(copy)) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS mine (x)")
            connection.execute(f"PRAGMA user_version = {len(MIGRATION_NAMES) + 1}")
    before = {one: one.read_bytes() for one in place.parent.rglob("*") if one.is_file()}
    with pytest.raises(StoreError) as told:
        restore(place, copy)
    assert str(copy) in str(told.value) and "\n" not in str(told.value)
    assert fault not in ("newer", "foreign") or told.value.problem == fault
    assert {one: one.read_bytes() for one in place.parent.rglob("*") if one.is_file()} == before


def test_a_copy_is_found_by_name_beginning_or_path(place: Path) -> None:
    copy = find_backup(place, "latest")
    for name in (copy.name, copy.stem, "sessions-2026", str(copy)):
        assert find_backup(place, name) == copy
    newer = back_up(place)
    copied(newer, backup_folder(place) / "sessions-20990101T000000.000000Z-replaced.db")
    (backup_folder(place) / "sessions-20980101T000000.000000Z-daily.db").write_bytes(b"noise" * 1000)
    assert find_backup(place, "latest") == newer
    with pytest.raises(StoreError, match="4 backups begin with sess"):
        find_backup(place, "sess")
    with pytest.raises(StoreError, match="no backup nothing"):
        find_backup(place, "nothing")


@pytest.mark.parametrize("damage", [False, True])
@pytest.mark.parametrize("step", range(1, 8))
def test_a_kill_at_any_step_leaves_the_old_or_the_new_and_both_are_there(
    place: Path, sources: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, step: int, damage: bool
) -> None:
    killed_while_writing(place, "in the log")
    if damage:
        overwrite(place, [2])
    steps = 0

    def counted(real):
        def call(*arguments, **options):
            nonlocal steps
            steps += 1
            if steps == step:
                raise Killed
            return real(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for name in ("replace", "rename"):
            patch.setattr(os, name, counted(getattr(os, name)))
        patch.setattr(shutil, "copyfile", counted(shutil.copyfile))
        patch.setattr(replacing, "sync_folder", counted(replacing.sync_folder))
        patch.setattr(replacing, "remove_part", lambda part: None)
        with suppress(Killed):
            restore(place, find_backup(place, "latest"))
    whole = replacing._whole(place).exists() or texts_or_none(place) == texts(sources[0])
    try:
        SessionStore(place).close()
    except StoreError:
        assert damage and not whole
        assert log_of(place).stat().st_size
        return
    assert not replacing._whole(place).exists()
    if not whole:
        assert "in the log" in {one[2] for one in texts(place).values()}
        return
    assert texts(place) == texts(sources[0])
    (aside,) = (one.path for one in list_backups(place) if one.kind == "replaced")
    assert damage or "in the log" in {one[2] for one in texts(aside).values()}
    assert not damage or log_of(aside).stat().st_size


def texts_or_none(path: Path) -> dict | None:
    try:
        return texts(path) if path.exists() and not log_of(path).exists() else None
    except sqlite3.Error:
        return None


def test_backups_on_another_disk_and_a_link_to_the_database_work(
    place: Path, sources: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere" / "chats.sqlite"
    elsewhere.parent.mkdir()
    place.rename(elsewhere)
    place.symlink_to(elsewhere)

    def other_disk(source, target):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "rename", other_disk)
    aside = restore(place, find_backup(place, "latest"))
    assert place.is_symlink() and texts(elsewhere) == texts(sources[0])
    assert aside is not None and texts(aside) == texts(sources[1])
    assert [one.name for one in elsewhere.parent.iterdir() if "sqlite" in one.name] == ["chats.sqlite"]


def test_a_full_disk_leaves_everything_as_it_was(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {one: one.read_bytes() for one in place.parent.rglob("*") if one.is_file()}

    def full(source, target):
        Path(target).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    for call in (lambda: restore(place, find_backup(place, "latest")), lambda: restore_salvaged(place)):
        with pytest.raises(StoreError) as told:
            call()
        assert told.value.problem == "full"
        assert {one: one.read_bytes() for one in place.parent.rglob("*") if one.is_file()} == before
