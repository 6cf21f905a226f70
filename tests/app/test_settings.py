from __future__ import annotations

from pathlib import Path

import pytest

from pagedchat.app.folders import find_folders
from pagedchat.app.settings import load_settings, parse_size
from pagedchat.engine.errors import ConfigError


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PORT", "MODEL", "DATA_DIR", "MODELS_DIR"):
        monkeypatch.delenv(f"PAGEDCHAT_{name}", raising=False)
    return tmp_path / "data dir ß"


def write_config(data_dir: Path, text: str) -> None:
    (data_dir / "config").mkdir(parents=True)
    (data_dir / "config" / "config.toml").write_text(text, encoding="utf-8")


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(data_dir, monkeypatch):
    write_config(data_dir, "port = 8001\nmax-num-seqs = 5\nblock_size = 8\nmodel = 'from-file'\n")
    monkeypatch.setenv("PAGEDCHAT_PORT", "8002")
    monkeypatch.setenv("PAGEDCHAT_MAX_NUM_SEQS", "6")

    settings, _ = load_settings({"data_dir": data_dir, "port": 8003, "model": None})

    assert settings.port == 8003
    assert settings.max_num_seqs == 6
    assert settings.block_size == 8
    assert settings.model == "from-file"
    assert settings.max_num_batched_tokens == 512


def test_without_anything_the_port_is_not_named(data_dir):
    settings, _ = load_settings({"data_dir": data_dir})

    assert settings.port is None
    assert settings.host == "127.0.0.1"
    assert settings.engine_config("x.gguf").model == "x.gguf"


def test_a_threshold_that_cannot_work_is_refused_without_naming_a_flag_that_is_not_there(data_dir):
    write_config(data_dir, "alert_kv_usage = 90\n")

    with pytest.raises(ConfigError, match=r"^PAGEDCHAT_ALERT_KV_USAGE, or alert_kv_usage in the config file .* not 90"):
        load_settings({"data_dir": data_dir})


@pytest.mark.parametrize("name", ["alert_waiting_growth", "alert_ttft_factor", "alert_tpot_factor"])
@pytest.mark.parametrize("value", ["inf", "nan"])
def test_a_threshold_is_a_finite_number(data_dir, name, value):
    write_config(data_dir, f"{name} = {value}\n")

    with pytest.raises(ConfigError, match=f"{name} in the config file .* not {value}"):
        load_settings({"data_dir": data_dir})


def test_an_environment_variable_that_is_empty_counts_as_not_set(data_dir, monkeypatch):
    monkeypatch.setenv("PAGEDCHAT_PORT", "")

    assert load_settings({"data_dir": data_dir})[0].port is None


def test_hosts_in_the_environment_are_separated_by_commas(data_dir, monkeypatch):
    monkeypatch.setenv("PAGEDCHAT_ALLOWED_HOST", "chat.example, other.example:8443")

    assert load_settings({"data_dir": data_dir})[0].allowed_host == ["chat.example", "other.example:8443"]


def test_data_dir_moves_data_config_and_state_but_not_models_and_cache(data_dir):
    usual = find_folders()
    _, folders = load_settings({"data_dir": data_dir})

    assert folders.data == data_dir
    for moved in (folders.config, folders.state, folders.logs, folders.database):
        assert moved.is_relative_to(data_dir)
    assert (folders.models, folders.cache) == (usual.models, usual.cache)


def test_models_dir_moves_models_only(data_dir, monkeypatch, tmp_path):
    monkeypatch.setenv("PAGEDCHAT_MODELS_DIR", str(tmp_path / "modely"))

    _, folders = load_settings({"data_dir": data_dir})

    assert folders.models == tmp_path / "modely"
    assert folders.data == data_dir


def test_a_relative_data_dir_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert load_settings({"data_dir": Path("here")})[1].data == tmp_path / "here"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1024", 1024), ("512MiB", 512 << 20), ("2GiB", 2 << 30), ("2g", 2 << 30), ("1.5 GB", 1_500_000_000), ("7B", 7)],
)
def test_sizes_are_bytes_or_have_a_unit(text, expected, data_dir):
    assert parse_size(text) == expected
    assert load_settings({"data_dir": data_dir, "kv_cache_memory": text})[0].kv_cache_memory == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("port = 'many'", "--port"),
        ("port = 70000", "65535"),
        ("kv_cache_memory = '2 gallons'", "2 gallons"),
        ("colour = 'red'", "colour"),
        ("port = = 1", "not valid TOML"),
        ("block_size = 17", "--block-size"),
        ("gpu_memory_utilization = 1.0", "between 0 and 1"),
    ],
)
def test_a_bad_config_file_is_one_sentence_that_names_what_is_wrong(text, expected, data_dir):
    write_config(data_dir, text)

    with pytest.raises(ConfigError) as caught:
        load_settings({"data_dir": data_dir})[0].engine_config("")

    sentence = str(caught.value)
    assert expected in sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")


@pytest.mark.parametrize(
    ("asked", "told"), [("100000", ["100,000", "8,192"]), ("8192", None), ("100", None), (None, None)]
)
def test_a_context_longer_than_the_models_is_told(data_dir, asked, told):
    flags = {"data_dir": data_dir, "max_model_len": int(asked)} if asked else {"data_dir": data_dir}
    warnings = load_settings(flags)[0].warnings({"max_model_len": min(int(asked or 8192), 8192)})
    if told is None:
        assert warnings == []
    else:
        (sentence,) = warnings
        assert all(number in sentence for number in told)


def test_a_context_longer_than_the_pool_is_told_as_the_pool(data_dir):
    settings = load_settings({"data_dir": data_dir, "max_model_len": 999_999})[0]
    (sentence,) = settings.warnings({"max_model_len": 8192, "num_blocks": 182, "block_size": 16})
    assert sentence.endswith("(8,192 tokens), and its KV cache holds 2,912; chats may have 2,912 tokens.")


@pytest.mark.parametrize("name", ["num_blocks", "max_num_seqs", "kv_cache_memory"])
def test_a_number_that_no_machine_counts_to_is_refused_with_its_flag(data_dir, name):
    settings, _ = load_settings({"data_dir": data_dir, name: 10**20})

    with pytest.raises(ConfigError, match=f"^--{name.replace('_', '-')} must be below 2"):
        settings.engine_config("x.gguf")
