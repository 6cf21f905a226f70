"""The full-text index stays in step with the messages, is made anew where it is not, and can be missing."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pagedchat.sessions import search, search_index
from pagedchat.sessions.connection import Connection
from pagedchat.sessions.errors import SessionError, StoreError
from pagedchat.sessions.search_query import parse
from pagedchat.sessions.search_text import index_text
from pagedchat.sessions.store import SessionStore
from support.searched import Shelf, index_of, text_of

WORDS = [
    "apple",
    "Äpfel",
    "北京大学",
    "C++",
    "naïve",
    "ok",
    "👍",
    "```x```",
    "https://a.b",
    "ภาษา",
    "_",
    "\0",
    "x" * 90,
]


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(tmp_path / "sessions.db")
    yield made
    made.store.close()


def reopened(shelf: Shelf) -> SessionStore:
    shelf.store.close()
    shelf.store = SessionStore(shelf.path)
    return shelf.store


def take_in_all(store: SessionStore) -> None:
    while store.search.take_in():
        pass


def states(store: SessionStore) -> str | None:
    with store._reader.reading() as connection:
        return search_index._state(connection)


def spoil(store: SessionStore, *statements: str) -> None:
    with store._writer.transaction(durable=False) as connection:
        for one in statements:
            connection.execute(one)


def without_fts5(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a Python whose SQLite was built without it: whoever touches a table of it fails."""
    monkeypatch.setattr(search_index, "has_fts5", lambda: False)
    monkeypatch.setattr(search, "_matches", lambda *_: pytest.fail("a search without FTS5 must not ask a table of it"))


class Story:
    """Random operations on a store."""

    def __init__(self, store: SessionStore, seed: int) -> None:
        self.store, self.draw = store, random.Random(seed)
        self.sessions = [store.create_session(None, {}, None).id for _ in range(2)]
        self.replies: list[str] = []

    def text(self) -> str:
        return " ".join(self.draw.choices(WORDS, k=self.draw.randint(0, 5))) or "x"

    def ask(self) -> None:
        session = self.draw.choice(self.sessions)
        head = self.store.session(session).head_id
        _, _, reply = self.store.add_question(session, head, self.text())
        self._end(reply.id)

    def again(self) -> None:
        self._end(self.store.add_reply(self.draw.choice(self.replies))[1].id)

    def edit(self) -> None:
        edited = self.store.add_edit(self.draw.choice(self.replies), self.text())
        assert edited[2] is None

    def go_on(self) -> None:
        self._end(self.store.resume_reply(self.draw.choice(self.replies))[1].id)

    def delete(self) -> None:
        self.store.trash.delete_branch(self.draw.choice(self.replies))

    def purge(self) -> None:
        branches = self.store.trash.branches()
        if branches:
            wanted = [self.draw.choice(branches).id]
            for _ in range(self.draw.randint(0, 2)):
                self.store.trash.forget_words(wanted)
            self.store.trash.purge(wanted)

    def fork(self) -> None:
        self.sessions.append(self.store.fork(self.draw.choice(self.replies), "tree").id)

    def take_in(self) -> None:
        self.store.search.take_in()

    def name(self) -> None:
        self.store.change_session(self.draw.choice(self.sessions), title=self.text(), title_by="user")

    def _end(self, reply_id: str) -> None:
        self.store.save_partial(reply_id, self.text())
        status = self.draw.choice(["done", "stopped", "error", "interrupted"])
        content = "" if self.draw.random() < 0.2 else self.text()
        reasoning = self.text() if self.draw.random() < 0.3 else None
        self.store.finish_reply(reply_id, content, status, reasoning=reasoning)
        self.replies.append(reply_id)

    def run(self, steps: int) -> None:
        self.ask()
        acts: list[Callable[[], None]] = [self.ask, self.again, self.edit, self.go_on, self.delete, self.purge]
        acts += [self.fork, self.name, self.ask, self.take_in]
        for _ in range(steps):
            with contextlib.suppress(SessionError):
                self.draw.choice(acts)()


@pytest.mark.parametrize("again", ["in this process", "after a crash"])
def test_a_fork_is_found_step_by_step_and_says_so_until_then(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    monkeypatch.setattr(search_index, "_STEP_S", 0.0)
    reply = shelf.ask("the same words", "these words", title="a title")
    other = shelf.store.fork(reply, "branch")
    assert len(shelf.find("words").hits) == 2 and "not be found yet" in shelf.find("words").note
    assert {one.session_id for one in shelf.find("title").hits} == {shelf.session_of(reply), other.id}
    assert shelf.store.search.take_in() and len(shelf.find("words").hits) == 3
    shelf.store.resume_reply(str(shelf.store.session(other.id).head_id))  # leaves no trace of what was not there yet
    if again == "after a crash":
        reopened(shelf)
    else:
        take_in_all(shelf.store)
    assert len(shelf.find("words").hits) == 3 and shelf.find("words").note == ""
    shelf.store.finish_reply(str(shelf.store.session(other.id).head_id), "these words end", "done")
    assert len(shelf.find("words").hits) == 4
    assert reopened(shelf).commits == 0


@pytest.mark.parametrize("seed", range(4))
def test_after_any_operations_the_index_is_that_of_a_new_one(
    shelf: Shelf, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_index, "_STEP_S", 0.0)
    Story(shelf.store, seed).run(60)
    take_in_all(shelf.store)
    with shelf.store._reader.reading() as connection:
        assert not search_index.needs_rebuild(connection)
    held = index_of(shelf.store)
    with shelf.store._writer.transaction(durable=False) as connection:
        connection.execute("INSERT INTO message_words (message_words) VALUES ('integrity-check')")
        connection.execute("INSERT INTO session_words (session_words) VALUES ('integrity-check')")
        search_index.rebuild(connection)
    assert held == index_of(shelf.store) and len(held["message_words"]) > 100


def test_a_search_without_the_index_finds_the_same_and_says_why(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    Story(shelf.store, 7).run(60)
    take_in_all(shelf.store)
    queries = [
        *WORDS,
        "app",
        "北",
        "京大",
        "大学",
        "ภ",
        "apple ok",
        '"apple ok"',
        "apple -ok",
        "-apple",
        "role:user ok",
    ]
    queries += ["has:code", "has:link apple", "-has:code", "has:branch", "has:reasoning", "c", "c+", "after:today"]
    indexed = {one: shelf.find(one, 1000) for one in queries}
    assert all(found.note == "" for one, found in indexed.items() if parse(one) != parse(""))
    without_fts5(monkeypatch)
    for one in queries:
        found = shelf.find(one, 1000)
        assert {hit.message_id or hit.session_id for hit in found.hits} == {
            hit.message_id or hit.session_id for hit in indexed[one].hits
        }, one
        assert found.total == indexed[one].total
        assert "no full-text search" in found.note or parse(one) == parse("")


def test_a_store_is_made_used_and_migrated_without_fts5_and_gets_its_index_later(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with pytest.MonkeyPatch.context() as patch:
        without_fts5(patch)
        shelf = Shelf(path)
        shelf.ask("no index yet", "Änderung")
        assert shelf.texts("anderung") == {"Änderung"}
        assert "no full-text search" in shelf.find("anderung").note
        tables = shelf.store._reader._raw.execute("SELECT name FROM sqlite_master").fetchall()
        assert not any("words" in row[0] for row in tables)
        reopened(shelf)
        shelf.store.close()
    shelf = Shelf(path)
    assert shelf.find("anderung").note == "" and shelf.texts("anderung") == {"Änderung"}
    assert states(shelf.store) == search_index.SIGNATURE
    shelf.store.close()


def test_what_is_written_without_fts5_is_indexed_by_the_next_start_that_has_it(shelf: Shelf) -> None:
    first = shelf.ask("with index", "one")
    with pytest.MonkeyPatch.context() as patch:
        without_fts5(patch)
        _, second = shelf.store.add_reply(first)
        shelf.store.finish_reply(second.id, "written blind", "stopped")
        assert states(shelf.store) == "stale" and shelf.texts("blind") == {"written blind"}
    assert "made anew at the next start" in shelf.find("blind").note
    reopened(shelf)
    assert shelf.find("blind").note == "" and shelf.texts("blind") == {"written blind"}


def test_a_scan_is_bounded_and_says_how_far_it_went(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.ask("oldest fig", "x")
    for number in range(5):
        shelf.ask(f"fig {number}", "y" * 100)
    without_fts5(monkeypatch)
    monkeypatch.setattr(search, "_SCAN_CHARACTERS", 12)
    found = shelf.find("fig role:user")
    assert found.more and "only the newest" in found.note and 0 < len(found.hits) < 6


@pytest.mark.parametrize(
    "damage",
    [
        ["DELETE FROM messages_gone"],
        ["DELETE FROM message_words_data"],
        ["UPDATE message_words_data SET block = x'00'"],
        ["UPDATE message_words_data SET block = zeroblob(40)"],
        ["DROP TABLE message_words"],
        ["DROP TABLE session_words"],
        ["DELETE FROM message_words_docsize"],
        ["UPDATE message_words_config SET v = 99 WHERE k = 'version'"],
    ],
    ids=lambda one: one[0][:40],
)
def test_a_broken_index_never_keeps_a_message_from_being_saved(shelf: Shelf, damage: list[str]) -> None:
    first = shelf.ask("before the damage", "one two", title="a title")
    if damage[0] != "DELETE FROM messages_gone":
        spoil(shelf.store, *damage)
    reopened_raw = shelf.store  # the damage may be seen only by a connection that has not read the index yet
    second = shelf.ask("after the damage", "three", parent=first)
    reopened_raw.change_session(shelf.session_of(second), title="another title", title_by="user")
    third = shelf.store.add_reply(second)[1]
    shelf.store.finish_reply(third.id, "four", "stopped")
    shelf.store.resume_reply(third.id)
    shelf.store.finish_reply(third.id, "four five", "done")
    assert {"after the damage", "before the damage"} <= shelf.texts("damage") | shelf.texts("role:user")
    reopened(shelf)
    assert shelf.texts("damage") == {"before the damage", "after the damage"}
    assert shelf.texts("five") == {"four five"} and shelf.find("damage").note == ""
    assert [hit.part for hit in shelf.find("another").hits] == ["title"]


def test_a_full_disk_is_no_broken_index(shelf: Shelf) -> None:
    shelf.ask("some", "text")
    raw = shelf.store._writer._raw
    pages = raw.execute("PRAGMA page_count").fetchone()[0]
    raw.execute(f"PRAGMA max_page_count = {pages}")
    session = shelf.store.create_session
    with pytest.raises(StoreError, match="full"):
        for _ in range(20):
            shelf.store.add_question(session(None, {}, None).id, None, "more " * 2000)
    assert states(shelf.store) == search_index.SIGNATURE
    raw.execute("PRAGMA max_page_count = 100000")
    shelf.ask("room again", "ok")
    with shelf.store._reader.reading() as connection:
        assert not search_index.needs_rebuild(connection)


@pytest.mark.parametrize("change", ["a row more", "a row less", "another folding", "a title more"])
def test_an_index_out_of_step_is_noticed_at_the_start(shelf: Shelf, change: str) -> None:
    reply = shelf.ask("one", "two")
    session = shelf.session_of(reply)
    spoil(
        shelf.store,
        {
            "a row more": "INSERT INTO messages (id, session_id, role, status, content, created_at, updated_at) "
            f"VALUES ('m', '{session}', 'user', 'done', 'strange', '2026', '2026')",
            "a row less": "INSERT INTO message_words (rowid, content) VALUES (1000, 'ghost')",
            "another folding": "UPDATE state SET value = '0 0.0' WHERE key = 'search_index'",
            "a title more": "INSERT INTO sessions (id, title, created_at, updated_at) VALUES ('s', 'strange', '', '')",
        }[change],
    )
    assert len(shelf.find("strange").hits) == 0
    reopened(shelf)
    assert len(shelf.find("strange").hits) == (1 if change.endswith("more") else 0)
    assert states(shelf.store) == search_index.SIGNATURE
    assert reopened(shelf).commits == 0


def test_an_index_that_cannot_be_made_leaves_the_store_usable(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.ask("plain", "text")
    spoil(shelf.store, "UPDATE state SET value = 'stale' WHERE key = 'search_index'")

    def fails(connection: sqlite3.Connection) -> None:
        connection.execute("SELECT no_such_column FROM messages")

    monkeypatch.setattr(search_index, "rebuild", fails)
    reopened(shelf)
    shelf.ask("more", "text")
    assert len(shelf.texts("text")) == 1 and "out of order" in shelf.find("text").note


def test_two_connections_notice_the_same_and_make_it_once(shelf: Shelf) -> None:
    shelf.ask("one", "two")
    spoil(shelf.store, "UPDATE state SET value = 'stale' WHERE key = 'search_index'")
    other = SessionStore(shelf.path)
    assert states(shelf.store) == search_index.SIGNATURE and shelf.texts("one") == {"one"}
    commits = other.commits
    search_index.catch_up(other._writer)
    assert other.commits == commits
    other.close()


TYPED = st.text(alphabet="apleÄ北京大学C+naïve👍`x:/. \"-*()_\0\ud800'rolehas", max_size=30) | st.sampled_from(WORDS)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    made = Shelf(tmp_path_factory.mktemp("filled") / "sessions.db")
    Story(made.store, 1).run(40)
    yield made
    made.store.close()


@given(TYPED)
@example('") OR 1 --')
@example('"a" NEAR/2 "b"*')
@example("content:apple")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_any_text_finds_only_what_has_all_its_words(filled: Shelf, typed: str) -> None:
    try:
        found = filled.find(typed, 1000)
    except SessionError:
        return
    for hit in found.hits:
        if hit.message_id is None:
            texts = [filled.store.session(hit.session_id).title or ""]
        else:
            message = filled.store.message(hit.message_id)
            texts = [message.content, message.reasoning or ""]
        assert "".join(text_of(hit.snippet).split("…")) in "".join(texts) or "…" in text_of(hit.snippet)
        held = [f" {' '.join(index_text(one).split())} " for one in texts]
        for term in parse(typed).wanted:
            tokens, goes_on = term.tokens()
            assert any(f" {' '.join(tokens)}{'' if goes_on else ' '}" in one for one in held)


def test_the_index_is_written_in_the_transaction_of_its_message(shelf: Shelf) -> None:
    session = shelf.store.create_session(None, {}, None)
    writer: Connection = shelf.store._writer
    before = writer.commits
    _, _, reply = shelf.store.add_question(session.id, None, "one commit")
    shelf.store.finish_reply(reply.id, "another", "done")
    assert writer.commits == before + 2 and shelf.texts("commit") == {"one commit"}
