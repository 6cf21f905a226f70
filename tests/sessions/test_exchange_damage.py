"""Files that are damaged, cut off, hostile or huge: a sentence or a report, never a traceback, never half an import."""

from __future__ import annotations

import io
import json
import random
import sqlite3
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pagedchat.sessions.errors import StoreError
from pagedchat.sessions.exchange import parsing
from pagedchat.sessions.exchange.formats import export
from pagedchat.sessions.exchange.reading import Reading, read_file
from pagedchat.sessions.exchange.report import ExchangeError
from pagedchat.sessions.store import SessionStore
from support.chat_trees import bring, grow, reachable

SAMPLES = sorted((Path(__file__).parent.parent / "data" / "exchange").iterdir())
ODD = (
    None,
    True,
    -1,
    0,
    1e300,
    2**70,
    "",
    "x",
    "\ud800",
    "a\0b",
    [],
    {},
    [None],
    {"id": {}},
    [[["deep"]]],
    "root",
    "a",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    store = SessionStore(tmp_path / "a.db")
    yield store
    store.close()


def attempt(data: bytes) -> Reading | None:
    """What is read, or None where the file is refused in a sentence."""
    try:
        reading = read_file("file", data)
    except ExchangeError as error:
        assert str(error).endswith((".", "!")) and "Traceback" not in str(error)
        return None
    assert not any("could not be read" in one["reason"] for one in reading.report.skipped), reading.report.skipped
    return reading


def archive_of(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name.replace("_", "."), data)
    return packed.getvalue()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_file_that_is_cut_off_anywhere_is_read_as_far_as_it_is_whole_or_refused(sample: Path) -> None:
    data = sample.read_bytes()
    whole = len(read_file("", data).trees)
    counts = [0, *(len(reading.trees) for end in range(0, len(data), 7) if (reading := attempt(data[:end])))]
    assert max(counts) <= whole and counts == sorted(counts)
    if whole > 1:
        assert whole - 1 in counts  # the chats before the cut came in


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_bytes_that_were_changed_are_no_trouble(sample: Path) -> None:
    rng = random.Random(sample.name)
    data = sample.read_bytes()
    outcomes = set()
    for _ in range(120):
        broken = bytearray(data)
        for _ in range(rng.choice((1, 3, 20))):
            broken[rng.randrange(len(broken))] = rng.choice(
                (0, 34, 44, 58, 91, 93, 123, 125, 128, 255, rng.randrange(256))
            )
        outcomes.add(attempt(bytes(broken)) is None)
    assert outcomes == {False, True}, "some are read, some refused"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_values_of_any_kind_in_any_place_are_no_trouble(store: SessionStore, sample: Path) -> None:
    rng = random.Random(sample.name)
    lines = sample.suffix == ".jsonl"
    text = sample.read_text()
    values = [json.loads(line) for line in text.splitlines()] if lines else [json.loads(text)]
    for number in range(100):
        changed = json.loads(json.dumps(values))
        for _ in range(rng.choice((1, 2, 8))):
            disturb(changed if lines else changed[0], rng)
        file = "\n".join(map(json.dumps, changed)) if lines else json.dumps(changed[0])
        reading = attempt(file.encode())
        if reading is not None and number % 10 == 0:
            for one in store.exchange.write_trees(reading).chats:
                tree = store.exchange.read_tree(one.id)
                assert reachable(store, one.id) == {node.content for node in tree.nodes if node.visible}


def disturb(value: Any, rng: random.Random) -> None:
    """Put something odd at a random place, or take something away."""
    while isinstance(value, dict | list) and value:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = rng.choice(list(keys))
        inner = value[key]
        if rng.random() < 0.25 or not isinstance(inner, dict | list) or not inner:
            if rng.random() < 0.2:
                del value[key]
            else:
                value[key] = rng.choice(ODD)
            return
        value = inner


def test_our_own_file_that_is_cut_off_gives_its_whole_chats(store: SessionStore) -> None:
    garden = store.exchange.read_tree(grow(store, 10))
    file = export([garden, garden, garden], "pagedchat").data.decode()
    second = file.index("\n{", file.index("\n{") + 2)
    cut = file.index('"order":4', second)
    for damaged in (file[:cut], file[:cut] + "?" + file[cut:]):
        report = bring(store, damaged)
        assert "ends too early or is damaged" in report.notes[0]
        assert [one.messages for one in report.chats][:2] == [len(garden.nodes), 4]
        assert len(report.chats) == (2 if damaged == file[:cut] else 3) and report.chats[0].repairs == []


def test_lines_that_are_broken_are_named_and_the_others_come_in(store: SessionStore) -> None:
    line = '{"messages": [{"role": "user", "content": "Hi\u2028 there"}]}'
    report = bring(store, f'{line}\n\n{line[:-9]}\r\n{{"other": 1}}\n{line}')
    assert [one["chat"] for one in report.skipped] == ["line 4", "line 3"] and len(report.chats) == 2
    report = bring(store, f"{line[5:]}\n{line}\n{line}")
    assert [one["chat"] for one in report.skipped] == ["line 1"] and len(report.chats) == 2


def test_a_file_of_a_newer_pagedchat_is_refused(store: SessionStore) -> None:
    for version, says in ((2, "update pagedchat"), (None, "does not say its version"), ("x", "does not say")):
        with pytest.raises(ExchangeError, match=says):
            bring(store, {"format": "pagedchat", "version": version, "chats": []})
    assert store.sessions() == []


def test_fields_of_a_later_version_that_are_not_known_are_no_reason(store: SessionStore) -> None:
    message = {"id": "a", "role": "user", "content": "Hi", "mood": "good"}
    file = {"format": "pagedchat", "version": 1, "weather": 1, "chats": [{"id": "x", "new": [], "messages": [message]}]}
    assert bring(store, file).chats[0].repairs == []


@pytest.mark.parametrize("bomb", ["[" * 200_000, '{"a":' * 200_000, '{"messages":[' + "[" * 3000])
def test_nesting_without_end_is_refused(bomb: str) -> None:
    with pytest.raises(ExchangeError, match=r"nested deeper|neither JSON"):
        read_file("bomb.json", bomb.encode())


def test_text_that_is_nested_deeply_is_still_no_trouble(store: SessionStore) -> None:
    deep = "[" * 400 + "]" * 400
    report = bring(
        store, f'{{"messages": [{{"role": "user", "content": {deep}}}, {{"role": "user", "content": "x"}}]}}'
    )
    assert report.chats[0].messages == 2


def test_an_archive_that_unpacks_to_too_much_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = archive_of(conversations_json=b" " * 3_000_000)
    assert len(bomb) < 5000
    monkeypatch.setattr(parsing, "MOST_BYTES", 2_000_000)
    monkeypatch.setattr("pagedchat.sessions.exchange.reading.MOST_BYTES", 2_000_000)
    monkeypatch.setattr("pagedchat.sessions.exchange.reading.unpack", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(ExchangeError, match="unpacks to more than"):
        read_file("bomb.zip", bomb)
    with pytest.raises(ExchangeError, match="larger than"):
        read_file("big.json", b" " * 2_000_001)


def test_an_archive_that_lies_about_its_sizes_brings_no_more_than_it_says() -> None:
    packed = bytearray(archive_of(a_json=b"[" + b"1," * 500_000 + b"1]"))
    size = (1_000_003).to_bytes(4, "little")
    assert packed.count(size) == 2
    lying = bytes(packed).replace(size, (100).to_bytes(4, "little"))
    archive = parsing.open_archive(lying)
    content = parsing.unpack(archive, archive.infolist()[0])
    assert content is None or len(content) <= 100
    attempt(lying)


def test_damaged_archives_are_refused_or_their_whole_files_are_read() -> None:
    line = b'{"messages": [{"role": "user", "content": "Hi"}]}'
    data = archive_of(one_json=line, two_json=line.replace(b"Hi", b"Ho"))
    for end in range(0, len(data), 11):
        attempt(data[:end])
    rng = random.Random(2)
    for _ in range(150):
        broken = bytearray(data)
        broken[rng.randrange(len(broken))] = rng.randrange(256)
        attempt(bytes(broken))
    with pytest.raises(ExchangeError, match="No chats"):
        read_file("pictures.zip", archive_of(a_png=b"x", b_json=b'{"settings": true}'))


def test_a_write_that_fails_in_the_middle_leaves_nothing(store: SessionStore) -> None:
    with store._writer.transaction(durable=True) as connection:
        connection.execute(
            "CREATE TRIGGER stop BEFORE INSERT ON messages WHEN new.content = 'last' "
            "BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    chats = [
        {"id": str(n), "folder": "F", "messages": [{"id": "a", "role": "user", "content": text}]}
        for n, text in enumerate(("first", "second", "last"))
    ]
    with pytest.raises(StoreError):
        bring(store, {"format": "pagedchat", "version": 1, "chats": chats})
    with sqlite3.connect(store.path) as outside:
        for table in ("sessions", "messages", "folders"):
            assert outside.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 0


def test_fifty_megabytes_come_in(store: SessionStore) -> None:
    megabyte = "word" * 250_000
    nodes = {
        f"n{number}": {
            "parent": f"n{number - 1}" if number else None,
            "message": {"author": {"role": "user"}, "content": {"parts": [f"{number} {megabyte}"]}},
        }
        for number in range(50)
    }
    data = json.dumps([{"title": "Big", "mapping": nodes, "current_node": "n49"}]).encode()
    assert len(data) > 50_000_000
    report = store.exchange.write_trees(read_file("big.json", data))
    assert report.chats[0].messages == 50
    assert len(store.shown_branch(report.chats[0].id)[1]) == 50


def test_a_list_of_chats_with_bytes_that_are_no_text_is_read_all_the_same():
    message = {"author": {"role": "user"}, "content": {"parts": ["Grüße aus Köln"]}}
    chats = [{"title": "Käse", "mapping": {"a": {"id": "a", "parent": None, "children": [], "message": message}}}]
    reading = read_file("x.json", json.dumps(chats, ensure_ascii=False).encode("latin-1"))
    assert [tree.title for tree, _ in reading.trees] == ["K\ufffdse"]
    assert "replacement character" in reading.report.notes[0]
