"""What is told of the use of chats: numbers that match what was stored, and nothing of the text."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from pagedchat.app.bench.loads import read_profile
from pagedchat.app.commands import cli
from pagedchat.sessions.errors import StoreError
from pagedchat.sessions.rows import Generation
from pagedchat.sessions.store import SessionStore
from pagedchat.sessions.usage import read_usage

SECRET = "xylophone"


@pytest.fixture
def database(tmp_path):
    """Three chats with two questions each; replies of 10, 11, … tokens that all began in the same second."""
    path = tmp_path / "sessions.db"
    store, count = SessionStore(path), 0
    for _ in range(3):
        session, parent = store.create_session("", {}, None), None
        for _ in range(2):
            _, _, reply = store.add_question(session.id, parent, f"{SECRET} " * 8)
            generation = Generation(
                reply.id,
                started_at="2026-01-05T12:00:00.000Z",
                finished_at="2026-01-05T12:00:09.000Z",
                completion_tokens=10 + count,
                prompt_tokens=100,
                cached_tokens=60,
            )
            store.finish_reply(reply.id, "An answer.", "done", generation=generation)
            parent, count = reply.id, count + 1
    store.close()
    return path


def test_lengths_turns_and_replies_at_once_are_those_that_were_stored(database):
    usage = read_usage(database)
    assert usage.chats == 3 and usage.turns == [2, 2, 2]
    assert sorted(usage.reply_tokens) == [10, 11, 12, 13, 14, 15]
    assert usage.question_tokens == [len(f"{SECRET} ") * 8 // 4] * 6
    assert (usage.prompt_tokens, usage.cached_tokens) == (600, 360)
    assert usage.at_once == 6


def test_reading_changes_nothing_and_a_missing_file_is_not_made(database, tmp_path):
    before = database.read_bytes()
    read_usage(database)
    assert database.read_bytes() == before
    with pytest.raises(StoreError, match="no chats yet"):
        read_usage(tmp_path / "other.db")
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("PRAGMA user_version = 99", "by a newer pagedchat"),
        ("DROP TABLE _sqlite_migrations", "of another program"),
        ("DELETE FROM _sqlite_migrations WHERE id > 1", "by an older pagedchat"),
    ],
)
def test_a_database_of_another_version_or_program_is_refused(database, change, expected):
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(change)
        connection.commit()
    with pytest.raises(StoreError, match=expected):
        read_usage(database)


def test_an_empty_file_holds_no_chats(tmp_path):
    (tmp_path / "sessions.db").touch()
    with pytest.raises(StoreError, match=r"no chats yet.* is empty"):
        read_usage(tmp_path / "sessions.db")


def test_a_load_profile_of_ones_chats_can_be_read_by_the_bench_and_holds_no_text(database, tmp_path):
    mine = tmp_path / "mine.json"
    told = CliRunner().invoke(cli, ["sessions", "stats", "--load-profile", str(mine), "--data-dir", str(tmp_path)])
    assert told.exit_code == 0, told.output
    assert SECRET not in mine.read_text(encoding="utf-8") and told.stdout == ""
    printed = CliRunner().invoke(cli, ["sessions", "stats", "--load-profile", "-", "--data-dir", str(tmp_path)])
    assert printed.stdout == mine.read_text(encoding="utf-8")
    profile = read_profile(mine)
    assert profile.percentiles["reply_tokens"]["p99"] == pytest.approx(14.95)
    assert profile.history_tokens == [80.0] * 11 and profile.regenerate_share == profile.branch_share == 0
    assert profile.chats == 6 and profile.turns == [2.0] * 11
    assert profile.reply_tokens[0] == 10 and profile.reply_tokens[-1] == 15


def test_stats_are_told_in_words_and_as_json(database, tmp_path):
    words = CliRunner().invoke(cli, ["sessions", "stats", "--data-dir", str(tmp_path)]).stdout
    assert "3 chats, 6 questions, 6 replies, at most 6 at once" in words
    assert "60% of them from the cache" in words
    found = json.loads(CliRunner().invoke(cli, ["sessions", "stats", "--json", "--data-dir", str(tmp_path)]).stdout)
    assert found["turns"] == {"p50": 2.0, "p95": 2.0, "p99": 2.0}


def test_replies_and_questions_made_anew_are_counted_those_in_deleted_branches_too(database):
    store = SessionStore(database)
    session = store.create_session(None, {}, None).id
    _, question, reply = store.add_question(session, None, "one")
    replies = [reply, store.add_reply(question.id)[1]]
    edited = store.add_edit(question.id, "two")
    replies.append(edited[2])
    for one in replies:
        generation = Generation(one.id, started_at="2026-01-05T13:00:00.000Z", completion_tokens=5, prompt_tokens=50)
        store.finish_reply(one.id, "An answer.", "done", generation=generation)
    before = read_usage(database)
    store.trash.delete_branch(edited[1].id)
    store.close()

    assert (before.regenerated, before.branched) == (1, 1)
    assert before.history_tokens[-3:] == [49, 49, 49]
    assert read_usage(database) == before


def test_too_few_chats_make_no_profile(tmp_path):
    SessionStore(tmp_path / "sessions.db").close()
    done = CliRunner().invoke(cli, ["sessions", "stats", "--load-profile", "-", "--data-dir", str(tmp_path)])
    assert done.exit_code == 1 and "at least 5 questions" in str(done.exception)
