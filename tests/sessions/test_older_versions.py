"""Databases as every earlier version wrote them: each migrates whole or stays, with every row, and a copy is kept."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlite_utils import Migrations

from pagedchat.sessions import migrations as steps
from pagedchat.sessions import schema
from pagedchat.sessions.backups import list_backups
from pagedchat.sessions.chat_service import ChatService
from pagedchat.sessions.store import SessionStore
from pagedchat.sessions.versions import MIGRATION_NAMES
from support.fake_client import FakeEngineClient
from support.forked import DIED, die, in_fork, start_fork
from support.older_versions import SAMPLES, facts, sample, version_of

OLDER = range(1, len(MIGRATION_NAMES))


def test_every_older_version_has_a_sample() -> None:
    missing = [version for version in OLDER if not (SAMPLES / f"version_{version}.db.z").exists()]
    assert not missing, (
        f"tests/data/store has no database as version {missing} wrote it. In a checkout of the last commit of that "
        "version run: python -m tests.support.store_sample tests/data/store/version_N.db.z"
    )


@pytest.mark.parametrize("version", OLDER)
def test_an_older_database_migrates_with_every_row_and_is_kept(version: int, tmp_path: Path) -> None:
    path = sample(version, tmp_path)
    before, state = facts(path), version_of(path)
    assert state == (version, version)
    assert len(before["messages"]) > 10 and ("streaming", 0, "assistant", 1) in before["statuses"]  # type: ignore
    SessionStore(path).close()
    after = facts(path)
    assert {name: after[name] for name in before} == before
    assert version_of(path) == (len(MIGRATION_NAMES),) * 2
    (kept,) = list_backups(path)
    assert (kept.kind, kept.version, kept.problem) == ("version", version, None)
    assert facts(kept.path) == before
    SessionStore(path).close()
    assert facts(path) == after and len(list_backups(path)) == 1


def test_a_long_migration_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sample(1, tmp_path)
    assert schema.upgrade_notice(path) is None, "a small one takes no time"
    monkeypatch.setattr(schema, "ALWAYS_CHECKED_BYTES", 1000)
    assert "brought up to this version" in (schema.upgrade_notice(path) or "")
    SessionStore(path).close()
    assert schema.upgrade_notice(path) is None
    assert schema.upgrade_notice(tmp_path / "none.db") is None


@pytest.mark.parametrize("version", OLDER)
def test_chats_of_an_older_version_go_on(version: int, tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["more"])
        service = ChatService(SessionStore(sample(version, tmp_path)), engine)
        shown = [await service.open(one["id"]) for one in await service.list_sessions()]
        assert len(shown) == 4 and {"שיחה על פראג 🏰", "never finished"} <= {one["session"]["title"] for one in shown}
        (cut,) = [one["messages"][-1] for one in shown if one["session"]["title"] == "never finished"]
        assert (cut["status"], "cut off" in cut["error"]) == ("interrupted", True) and cut["content"]
        for one in shown:
            last = one["messages"][-1]["id"] if one["messages"] else None
            sent = await service.send(one["session"]["id"], last, "go on")
            while (await service.open(one["session"]["id"]))["messages"][-1]["status"] == "streaming":
                await asyncio.sleep(0.005)
            tail = (await service.open(one["session"]["id"]))["messages"]
            assert [one["content"] for one in tail[-2:]] == ["go on", "more"]
            assert tail[-2]["id"] == sent["user"]["id"]
        await service.close()

    asyncio.run(story())


def dies_in(path: Path, place: str) -> Callable[[], None]:
    """A start that ends at the end of a step, before the commit, or right after it."""

    def start() -> None:
        if place == "after the commit":
            schema.rotate = lambda path: die()  # type: ignore[assignment]
        elif place == "before the commit":
            whole = schema._apply
            schema._apply = lambda connection: (whole(connection), die())  # type: ignore[assignment]
        else:
            steps.migrations = migrations_that_die(place)
        SessionStore(path)

    return start


def migrations_that_die(name: str) -> Migrations:
    """The migrations, of which one does its work and ends the process."""
    found = Migrations(schema.MIGRATION_SET)
    for one in MIGRATION_NAMES:
        work = getattr(steps, one)
        found(name=one)((lambda db, work=work: (work(db), die())) if one == name else work)
    return found


@pytest.mark.skipif(os.name != "posix", reason="forks")
@pytest.mark.parametrize(
    ("version", "place"),
    [(v, place) for v in OLDER for place in (*MIGRATION_NAMES[v:], "before the commit", "after the commit")],
)
def test_a_kill_in_any_step_leaves_the_old_or_the_new_and_the_next_start_goes_on(
    version: int, place: str, tmp_path: Path
) -> None:
    path = sample(version, tmp_path)
    before = facts(path)
    assert in_fork(dies_in(path, place)) == DIED
    new = place == "after the commit"
    assert version_of(path) == (len(MIGRATION_NAMES) if new else version,) * 2
    after = facts(path)
    assert {name: after[name] for name in before} == before
    assert [facts(one.path) == before for one in list_backups(path)] == [True]
    SessionStore(path).close()
    assert version_of(path) == (len(MIGRATION_NAMES),) * 2
    after = facts(path)
    assert {name: after[name] for name in before} == before


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_starts_at_once_migrate_an_older_database_once(tmp_path: Path) -> None:
    path = sample(1, tmp_path)
    before = facts(path)
    children = [start_fork(lambda: SessionStore(path).close()) for _ in range(4)]
    assert [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children] == [0] * 4
    assert version_of(path) == (len(MIGRATION_NAMES),) * 2
    after = facts(path)
    assert {name: after[name] for name in before} == before
    assert len(list_backups(path)) == 1
