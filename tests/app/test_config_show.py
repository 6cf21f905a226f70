"""Where settings come from: origins, profiles, unknown variables, and how configurations differ."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pagedchat.app.operate.known_good import config_digest
from pagedchat.app.operate.show import snapshot_differences, snapshot_named
from pagedchat.app.operate.snapshot import configuration_snapshot
from pagedchat.app.profiles import PROFILES
from pagedchat.app.settings import Configuration, Settings, load_configuration
from pagedchat.engine.errors import ConfigError, PagedChatError
from support.command import pagedchat
from support.known_good import known_good


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("PAGEDCHAT_"):
            monkeypatch.delenv(name)


def configured(tmp_path: Path, config: str = "", **flags: object) -> Configuration:
    (tmp_path / "config").mkdir(parents=True, exist_ok=True)
    if config:
        (tmp_path / "config" / "config.toml").write_text(config)
    return load_configuration({"data_dir": tmp_path, **flags})


def test_every_setting_knows_its_origin(tmp_path, monkeypatch):
    monkeypatch.setenv("PAGEDCHAT_MAX_MODEL_LEN", "777")
    found = configured(tmp_path, "block_size = 8\nprofile = 'low-memory'\n", max_num_seqs=5)

    assert (found.settings.max_num_seqs, found.origins["max_num_seqs"]) == (5, "flag")
    assert (found.settings.max_model_len, found.origins["max_model_len"]) == (777, "environment")
    assert (found.settings.block_size, found.origins["block_size"]) == (8, "config file")
    assert (found.settings.max_num_batched_tokens, found.origins["max_num_batched_tokens"]) == (128, "profile")
    assert (found.settings.dtype, found.origins["dtype"]) == ("auto", "default")
    assert set(found.origins) == set(Settings.model_fields)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_can_be_named_by_flag_environment_and_file_and_makes_an_engine(name, tmp_path, monkeypatch):
    by_flag = configured(tmp_path / "1", profile=name)
    by_file = configured(tmp_path / "2", f"profile = '{name}'")
    monkeypatch.setenv("PAGEDCHAT_PROFILE", name)
    by_variable = configured(tmp_path / "3")

    for found in (by_flag, by_file, by_variable):
        for setting, value in PROFILES[name].values.items():
            assert getattr(found.settings, setting) == value
        found.settings.engine_config("x.gguf")


def test_an_unknown_profile_is_one_sentence_that_names_the_known_ones(tmp_path):
    with pytest.raises(ConfigError, match=r"no profile 'fast'.*long-context, many-chats or low-memory"):
        configured(tmp_path, profile="fast")


def test_a_pool_size_said_in_another_way_hides_the_profiles(tmp_path):
    found = configured(tmp_path, "gpu_memory_utilization = 0.5", profile="low-memory")

    assert (found.settings.kv_cache_memory, found.origins["kv_cache_memory"]) == (None, "default")
    assert found.settings.max_num_seqs == PROFILES["low-memory"].values["max_num_seqs"]


def test_a_flag_for_the_pools_size_beats_another_way_to_say_it_in_environment_and_file(tmp_path, monkeypatch):
    monkeypatch.setenv("PAGEDCHAT_NUM_BLOCKS", "64")
    found = configured(tmp_path, "gpu_memory_utilization = 0.5", kv_cache_memory=1 << 20)

    assert (found.settings.kv_cache_memory, found.origins["kv_cache_memory"]) == (1 << 20, "flag")
    assert (found.settings.num_blocks, found.settings.gpu_memory_utilization) == (None, None)
    assert configured(tmp_path).settings.num_blocks == 64, "the environment beats the file in the same way"


def test_unknown_variables_are_told_with_a_guess_and_known_ones_of_others_are_not(tmp_path, monkeypatch):
    monkeypatch.setenv("PAGEDCHAT_MAX_NUM_SEQ", "4")
    monkeypatch.setenv("PAGEDCHAT_TRIALS", "3")

    (warning,) = configured(tmp_path).warnings

    assert warning == "PAGEDCHAT_MAX_NUM_SEQ is set, but pagedchat knows no such setting; did you mean " + (
        "PAGEDCHAT_MAX_NUM_SEQS?"
    )


def test_a_rollback_stands_above_environment_and_file_and_below_flags(tmp_path, monkeypatch):
    store = known_good(tmp_path, num_blocks=64, max_num_seqs=3)
    configured(tmp_path, "num_blocks = 1\nport = 8123\n")
    monkeypatch.setenv("PAGEDCHAT_NUM_BLOCKS", "abc")
    with pytest.raises(ConfigError, match="num-blocks"):
        configured(tmp_path)
    store.begin_rollback(tmp_path / "config" / "config.toml")

    found, flagged = configured(tmp_path), configured(tmp_path, max_num_seqs=9)

    assert (found.settings.num_blocks, found.origins["num_blocks"]) == (64, "rollback")
    assert (found.settings.port, found.origins["port"]) == (8123, "config file"), "addresses are not part of it"
    assert (flagged.settings.max_num_seqs, flagged.origins["max_num_seqs"]) == (9, "flag")
    assert flagged.settings.num_blocks == 64
    assert configured(tmp_path, kv_cache_memory=1 << 20).settings.num_blocks is None, "one way to say the pool's size"
    assert store.end_rollback() and not store.end_rollback()
    with pytest.raises(ConfigError, match="num-blocks"):
        configured(tmp_path)


@pytest.mark.parametrize("broken", ["num_blocks = = 1", "colour = 'red'", "num_blocks = 'many'"])
def test_a_rollback_helps_against_a_broken_config_file_and_ends_when_the_file_changes(tmp_path, broken):
    store = known_good(tmp_path, num_blocks=64)
    (tmp_path / "config").mkdir()
    file = tmp_path / "config" / "config.toml"
    file.write_text(broken)
    with pytest.raises(ConfigError):
        configured(tmp_path)
    store.begin_rollback(file)

    assert configured(tmp_path).settings.num_blocks == 64
    after = configured(tmp_path, "num_blocks = 128\n")

    assert (after.settings.num_blocks, after.origins["num_blocks"]) == (128, "config file")
    assert after.rollback is None and after.rollback_over
    assert "has changed since the rollback" in after.warnings[0]
    assert config_digest(file) is not None


def test_a_rollback_that_cannot_work_names_the_way_out_and_a_flag_beside_it_does_not(tmp_path):
    known_good(tmp_path, num_blocks="x").begin_rollback(tmp_path / "config" / "config.toml")

    with pytest.raises(ConfigError, match=r"not 'x'\. A rollback says so; `pagedchat rollback --undo`"):
        configured(tmp_path)
    with pytest.raises(ConfigError, match=r"^--port .* not 0\.$"):
        configured(tmp_path, port=0, num_blocks=5)


def test_config_show_takes_serves_flags_and_prints_json(tmp_path):
    result = pagedchat(
        "config", "show", "--json", "--data-dir", str(tmp_path), "--max-num-seqs", "7", PAGEDCHAT_BLOCK_SIZ="8"
    )

    told = json.loads(result.stdout)
    assert told["settings"]["max_num_seqs"] == {"value": 7, "origin": "flag"}
    assert told["settings"]["allowed_host"] == {"value": [], "origin": "default"}
    assert "PAGEDCHAT_BLOCK_SIZE" in result.stderr and told["warnings"]
    wrong = pagedchat("config", "show", "--colour")
    assert wrong.returncode == 2 and "--colour" in wrong.stderr


def test_config_diff_names_what_differs_between_a_result_and_the_configuration_in_force(tmp_path):
    then = configuration_snapshot(configured(tmp_path, max_num_seqs=4).settings, {"model": "tiny", "fingerprint": "f"})
    file = tmp_path / "serve-1.json"
    file.write_text(json.dumps({"name": "serve", "configuration": then}))

    found = {
        row["name"]: (row["a"], row["b"])
        for row in snapshot_differences(
            snapshot_named(str(file), {}), snapshot_named("current", {"data_dir": tmp_path})
        )
    }

    assert found["settings.max_num_seqs"] == (4, 32)
    assert found["model"] == ({"name": "tiny", "fingerprint": "f"}, None)
    assert "settings.block_size" not in found
    assert snapshot_differences(then, then) == []


def test_a_server_that_runs_tells_its_settings_and_current_means_them(start_app, tmp_path):
    app = start_app("--profile", "low-memory", scripted=True)
    told = app.get_json("/api/config")[1]["settings"]
    assert (told["profile"], told["max_num_seqs"]) == ("low-memory", 4)

    found = snapshot_named("current", {"data_dir": tmp_path / "data"})

    assert found["settings"] == told and found["engine"]
    usual = {row["name"] for row in snapshot_differences(snapshot_named("default", {}), found)}
    assert "settings.profile" in usual and "settings.port" not in usual


def test_config_show_writes_sizes_for_people_and_offers_the_way_back_where_it_helps(tmp_path):
    known_good(tmp_path)
    data = ("--data-dir", str(tmp_path))
    assert "kv_cache_memory          256 MiB" in pagedchat("config", "show", *data, "--profile", "low-memory").stdout
    typed = pagedchat("config", "show", *data, "--profile", "lowmem").stderr
    assert "no profile 'lowmem'" in typed and "rollback" not in typed, "going back does not help against a flag"
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text("colour = 'red'")
    assert "'colour'" in (told := pagedchat("config", "show", *data).stderr) and "`pagedchat rollback` returns" in told


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("no such file", None, "There is no file"),
        ("known-good", None, "no configuration to go back to"),
        ("x.json", "{", "is no JSON file"),
        ("x.json", "[]", "holds no configuration"),
        ("x.json", "[" * 100_000, "is no JSON file"),
        ("/dev/zero", None, "is larger than any result"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(name, content, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(PagedChatError, match=expected) as caught:
        snapshot_named(name, {"data_dir": tmp_path})
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("group", ["models", "config", "bench"])
def test_a_group_without_a_command_names_its_commands(group):
    result = pagedchat(group)

    assert result.returncode == 2 and result.stdout == ""
    assert f"`pagedchat {group}` needs a command: " in result.stderr
    assert result.stderr.count("\n") == 1
