"""The database file: made, checked, refused, backed up and migrated."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pagedchat.sessions import migrations as steps
from pagedchat.sessions import schema
from pagedchat.sessions.errors import StoreError
from pagedchat.sessions.store import SessionStore


def filled(path: Path) -> tuple[int, str]:
    store = SessionStore(path)
    session = store.create_session(None, {}, None)
    _, _, reply = store.add_question(session.id, None, "kept?")
    store.finish_reply(reply.id, "kept.", "done")
    store.close()
    return 2, session.id


def refused(path: Path) -> StoreError:
    with pytest.raises(StoreError) as caught:
        SessionStore(path, busy_timeout_s=0.2)
    assert str(path) in str(caught.value)
    assert str(caught.value).count("\n") == 0
    return caught.value


def test_a_first_start_makes_folder_and_file_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "zkouška ß 模型 dir" / "sessions.db"
    store = SessionStore(path)
    store.create_session(None, {}, None)
    assert path.stat().st_mode & 0o777 == 0o600
    assert {one.stat().st_mode & 0o777 for one in path.parent.iterdir()} == {0o600}
    store.close()
    assert [one.name for one in path.parent.iterdir()] == ["sessions.db"]


def test_a_first_start_loads_no_libraries_that_only_tables_of_others_need(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from pagedchat.sessions.store import SessionStore\n"
        "SessionStore(Path(sys.argv[1])).close()\n"
        "print('sqlite_utils' in sys.modules, [name for name in ('pandas', 'numpy') if name in sys.modules])\n"
        "import numpy; print(numpy.arange(3).sum())"
    )
    command = [sys.executable, "-P", "-c", script, str(tmp_path / "chats.db")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines() == ["True []", "3"], ran.stderr


def test_a_file_with_wider_permissions_is_narrowed(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    path.touch(0o644)
    SessionStore(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_connections_use_wal_foreign_keys_and_wait_for_locks(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions.db", busy_timeout_s=7)
    for one in (store._writer._raw, store._reader._raw):
        assert one.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert one.execute("PRAGMA foreign_keys").fetchone()[0] == 1
        assert one.execute("PRAGMA busy_timeout").fetchone()[0] == 7000
    with pytest.raises(sqlite3.Error):
        store._reader._raw.execute("DELETE FROM sessions")
    store.close()


def test_the_known_steps_are_the_migrations() -> None:
    assert tuple(one.name for one in steps.migrations._migrations) == schema.MIGRATION_NAMES


def test_a_second_open_does_not_write(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    filled(path)
    before = path.read_bytes()
    SessionStore(path).close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["not a database at all, just text " * 40, "middle", "cut"])
def test_a_damaged_file_is_refused_and_left_as_it_is(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "sessions.db"
    filled(path)
    content = bytearray(path.read_bytes())
    if damage == "middle":
        content[4096 : 4096 * 12] = os.urandom(4096 * 11)
    elif damage == "cut":
        del content[4096 * 3 :]
    else:
        content = bytearray(damage.encode())
    path.write_bytes(content)
    assert refused(path).problem == "damaged"
    assert path.read_bytes() == content


def test_backups_are_named_only_where_there_are_some(tmp_path: Path) -> None:
    path, folder = tmp_path / "sessions.db", tmp_path / "backups"
    path.write_text("not a database at all, just text " * 40)
    assert str(folder) not in str(refused(path))
    folder.mkdir()
    (folder / "half.part").write_bytes(b"x")
    (folder / "empty.db").touch()
    assert str(folder) not in str(refused(path))
    (folder / "sessions-20260101T000000.000000Z-version-1.db").write_bytes(b"SQLite format 3")
    assert str(folder) in str(refused(path))


def test_a_newer_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    filled(path)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(schema.MIGRATION_NAMES) + 1}")
    connection.close()
    before = path.read_bytes()
    error = refused(path)
    assert error.problem == "newer"
    assert "newer" in str(error)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["sessions.db"]


def test_a_step_that_this_version_does_not_know_means_newer(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    filled(path)
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO _sqlite_migrations VALUES (99, 'pagedchat', 'm999_later', 'then')")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    assert refused(path).problem == "newer"
    assert path.read_bytes() == before


def test_another_programs_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE sessions (mine)")
    connection.close()
    before = path.read_bytes()
    assert refused(path).problem == "foreign"
    assert path.read_bytes() == before


def test_a_folder_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert refused(tmp_path / "file" / "sessions.db").problem == "unreachable"
    (tmp_path / "sessions.db").mkdir()
    assert refused(tmp_path / "sessions.db").problem == "unreachable"


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
@pytest.mark.parametrize("what", ["no database yet", "folder", "file"])
def test_a_read_only_place_is_refused_and_nothing_changes(what: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "sessions.db"
        if what != "no database yet":
            filled(path)
        before = path.read_bytes() if path.exists() else None
        if path.exists():
            path.chmod(0o444 if what == "file" else 0o666)
        folder.chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            assert refused(path).problem in ("readonly", "unreachable")
        finally:
            os.seteuid(user)
            folder.chmod(0o755)
        assert (path.read_bytes() if path.exists() else None) == before


def test_a_database_that_stays_locked_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    filled(path)
    store = SessionStore(path, busy_timeout_s=0.1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked by another program") as caught:
        store.create_session(None, {}, None)
    assert caught.value.problem == "busy"
    other.close()
    store.create_session(None, {}, None)
    store.close()


def later_version(monkeypatch: pytest.MonkeyPatch, step) -> None:
    migrations = type(steps.migrations)(schema.MIGRATION_SET)
    for name in schema.MIGRATION_NAMES:
        migrations()(getattr(steps, name))
    migrations(name="m999_later")(step)
    monkeypatch.setattr(steps, "migrations", migrations)
    monkeypatch.setattr(schema, "MIGRATION_NAMES", (*schema.MIGRATION_NAMES, "m999_later"))


def test_migrating_keeps_every_row_and_a_copy_of_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sessions.db"
    count, session_id = filled(path)
    before = len(schema.MIGRATION_NAMES)
    later_version(monkeypatch, lambda db: db.execute("ALTER TABLE sessions ADD COLUMN folder TEXT"))
    store = SessionStore(path)
    assert [one.content for one in store.shown_branch(session_id)[1]] == ["kept?", "kept."]
    store.close()
    (backup,) = (tmp_path / "backups").iterdir()
    assert backup.stat().st_mode & 0o777 == 0o600
    old = sqlite3.connect(backup)
    assert old.execute("SELECT count(*) FROM messages").fetchone()[0] == count
    assert old.execute("PRAGMA user_version").fetchone()[0] == before
    old.close()


def test_a_database_of_the_first_version_opens_and_its_replies_know_no_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sessions.db"
    with monkeypatch.context() as patch:
        first = type(steps.migrations)(schema.MIGRATION_SET)
        first()(steps.m001_sessions)
        patch.setattr(steps, "migrations", first)
        patch.setattr(schema, "MIGRATION_NAMES", schema.MIGRATION_NAMES[:1])
        schema.open_database(path, busy_timeout_s=1).executescript(
            "INSERT INTO sessions (id, created_at, updated_at) VALUES ('s', '', '');"
            "INSERT INTO messages (id, session_id, role, status, content, created_at, updated_at)"
            " VALUES ('m', 's', 'assistant', 'done', 'kept.', '', '');"
            "INSERT INTO generations (message_id, run, params, started_at) VALUES ('m', 1, '{}', '');"
            "UPDATE sessions SET head_id = 'm';"
        )
    store = SessionStore(path)
    assert store.shown_branch("s")[1][0].content == "kept."
    assert store.prompt_path("m", "f").kept_from == {}
    store.close()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sessions.db"
    _, session_id = filled(path)

    def fails(db) -> None:
        db.execute("DELETE FROM sessions WHERE head_id IS NULL")
        db.execute("ALTER TABLE sessions ADD COLUMN folder TEXT")
        raise sqlite3.OperationalError("the power went out")

    with monkeypatch.context() as patch:
        later_version(patch, fails)
        refused(path)
    store = SessionStore(path)
    assert len(store.shown_branch(session_id)[1]) == 2
    store.close()


def test_starts_at_once_migrate_once(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with ThreadPoolExecutor(6) as pool:
        for store in pool.map(lambda _: SessionStore(path), range(6)):
            store.close()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM _sqlite_migrations").fetchone()[0] == len(schema.MIGRATION_NAMES)
    connection.close()
