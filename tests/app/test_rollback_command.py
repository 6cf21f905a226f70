"""The way back by command, in and beside a whole server whose engine is scripted."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pagedchat.app.model_store import ModelStore
from pagedchat.app.operate.known_good import model_record
from pagedchat.app.server import _find_model, _tell_of
from pagedchat.app.settings import load_configuration
from support.command import pagedchat
from support.known_good import LONG_AGO, known_good
from support.page_socket import Page
from support.running_app import RunningApp


@pytest.fixture
def scripted_models(tmp_path: Path) -> Path:
    folder = tmp_path / "scripted"
    folder.mkdir()
    for name in ("good", "broken"):
        (folder / f"{name}.gguf").write_bytes(b"GGUF")
    return folder


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_page_health_log_and_terminal_tell_and_the_command_takes_a_running_server_back(
    start_app: Callable[..., RunningApp], scripted_models: Path, tmp_path: Path
) -> None:
    record = model_record(scripted_models / "good.gguf", {"model": "good"})
    store = known_good(tmp_path / "data", record, model="good")
    flags, data = ("--models-dir", str(scripted_models)), ("--data-dir", str(tmp_path / "data"))

    app = start_app(*flags, "--model", "broken", scripted=True, wait="page")
    page = Page(app)
    wait_for(lambda: app.get_json("/health")[1]["status"] == "failed", "the engine has failed")
    status, health = app.get_json("/health")
    assert status == 503 and health["configuration"]["way_back"] == LONG_AGO
    assert "model (good, now broken)" in health["configuration"]["problem"]
    assert "`pagedchat rollback` returns to" in app.errors
    assert page.call("hello")["status"]["configuration"] == health["configuration"]
    assert "the engine could not start" in (tmp_path / "data/state/log/pagedchat.log").read_text()
    chat = page.call("create")["id"]

    told = pagedchat("rollback", *data)
    assert (told.returncode, told.stderr) == (0, "") and "the engine is starting with it" in told.stdout
    assert app.wait_engine()["configuration"]["rolled_back"]
    assert [one["id"] for one in Page(app).call("hello")["sessions"]] == [chat], "chats are as they were"
    body = {"model": "good", "prompt": "hello", "max_tokens": 4, "return_token_ids": True}
    answer = json.loads(app.request("POST", "/v1/completions", body)[2])
    assert answer["choices"][0]["token_ids"] == list(b"HELL")
    wait_for(lambda: store.require().answered_at != LONG_AGO, "the configuration that answers is kept")
    assert store.require().settings["model"] == "good"

    undone = pagedchat("rollback", "--undo", "--json", *data)
    assert "keeps what it has until" in json.loads(undone.stdout)["message"]
    assert not (tmp_path / "data/state/rollback.json").exists()


def test_a_later_start_takes_the_model_of_the_rollback_as_it_was(scripted_models: Path, tmp_path: Path, capsys) -> None:
    model = scripted_models / "good.gguf"
    store = known_good(tmp_path / "data", model_record(model, {"model": "good"}), model="good")
    os.replace(scripted_models / "broken.gguf", model)
    model.write_bytes(b"of another size")
    folders = {"data_dir": tmp_path / "data", "models_dir": scripted_models}
    store.begin_rollback(load_configuration(folders).folders.config_file)

    configuration = load_configuration(folders)
    found = _find_model(configuration, ModelStore(scripted_models))
    _tell_of(configuration)

    assert isinstance(found, Path) and found != model and found.read_bytes() == b"GGUF"
    assert "`pagedchat rollback --undo` returns to your own settings" in capsys.readouterr().err


def test_rollback_without_a_server_counts_for_the_next_start_and_can_be_taken_back(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path))
    refused = pagedchat("rollback", *data)
    assert refused.returncode == 1 and "no configuration to go back to yet" in refused.stderr
    assert "No rollback is in force" in pagedchat("rollback", "--undo", *data).stdout
    known_good(tmp_path, max_num_seqs=3)

    assert "The next start uses the configuration that answered on 2026-01-02" in pagedchat("rollback", *data).stdout
    assert load_configuration({"data_dir": tmp_path}).settings.max_num_seqs == 3
    assert pagedchat("rollback", "--undo", *data).stdout == "The next start follows your own settings again.\n"
    assert load_configuration({"data_dir": tmp_path}).settings.max_num_seqs == 32


@pytest.mark.parametrize("config", ["block_size = 17", "block_size = 'many'", "port = = 1"])
def test_a_config_file_that_cannot_work_ends_the_start_and_names_the_way_back(tmp_path: Path, config: str) -> None:
    known_good(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(config)

    result = pagedchat("serve", "--no-browser", "--data-dir", str(tmp_path))

    assert result.returncode == 1 and result.stderr.count("\n") == 1
    assert "`pagedchat rollback` returns to the configuration that answered on 2026-01-02" in result.stderr


def test_a_flag_that_was_just_given_is_not_what_one_goes_back_from(tmp_path: Path) -> None:
    known_good(tmp_path)

    result = pagedchat("serve", "--no-browser", "--data-dir", str(tmp_path), "--block-size", "17")

    assert result.returncode == 1 and "--block-size" in result.stderr and "rollback" not in result.stderr
