"""What opening does with what may lie at the database's place, and when it reads every page."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pagedchat.sessions import schema
from pagedchat.sessions.backups import back_up, backup_folder
from pagedchat.sessions.errors import StoreError
from pagedchat.sessions.pages import Header, committed_pages, log_of, newest_header
from pagedchat.sessions.store import SessionStore
from pagedchat.sessions.versions import MIGRATION_NAMES
from support.stored_chats import copied, overwrite, pages_of, texts

NEWER = len(MIGRATION_NAMES) + 1


@pytest.fixture
def path(source: Path, tmp_path: Path) -> Path:
    return copied(source, tmp_path / "data" / "sessions.db")


def killed_after(path: Path, *statements: str) -> None:
    """A process that runs ``statements`` on the database in WAL mode and is killed: they are only in the log."""
    child = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('PRAGMA journal_mode = WAL'); [c.execute(one) for one in sys.argv[2:]]; os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", child, str(path), *statements], check=False)
    assert log_of(path).stat().st_size


def content_of(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file() and not one.name.endswith("-shm")}


def refused(path: Path, problem: str) -> str:
    """The sentence of a refusal that changed nothing."""
    before = content_of(path.parent)
    with pytest.raises(StoreError) as told:
        SessionStore(path, busy_timeout_s=0.2)
    assert content_of(path.parent) == before
    assert (told.value.problem, str(path) in str(told.value)) == (problem, True)
    return str(told.value)


def test_a_killed_writers_log_is_recovered(path: Path, source: Path) -> None:
    killed_after(path, "UPDATE messages SET content = 'kept' WHERE key = 1")
    SessionStore(path).close()
    assert not log_of(path).exists()
    assert [one[2] for one in texts(path).values()].count("kept") == 1
    assert texts(path).keys() == texts(source).keys()


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        ([f"PRAGMA user_version = {NEWER}"], "newer"),
        (["PRAGMA application_id = 77"], "foreign"),
    ],
)
def test_what_only_the_log_says_is_believed_and_nothing_is_folded_in(
    path: Path, statements: list[str], problem: str
) -> None:
    killed_after(path, *statements)
    (path.parent / "sessions.db-shm").unlink()
    refused(path, problem)
    assert not (path.parent / "sessions.db-shm").exists()


def test_a_version_that_was_not_committed_counts_for_nothing(path: Path) -> None:
    big = "UPDATE messages SET content = hex(randomblob(20000))"
    killed_after(path, "PRAGMA cache_size = 1", "BEGIN", f"PRAGMA user_version = {NEWER}", big)
    assert log_of(path).stat().st_size > 1 << 20
    header = newest_header(path)
    assert header is not None and header.user_version == len(MIGRATION_NAMES)
    assert committed_pages(path) == {}
    SessionStore(path).close()


def test_the_log_reads_as_sqlite_reads_it(path: Path, tmp_path: Path) -> None:
    killed_after(path, "UPDATE messages SET content = 'first' WHERE key < 9", "DELETE FROM generations WHERE run = 1")
    with log_of(path).open("ab") as log:
        log.write(os.urandom(5000))
    pages = committed_pages(path)
    copy = copied(path, tmp_path / "copy.db")
    for number, content in pages.items():
        overwrite(copy, [number], content)
    with copy.open("r+b") as file:
        file.seek(18)
        file.write(b"\1\1")
    for one in (path, copy):
        with closing(sqlite3.connect(one)) as connection:
            assert connection.execute("SELECT count(*) FROM generations").fetchone()[0] == 0
            assert connection.execute("SELECT count(*) FROM messages WHERE content = 'first'").fetchone()[0] == 8
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_a_damaged_file_with_a_log_is_left_with_its_log(path: Path) -> None:
    hit = pages_of(path, "messages")[1:4]
    killed_after(path, "UPDATE sessions SET title = 'x'")
    overwrite(path, hit)
    assert str(path) in refused(path, "damaged")


def test_another_programs_database_in_wal_mode_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE mine (x)")
    refused(path, "foreign")
    assert [one.name for one in tmp_path.iterdir()] == ["sessions.db"]


def test_a_file_emptied_beside_its_log_is_damaged_not_new(path: Path) -> None:
    killed_after(path, "UPDATE sessions SET title = 'x'")
    path.write_bytes(b"")
    assert "its log is not" in refused(path, "damaged")


@pytest.mark.parametrize("made", ["zero bytes", "header only", "link to nothing"])
def test_an_empty_file_is_a_new_database(tmp_path: Path, made: str) -> None:
    path = tmp_path / "ein ß" / "sessions.db"
    path.parent.mkdir()
    if made == "link to nothing":
        path.symlink_to(tmp_path / "there.db")
    else:
        path.touch()
    if made == "header only":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("VACUUM")
    store = SessionStore(path)
    assert store.sessions() == [] and store.notice is None
    store.close()


def test_a_link_to_the_database_is_followed_with_its_log(path: Path, tmp_path: Path) -> None:
    killed_after(path, "UPDATE sessions SET title = 'through the link'")
    link = tmp_path / "link.db"
    link.symlink_to(path)
    store = SessionStore(link)
    assert {one.title for one in store.sessions()} == {"through the link"}
    store.close()
    assert link.is_symlink() and sorted(one.name for one in tmp_path.iterdir()) == ["data", "link.db"]


def test_a_missing_database_beside_its_copies_or_files_is_told(path: Path) -> None:
    back_up(path)
    path.unlink()
    store = SessionStore(path)
    assert store.notice is not None
    assert "1 copy" in store.notice and str(backup_folder(path)) in store.notice
    assert "pagedchat sessions restore" in store.notice
    store.close()
    store = SessionStore(path)
    assert store.notice is not None and "holds no chats" in store.notice, "the next start says so, too"
    store.create_session(None, {}, None)
    store.close()
    store = SessionStore(path)
    assert store.notice is None
    store.close()
    path.unlink()
    for one in backup_folder(path).iterdir():
        one.unlink()
    store = SessionStore(path)
    assert store.notice is None
    store.close()
    path.unlink()
    (path.parent / "attachments").mkdir()
    (path.parent / "attachments" / "a").touch()
    store = SessionStore(path)
    assert store.notice is not None and "missing" in store.notice
    store.close()


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The whole checks that are made."""
    made: list[Path] = []
    real: Callable = schema.refuse_damaged
    monkeypatch.setattr(schema, "refuse_damaged", lambda connection, path: made.append(path) or real(connection, path))
    return made


def test_a_small_database_is_checked_on_every_start(path: Path, checks: list[Path]) -> None:
    for count in (1, 2):
        SessionStore(path).close()
        assert len(checks) == count


def test_a_large_one_is_checked_daily_and_after_a_kill(
    path: Path, checks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "ALWAYS_CHECKED_BYTES", 1000)
    SessionStore(path).close()
    SessionStore(path).close()
    assert len(checks) == 1
    killed_after(path, "UPDATE sessions SET title = 'x'")
    SessionStore(path).close()
    assert len(checks) == 2
    SessionStore(path).close()
    assert len(checks) == 2
    killed_after(path, "UPDATE state SET value = '2020-01-01T00:00:00+00:00' WHERE key = 'checked_at'")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    SessionStore(path).close()
    assert len(checks) == 3


def test_a_large_file_cut_short_is_noticed_on_every_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "ALWAYS_CHECKED_BYTES", 1000)
    SessionStore(path).close()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 4096 * 4096 - 4096)
    assert refused(path, "damaged") == refused(path, "damaged")


def test_a_header_is_one_or_none() -> None:
    assert Header.read(b"SQLite format 3\0" + b"\1" * 50) is None
    assert Header.read(b"x" * 100) is None
    assert Header.read(b"SQLite format 3\0" + bytes((0, 1)) + bytes(82)) == Header(1 << 16, 0, 0, 0)
