"""A large file's hash is read once, and again whenever anything about the file is another."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pagedchat.engine.models import known_digests
from pagedchat.engine.models.checkpoint import open_checkpoint
from pagedchat.engine.models.known_digests import known_digest
from support.tiny_gguf import write_gguf


class Hashing:
    """Digests a file, and counts how often."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reads = 0

    def __call__(self) -> bytes:
        self.reads += 1
        return self.path.read_bytes()[-4:]


@pytest.fixture
def hashing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hashing:
    """Of a file that counts as large and as settled."""
    monkeypatch.setattr(known_digests, "user_cache_path", lambda *_, **__: tmp_path / "cache")
    monkeypatch.setattr(known_digests, "LEAST_BYTES", 8)
    monkeypatch.setattr(known_digests, "SETTLED_S", -1.0)
    path = tmp_path / "model.gguf"
    path.write_bytes(b"weights AAAA")
    time.sleep(0.05)  # clocks of file systems tick every 10 ms at the slowest
    return Hashing(path)


def test_a_large_file_is_read_once(hashing: Hashing) -> None:
    assert [known_digest(hashing.path, hashing) for _ in range(3)] == [b"AAAA"] * 3
    assert hashing.reads == 1


def change_in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"BBBB")


def put_another_in_its_place(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(b"weights BBBB")
    other.replace(path)


@pytest.mark.parametrize("change", [change_in_place, put_another_in_its_place])
def test_changed_contents_are_noticed_even_with_the_size_and_time_of_before(
    hashing: Hashing, change: Callable[[Path], None]
) -> None:
    assert known_digest(hashing.path, hashing) == b"AAAA"
    before = hashing.path.stat()

    change(hashing.path)
    os.utime(hashing.path, ns=(before.st_atime_ns, before.st_mtime_ns))

    after = hashing.path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert known_digest(hashing.path, hashing) == b"BBBB"


def test_what_is_remembered_of_one_place_is_not_taken_for_another(hashing: Hashing) -> None:
    known_digest(hashing.path, hashing)
    copy = Hashing(hashing.path.with_name("copy.gguf"))
    copy.path.hardlink_to(hashing.path)
    known_digest(copy.path, copy)
    assert copy.reads == 1


def test_a_file_that_has_just_changed_is_not_remembered(hashing: Hashing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_digests, "SETTLED_S", 60.0)
    known_digest(hashing.path, hashing)
    known_digest(hashing.path, hashing)
    assert hashing.reads == 2


def test_a_file_that_changes_while_it_is_read_is_not_remembered(hashing: Hashing) -> None:
    def read_slowly() -> bytes:
        digest = hashing()
        change_in_place(hashing.path)
        return digest

    assert known_digest(hashing.path, read_slowly) == b"AAAA"
    assert known_digest(hashing.path, hashing) == b"BBBB"


def test_a_damaged_note_is_no_answer_and_a_folder_that_cannot_be_written_no_trouble(
    hashing: Hashing, tmp_path: Path
) -> None:
    known_digest(hashing.path, hashing)
    (note,) = (tmp_path / "cache" / known_digests.FOLDER).iterdir()
    for text in ("", "{", "[]", '{"digest": "zz"}'):
        note.write_text(text)
        assert known_digest(hashing.path, hashing) == b"AAAA"
    note.unlink()
    note.parent.rmdir()
    note.parent.write_text("in the way")
    assert known_digest(hashing.path, hashing) == b"AAAA"


def test_a_checkpoint_whose_hash_is_remembered_has_the_same_fingerprint(
    hashing: Hashing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_gguf(tmp_path / "tiny.gguf")
    read = open_checkpoint(path).fingerprint
    monkeypatch.setattr("pagedchat.engine.models.fingerprint._digest", lambda path: pytest.fail("it is read again"))
    assert open_checkpoint(path).fingerprint == read
