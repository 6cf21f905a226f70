"""A small share of the kill trials, and that they notice what they are for."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from pagedchat.sessions import replacing, reply_job, schema
from trials import kill_scenes, kills
from trials.running import Plan, run_trials

if os.name != "posix":
    pytest.skip("forks and SIGKILL", allow_module_level=True)

TRIALS = int(os.environ.get("PAGEDCHAT_TRIALS", "5"))


def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged() -> None:
    tally = run_trials(Plan("kills"), 4 * TRIALS, None, lambda line: None)
    assert not tally.failures, tally.failures[0]["error"]
    assert tally.notes["kills: chats"] > 0 and tally.notes["messages acknowledged"] > 10


def check_noticed(kind: str, folder: Path, message: str, tries: int = 12) -> None:
    """One of a few trials of a kind must fail with ``message``."""
    for number in range(tries):
        place = folder / str(number)
        place.mkdir()
        try:
            getattr(kills, kind)(place, random.Random(number))
        except AssertionError as error:
            assert message in str(error)
            return
    raise AssertionError("no trial noticed it")


def test_text_that_is_not_saved_in_time_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_job, "SAVE_INTERVAL_S", 60.0)
    monkeypatch.setattr(kills, "MOST_LOST_S", 0.02)
    monkeypatch.setattr(kills, "LATE_TIMER_S", 0.0)
    check_noticed("_chats", tmp_path, "characters were there")


def test_an_acknowledgement_that_comes_too_early_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = kill_scenes._User._send

    async def hasty(user: kill_scenes._User) -> None:
        user._teller.say(message="f" * 32, text="", status="done")
        await honest(user)

    monkeypatch.setattr(kill_scenes._User, "_send", hasty)
    check_noticed("_chats", tmp_path, "was acknowledged and is gone")


def test_a_migration_in_parts_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = schema._apply

    def in_parts(connection) -> None:
        connection.execute("DELETE FROM generations")
        connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
        apply(connection)

    monkeypatch.setattr(schema, "_apply", in_parts)
    check_noticed("_migrate", tmp_path, "")


def test_a_restore_that_keeps_nothing_aside_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replacing, "_move", lambda source, target: source.unlink())
    check_noticed("_restore", tmp_path, "")
