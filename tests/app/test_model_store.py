from __future__ import annotations

from pathlib import Path

import pytest

from pagedchat.app.model_store import ModelStore
from pagedchat.engine.errors import ModelFileError
from support.package_index import packaged

CONTENT = b"GGUF and the rest"


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    (tmp_path / "models").mkdir()
    return ModelStore(tmp_path / "models", packaged(CONTENT))


def test_a_name_means_a_file_of_the_folder_with_or_without_its_ending(store):
    path = store.folder / "Model ß.gguf"
    path.write_bytes(CONTENT)

    assert store.resolve("Model ß") == path
    assert store.resolve("Model ß.gguf") == path


def test_a_path_and_a_link_are_taken_as_they_are(store, tmp_path):
    path = tmp_path / "dir 模型" / "m.gguf"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    link = tmp_path / "link.gguf"
    link.symlink_to(path)

    assert store.resolve(str(path)) == path
    assert store.resolve(str(link)) == link


def test_the_default_model_is_found_under_all_its_names(store):
    assert [store.resolve(name) for name in ("default", "Tiny", "Tiny.gguf")] == [None] * 3

    store.default_path.write_bytes(CONTENT)

    assert [store.resolve(name) for name in ("default", "Tiny", "Tiny.gguf")] == [store.default_path] * 3


def test_a_default_model_that_was_cut_is_refused_with_the_way_out(store):
    store.default_path.write_bytes(CONTENT[:-5])

    with pytest.raises(ModelFileError, match="models pull"):
        store.resolve("default")


@pytest.mark.parametrize("name", ["nothing", "some/path.gguf", "org/model"])
def test_a_model_that_is_not_there_is_named_with_the_folder(name, store):
    with pytest.raises(ModelFileError) as caught:
        store.resolve(name)

    assert name in str(caught.value)
    assert str(store.folder) in str(caught.value)


def test_a_folder_without_a_config_is_no_model(store):
    (store.folder / "pictures").mkdir()

    with pytest.raises(ModelFileError, match=r"config\.json"):
        store.resolve("pictures")
