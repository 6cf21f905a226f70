"""What is brought back of a damaged database, and that the damaged file stays as it is."""

from __future__ import annotations

import os
import random
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from pagedchat.sessions.errors import StoreError
from pagedchat.sessions.pages import PAGE_SIZE
from pagedchat.sessions.restore import restore, restore_salvaged
from pagedchat.sessions.salvage import SalvageReport, salvage
from pagedchat.sessions.store import SessionStore
from support.stored_chats import add_chats, copied, overwrite, pages_of, texts

CHATS, TURNS = 30, 20


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "sessions.db"
    add_chats(path, CHATS, TURNS)
    return path


@pytest.fixture
def damaged(whole: Path, tmp_path: Path) -> Path:
    return copied(whole, tmp_path / "zkouška dir" / "sessions.db")


def salvaged(damaged: Path, target: Path) -> tuple[SalvageReport, dict[str, tuple[str, str, str]]]:
    """Salvage; the damaged file must stay, the new one be sound and open."""
    before = {one.name: one.read_bytes() for one in damaged.parent.iterdir()}
    report = salvage(damaged, target)
    assert {one.name: one.read_bytes() for one in damaged.parent.iterdir()} == before
    assert [one.name for one in target.parent.iterdir() if one != damaged.parent] == [target.name]
    with closing(sqlite3.connect(target)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchone() is None
    found = texts(target)
    assert (report.messages, len(report.sentences()) > 0) == (len(found), True)
    store = SessionStore(target)
    for session in store.sessions():
        left = session.id in {one[0] for one in found.values()}
        assert bool(store.shown_branch(session.id)[1]) is (session.head_id is not None) is left
    store.close()
    return report, found


def test_a_sound_database_comes_back_whole(damaged: Path, whole: Path, tmp_path: Path) -> None:
    report, found = salvaged(damaged, tmp_path / "new.db")
    assert found == texts(whole)
    assert (report.chats, report.lost_messages, report.affected, report.unread) == (CHATS, 0, [], [])
    with closing(sqlite3.connect(tmp_path / "new.db")) as new, closing(sqlite3.connect(whole)) as old:
        for table in ("generations", "message_tokens", "sessions"):
            assert new.execute(f"SELECT * FROM {table}").fetchall() == old.execute(f"SELECT * FROM {table}").fetchall()


@pytest.mark.parametrize("share", [0.02, 0.2])
def test_overwritten_pages_cost_no_more_than_the_rows_on_them(
    damaged: Path, whole: Path, tmp_path: Path, share: float
) -> None:
    every = pages_of(damaged, "messages")[1:]
    hit = random.Random(share).sample(every, max(1, int(len(every) * share)))
    with closing(sqlite3.connect(whole)) as connection:
        cells = dict(connection.execute("SELECT pageno, ncell FROM dbstat WHERE name = 'messages'").fetchall())
    overwrite(damaged, hit)
    report, found = salvaged(damaged, tmp_path / "new.db")
    before = texts(whole)
    lost = before.keys() - found.keys()
    assert len(lost) <= sum(max(1, cells[one]) for one in hit)
    spoilt = [one for one in found if found[one] != before[one]]
    assert len(spoilt) <= len(hit), "only a text that went on over an overwritten page may differ"
    assert report.unread and 0 < report.lost_messages <= len(lost)
    assert report.affected


def test_a_lost_root_page_or_inner_page_costs_no_row(damaged: Path, whole: Path, tmp_path: Path) -> None:
    overwrite(damaged, [pages_of(damaged, "messages")[0], pages_of(damaged, "generations")[0]])
    report, found = salvaged(damaged, tmp_path / "new.db")
    assert found == texts(whole)
    assert "looking through all pages" in " ".join(report.notes)


@pytest.mark.parametrize("header", ["100 bytes", "first page"])
def test_a_damaged_beginning_costs_no_message(damaged: Path, whole: Path, tmp_path: Path, header: str) -> None:
    with damaged.open("r+b") as file:
        file.write(random.Random(7).randbytes(100 if header == "100 bytes" else PAGE_SIZE))
    report, found = salvaged(damaged, tmp_path / "new.db")
    assert found == texts(whole)
    assert report.chats == CHATS


def test_a_header_that_makes_no_sense_costs_no_message(damaged: Path, whole: Path, tmp_path: Path) -> None:
    for number, (start, content) in enumerate([(16, b"\0\0"), (18, b"\xff" * 82), (20, b"\x77"), (56, b"\0\0\0\3")]):
        copy = copied(whole, damaged)
        with copy.open("r+b") as file:
            file.seek(start)
            file.write(content)
        salvage(copy, tmp_path / f"{number}.db")
        assert texts(tmp_path / f"{number}.db") == texts(whole)


@pytest.mark.parametrize("seed", range(int(os.environ.get("PAGEDCHAT_TRIALS", "5"))))
def test_any_damage_ends_in_a_sound_database_or_a_sentence(damaged: Path, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    content = bytearray(damaged.read_bytes())
    for _ in range(draw.choice((1, 10, 100))):
        start = draw.randrange(len(content))
        length = draw.choice((1, 10, 5000, 100_000))
        noise = draw.choice((draw.randbytes(length), bytes(length), bytes(content[:length])))
        content[start : start + length] = noise
    damaged.write_bytes(content[: draw.choice((len(content), draw.randrange(len(content))))])
    try:
        salvaged(damaged, tmp_path / "new.db")
    except StoreError as error:
        assert "No chat could be read" in str(error) and list(tmp_path.iterdir()) == [damaged.parent]


def test_damaged_indexes_and_search_cost_nothing(damaged: Path, whole: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(whole)) as connection:
        names = [row[0] for row in connection.execute("SELECT DISTINCT name FROM dbstat")]
    extra = [one for one in names if one.startswith(("sqlite_autoindex_messages", "message_words", "messages_by"))]
    assert extra
    for name in extra:
        overwrite(damaged, pages_of(whole, name))
    report, found = salvaged(damaged, tmp_path / "new.db")
    assert found == texts(whole)
    assert (report.unread, report.lost_messages) == ([], 0)


@pytest.mark.parametrize("part", [0.9, 0.5])
def test_a_file_cut_short_keeps_what_is_before_the_cut(damaged: Path, whole: Path, tmp_path: Path, part: float) -> None:
    content = damaged.read_bytes()
    damaged.write_bytes(content[: int(len(content) * part)])
    report, found = salvaged(damaged, tmp_path / "new.db")
    before = texts(whole)
    assert len(found) > len(before) * (part - 0.25)
    assert sum(found[one] != before[one] for one in found) <= 3
    assert report.lost_messages and report.affected


def test_a_chat_of_which_only_messages_are_left_is_shown_under_another_name(damaged: Path, tmp_path: Path) -> None:
    overwrite(damaged, pages_of(damaged, "sessions"))
    report, found = salvaged(damaged, tmp_path / "new.db")
    assert report.chats == CHATS and len(report.affected) == CHATS
    assert "Rescued chat: only its messages were left" in report.sentences()[1]
    assert len(found) == CHATS * TURNS * 6 // 5


def test_what_only_the_log_holds_is_salvaged_and_the_log_stays(whole: Path, tmp_path: Path) -> None:
    path = copied(whole, tmp_path / "data" / "sessions.db")
    child = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute(\"UPDATE messages SET content = 'in the log' WHERE key = 5\"); "
        "c.execute('BEGIN'); c.execute('UPDATE messages SET content = NULL WHERE key = 6') if 0 else None; os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", child, str(path)], check=False)
    assert (tmp_path / "data" / "sessions.db-wal").stat().st_size
    overwrite(path, pages_of(whole, "messages")[-1:])
    _, found = salvaged(path, tmp_path / "new.db")
    assert "in the log" in {one[2] for one in found.values()}


def test_a_file_without_any_chat_is_left_and_said(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    path.write_bytes(random.Random(1).randbytes(40_000))
    with pytest.raises(StoreError, match="No chat could be read"):
        salvage(path, tmp_path / "new.db")
    assert [one.name for one in tmp_path.iterdir()] == ["sessions.db"]
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="nothing to salvage"):
        salvage(path, tmp_path / "new.db")


def test_the_sentence_of_a_damaged_file_names_a_command_that_brings_it_back(damaged: Path, whole: Path) -> None:
    overwrite(damaged, pages_of(damaged, "messages")[:1])
    with pytest.raises(StoreError) as refused:
        SessionStore(damaged)
    hint = str(refused.value).split("`")[1]
    assert shlex.split(hint) == ["pagedchat", "sessions", "restore", "--salvage", "--data-dir", str(damaged.parent)]
    content = damaged.read_bytes()
    report, aside = restore_salvaged(damaged)
    assert aside is not None and aside.read_bytes() == content
    assert report.messages == len(texts(whole))
    SessionStore(damaged).close()
    assert texts(damaged) == texts(whole)
    with pytest.raises(StoreError, match="damaged"):
        restore(damaged, aside)
    assert texts(damaged) == texts(whole)


def test_a_sound_database_is_not_salvaged_but_one_whose_search_index_is_damaged_is(damaged: Path, whole: Path) -> None:
    content = damaged.read_bytes()
    with pytest.raises(StoreError, match="is not damaged; there is nothing to salvage"):
        restore_salvaged(damaged)
    assert [one.name for one in damaged.parent.iterdir()] == [damaged.name] and damaged.read_bytes() == content
    with closing(sqlite3.connect(damaged)) as connection:
        connection.execute("UPDATE message_words_config SET v = 99 WHERE k = 'version'")
        connection.commit()
    report, aside = restore_salvaged(damaged)
    assert aside is not None and (report.chats, report.lost_messages) == (CHATS, 0)
    assert texts(damaged) == texts(whole)
