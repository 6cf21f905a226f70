"""What the store does for one message does not grow with the chat it is in, nor with the other chats."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pagedchat.app.bench.sessions_store import CJK, Made, Shape, make_store
from pagedchat.sessions.store import SessionStore

SMALL = Shape(messages=60, sessions=5, long_messages=20, long_characters=2_000)
LARGE = Shape(messages=2_400, sessions=200, long_messages=600, long_characters=1_500_000)
STEP = 100
"""SQLite's own instructions between two looks of its progress handler."""


class Counted:
    """A store of one shape, and how much work SQLite has for a call.

    Attributes:
        pages: of 4 KB that a call wrote to the log.
        work: instructions of SQLite's machine, in hundreds: rows that are looked at are counted there.
    """

    def __init__(self, folder: Path, shape: Shape) -> None:
        self.made: Made = make_store(folder / "sessions.db", shape, 1, lambda _: None)
        self.store = SessionStore(folder / "sessions.db")
        self.pages = self.work = 0

    def measure(self, call: Callable[[], Any]) -> Any:
        """Call it, and count."""
        self.store._writer.shorten_log()
        self.work = 0
        with self._counting(self.store._writer._raw), self._counting(self.store._reader._raw):
            answer = call()
        log = self.store.path.with_name("sessions.db-wal")
        self.pages = log.stat().st_size // 4096
        return answer

    @contextmanager
    def _counting(self, raw: sqlite3.Connection) -> Iterator[None]:
        def count() -> int:
            self.work += 1
            return 0

        raw.set_progress_handler(count, STEP)
        try:
            yield
        finally:
            raw.set_progress_handler(None, 0)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Counted, Counted]]:
    pair = [Counted(tmp_path_factory.mktemp(name), shape) for name, shape in (("small", SMALL), ("large", LARGE))]
    yield pair[0], pair[1]
    for one in pair:
        one.store.close()


def appended(counted: Counted) -> list[tuple[str, int, int]]:
    """(what, pages written, work) of a question, a part of its reply, and the end, in the long session."""
    store, session = counted.store, counted.made.long_id
    head = store.session(session).head_id
    found = []
    _, _, reply = counted.measure(lambda: store.add_question(session, head, "a question of some words"))
    found.append(("question", counted.pages, counted.work))
    counted.measure(lambda: store.save_partial(reply.id, "part of a reply"))
    found.append(("part", counted.pages, counted.work))
    counted.measure(lambda: store.finish_reply(reply.id, "all of a reply", "done"))
    found.append(("end", counted.pages, counted.work))
    return found


def test_saving_a_message_costs_the_same_in_a_long_chat_as_in_a_short_one(stores: tuple[Counted, Counted]) -> None:
    small, large = appended(stores[0]), appended(stores[1])
    for (what, pages, work), (_, more_pages, more_work) in zip(small, large, strict=True):
        # A deeper index has a page and some comparisons more; the chat has 750 times the text.
        assert more_pages <= pages + 12, what
        assert more_work <= work + 5, what
        assert more_pages < 40, what


def test_a_running_reply_writes_its_own_row_only(stores: tuple[Counted, Counted]) -> None:
    _, large = stores
    session = large.made.long_id
    _, _, reply = large.store.add_question(session, large.store.session(session).head_id, "q")
    sizes = []
    for length in (100, 1000, 2000):
        large.measure(lambda length=length: large.store.save_partial(reply.id, "x" * length))
        sizes.append(large.pages)
    assert max(sizes) <= 4
    large.store.finish_reply(reply.id, "end", "done")


def test_opening_a_chat_reads_that_chat_alone(stores: tuple[Counted, Counted]) -> None:
    _, large = stores
    session = large.store.message(large.made.middle_id).session_id
    branch = large.measure(lambda: large.store.shown_branch(session))[1]
    a_message = large.work / len(branch)
    branch = large.measure(lambda: large.store.shown_branch(large.made.long_id))[1]
    assert len(branch) >= LARGE.long_messages
    assert large.work <= 2 * len(branch) * max(a_message, 1)
    assert large.pages == 0


def test_the_end_of_a_chat_comes_without_the_texts_before_it(stores: tuple[Counted, Counted]) -> None:
    _, large = stores
    whole = large.store.shown_branch(large.made.long_id)[1]
    asked: list[str] = []
    large.store._reader._raw.set_trace_callback(asked.append)
    end, earlier = large.store.shown_branch(large.made.long_id, lambda ids: len(ids) - 6)[1:]
    large.store._reader._raw.set_trace_callback(None)
    assert end == whole[-6:] and earlier == len(whole) - 6
    texts = [one for one in asked if "m.content" in one]
    assert len(texts) == 1 and whole[-6].id in texts[0] and whole[-7].id not in texts[0]
    end, earlier = large.store.shown_branch(large.made.long_id, lambda ids: len(ids) - 5)[1:]
    assert end == whole[-6:] and earlier == len(whole) - 6, "a reply comes with its question"


def test_switching_branches_writes_one_head(stores: tuple[Counted, Counted]) -> None:
    _, large = stores
    leaf = large.store.session(large.made.long_id).head_id
    large.measure(lambda: large.store.select(large.made.forked_id))
    assert large.pages <= 8
    large.store.select(str(leaf))
    assert large.store.session(large.made.long_id).head_id == leaf


@pytest.mark.parametrize("query", ["zyzzyva", "qqqqqq", CJK[:2], "folder:work zyzzyva", "has:error"])
def test_a_search_does_not_read_every_message(stores: tuple[Counted, Counted], query: str) -> None:
    _, large = stores
    large.measure(lambda: large.store.search.find(query, 5))
    look_at_each = LARGE.messages * 5 / STEP
    assert large.work < look_at_each and large.pages == 0


def test_a_made_store_is_one_as_any_other(stores: tuple[Counted, Counted]) -> None:
    _, large = stores
    sessions = large.store.sessions()
    assert len(sessions) == LARGE.sessions and sum(one.archived for one in sessions) == LARGE.sessions // 10
    assert large.store.search.find("zyzzyva").total == 2
    raw = large.store._reader._raw
    assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
    count = raw.execute("SELECT count(*) FROM messages").fetchone()[0]
    assert abs(count - LARGE.messages) < 40
