"""The record of what answered: kept whole, with its model's files, and judged against what is there now."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pagedchat.app.model_store import DEFAULT_MODEL, ModelStore
from pagedchat.app.operate.known_good import KnownGood, KnownGoodStore, model_record
from pagedchat.app.operate.recovery import find_model, way_back_sentence
from pagedchat.app.terminal import local_time
from pagedchat.engine.errors import ModelFileError, PagedChatError

SETTINGS = {"model": "tiny.gguf", "num_blocks": 64, "max_num_seqs": 4}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "models" / "tiny.gguf"
    path.parent.mkdir()
    path.write_bytes(b"GGUF" + b"the weights that answered")
    return path


@pytest.fixture
def store(tmp_path: Path) -> KnownGoodStore:
    return KnownGoodStore(tmp_path / "state")


def record_of(path: Path, **changes: object) -> KnownGood:
    model = model_record(path, {"model": "tiny", "fingerprint": "f1"})
    return KnownGood({**SETTINGS, **changes}, model, None, "2026-01-02T03:04:05+00:00", {"settings": SETTINGS})


def test_what_is_kept_comes_back_and_the_newest_replaces_the_one_before(store, model):
    store.save(record_of(model))
    store.save(record_of(model, num_blocks=128))

    found = store.load()

    assert found is not None and found.model is not None
    assert found.settings["num_blocks"] == 128
    assert found.model.fingerprint == "f1"
    assert found.snapshot == {"settings": SETTINGS}
    assert sorted(path.name for path in store.path.parent.iterdir()) == ["known_good", "known_good.json"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        "\x00\xff",
        '{"settings": {}, "model": {"x": 1}, "engine_url": null, "answered_at": ""}',
        '{"settings": [], "model": null, "engine_url": null, "answered_at": ""}',
        '{"settings": {}, "model": null, "engine_url": null, "answered_at": 7}',
        '{"settings": {}, "model": null, "engine_url": null, "answered_at": "", "snapshot": 5}',
        '{"settings": {}, "model": {"name": "a", "path": "", "files": {"": "b"}}, "engine_url": 1, "answered_at": ""}',
        '{"settings": {}, "model": {"name": "a", "path": 5, "files": {}}, "engine_url": null, "answered_at": ""}',
        "[" * 100_000,
    ],
)
def test_a_record_that_cannot_be_read_counts_as_none(store, content):
    store.path.parent.mkdir()
    store.path.write_text(content)

    assert store.load() is None
    with pytest.raises(PagedChatError, match="no configuration to go back to yet"):
        store.begin_rollback(Path("config.toml"))


def test_a_model_file_that_was_replaced_is_still_there_as_a_link(store, model, tmp_path):
    record = store.save(record_of(model))
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF" + b"something else of another size")
    os.replace(other, model)

    kept = find_model(record, ModelStore(model.parent))

    assert kept is not None and kept != model and kept.name == model.name
    assert kept.read_bytes() == b"GGUFthe weights that answered"
    assert record.differences(SETTINGS) == {"model file": ("as it was", "changed")}


def test_a_model_folder_is_kept_file_by_file(store, tmp_path):
    folder = tmp_path / "models" / "tiny"
    (folder / "sub").mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "sub/more.json"):
        (folder / name).write_text(name)
    record = store.save(record_of(folder))
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").write_text("other weights")

    kept = find_model(record, ModelStore(folder.parent))

    assert kept is not None and (kept / "model.safetensors").read_text() == "model.safetensors"
    assert (kept / "sub" / "more.json").exists()


def test_a_model_written_over_in_place_is_refused_with_its_size_and_the_default_one_is_fetched(store, model):
    record = store.save(record_of(model))
    model.write_bytes(b"GGUF" + bytes(3))

    with pytest.raises(ModelFileError, match=r"is not the file of 29 bytes that it was; put that file back"):
        find_model(record, ModelStore(model.parent))
    default = store.save(record_of(model, model="default"))
    os.truncate(model, 5)
    assert find_model(default, ModelStore(model.parent)) is None, "None: it is fetched"
    assert DEFAULT_MODEL.sha256


def test_a_copied_folder_whose_files_have_other_times_will_do(store, model):
    record = store.save(record_of(model))
    os.utime(model, ns=(1, 1))

    assert find_model(record, ModelStore(model.parent)) == model


def test_running_on_the_links_does_not_make_them_the_models_place(store, model, tmp_path):
    record = store.save(record_of(model))
    assert record.model is not None and record.model.kept is not None
    (tmp_path / "new").write_bytes(b"broken")
    os.replace(tmp_path / "new", model)

    again = store.save(record_of(Path(record.model.kept)))

    assert again.model is not None and again.model.path == str(model)
    assert "model file" in again.differences(SETTINGS)
    kept = find_model(again, ModelStore(model.parent))
    assert kept is not None and kept.read_bytes().endswith(b"that answered")


def test_deleting_the_model_gives_its_links_up(store, model):
    store.save(record_of(model))
    store.forget_model(model)

    assert not (store.path.parent / "known_good").exists()


def test_where_nothing_can_be_linked_the_record_is_kept_all_the_same(store, model, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    record = store.save(record_of(model))

    assert record.model is not None and record.model.kept is None
    assert find_model(record, ModelStore(model.parent)) == model


def test_a_write_that_fails_leaves_the_record_before(store, model, monkeypatch):
    store.save(record_of(model))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        store.save(record_of(model, num_blocks=1))
    found = store.load()
    assert found is not None and found.settings["num_blocks"] == 64


def test_a_rollback_keeps_its_own_copy_of_the_record(store, model, tmp_path):
    store.save(record_of(model))
    store.begin_rollback(tmp_path / "config.toml")
    store.save(record_of(model, num_blocks=128))

    rollback = store.rollback()

    assert rollback is not None and rollback.record.settings["num_blocks"] == 64
    assert rollback.config_digest is None
    assert json.loads((store.path.parent / "rollback.json").read_text())["since"] == rollback.since


def test_the_way_back_names_what_differs_the_first_three(model, store):
    record = store.save(record_of(model))
    now = {"model": "big.gguf", "num_blocks": None, "max_num_seqs": 9}

    sentence = way_back_sentence(record, record.differences(now, "http://127.0.0.1:9"))

    assert f"answered on {local_time('2026-01-02T03:04:05+00:00')}" in sentence
    assert "model (tiny.gguf, now big.gguf), num_blocks (64, now unset), max_num_seqs (4, now 9) and 1 more" in sentence
