from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from pagedchat import __version__
from pagedchat.app.commands import with_default_command
from support.command import pagedchat


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "pagedchat", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env={**os.environ, **(env or {})}, timeout=120
    )


def assert_refused(result: subprocess.CompletedProcess[str], code: int, *expected: str) -> None:
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("pagedchat: ")
    assert result.stderr.count("\n") == 1, result.stderr
    for part in expected:
        assert part in result.stderr


def test_without_a_command_pagedchat_serves():
    assert with_default_command([]) == ["serve"]
    assert with_default_command(["--port", "8000"]) == ["serve", "--port", "8000"]
    assert with_default_command(["models", "list"]) == ["models", "list"]
    assert with_default_command(["--version"]) == ["--version"]


def test_the_version_is_the_packages():
    result = run("--version")

    assert (result.returncode, result.stdout) == (0, f"pagedchat {__version__}\n")


def test_folders_are_printed_as_json(tmp_path):
    result = run("config", "path", "--json", "--data-dir", str(tmp_path / "ß dir"))

    paths = json.loads(result.stdout)
    assert paths["data"] == str(tmp_path / "ß dir")
    assert set(paths) >= {"data", "config", "state", "logs", "cache", "models"}
    assert not (tmp_path / "ß dir").exists()


def test_models_are_listed_and_removed_by_name(tmp_path):
    (tmp_path / "tiny model.gguf").write_bytes(b"GGUF" + bytes(96))
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "config.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("no model")

    listed = json.loads(pagedchat("models", "list", "--json", "--models-dir", str(tmp_path)).stdout)
    assert [(m["name"], m["size"], m["format"], m["default"]) for m in listed] == [
        ("directory", 2, "huggingface", False),
        ("tiny model", 100, "gguf", False),
    ]

    assert pagedchat("models", "rm", "tiny model", "--models-dir", str(tmp_path)).returncode == 0
    assert pagedchat("models", "rm", "directory", "--models-dir", str(tmp_path)).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_removing_a_link_leaves_what_it_points_to(tmp_path):
    target = tmp_path / "elsewhere.gguf"
    target.write_bytes(b"GGUF")
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "linked.gguf").symlink_to(target)

    assert pagedchat("models", "rm", "linked", "--models-dir", str(folder)).returncode == 0
    assert target.exists()
    assert not (folder / "linked.gguf").is_symlink()


@pytest.mark.parametrize("name", ["nothing", "../outside", "notes.txt"])
def test_removing_what_is_no_model_of_the_folder_is_refused(name, tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "config.json").write_text("{}")
    (folder / "notes.txt").write_text("no model")

    assert_refused(pagedchat("models", "rm", name, "--models-dir", str(folder)), 1, name, "models list")
    assert (tmp_path / "outside" / "config.json").exists()
    assert (folder / "notes.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--port", "many"], "--port"),
        (["--port", "0"], "--port"),
        (["--colour"], "--colour"),
        (["serve", "--kv-cache-memory", "2gallons"], "2gallons"),
        (["fly"], "fly"),
        (["models"], "command"),
        (["--port"], "--port"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(arguments, expected):
    assert_refused(pagedchat(*arguments), 2, expected, "--help")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--host", "0.0.0.0"], "login"),
        (["--host", "example.org"], "login"),
        (["--block-size", "17"], "--block-size"),
        (["--gpu-memory-utilization", "1.0"], "between 0 and 1"),
        (["--dtype", "int3"], "--dtype"),
        (["--max-num-seqs", "0"], "--max-num-seqs"),
        (["--model", "no such model"], "no such model"),
    ],
)
def test_what_cannot_work_is_refused_with_one_sentence_and_exit_code_1(arguments, expected, tmp_path):
    assert_refused(pagedchat("serve", "--data-dir", str(tmp_path), *arguments), 1, expected)


def test_a_file_that_is_no_model_is_named(tmp_path):
    picture = tmp_path / "obrázek.gguf"
    picture.write_bytes(b"\x89PNG")

    result = pagedchat("serve", "--data-dir", str(tmp_path / "data"), "--model", str(picture))

    assert_refused(result, 1, "obrázek.gguf", "not a GGUF file")


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")

    result = pagedchat("serve", "--data-dir", str(tmp_path / "file" / "data"))

    assert_refused(result, 1, str(tmp_path / "file" / "data"), "--data-dir")
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_damaged_database_is_named_and_left_as_it_is(tmp_path):
    database = tmp_path / "sessions.db"
    database.write_bytes(b"this is no database" * 1000)
    before = database.read_bytes()
    model = tmp_path / "tiny.gguf"
    model.write_bytes(b"GGUF")

    result = run("serve", "--data-dir", str(tmp_path), "--model", str(model))

    assert_refused(result, 1, "sessions.db")
    assert database.read_bytes() == before


def test_a_database_of_a_newer_program_is_left_as_it_is(tmp_path):
    database = tmp_path / "sessions.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE things (id)")
        connection.execute("PRAGMA user_version = 999999")
    before = database.read_bytes()
    model = tmp_path / "tiny.gguf"
    model.write_bytes(b"GGUF")

    result = run("serve", "--data-dir", str(tmp_path), "--model", str(model))

    assert_refused(result, 1, "sessions.db", "newer")
    assert database.read_bytes() == before


def test_a_model_file_that_was_cut_is_named(tmp_path, default_model_path):
    cut = tmp_path / "uříznutý model.gguf"
    with default_model_path.open("rb") as file:
        cut.write_bytes(file.read(5_000_000))

    result = run("serve", "--no-browser", "--data-dir", str(tmp_path / "data"), "--model", str(cut))

    assert result.returncode == 1
    assert "uříznutý model.gguf" in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


def test_the_server_process_never_loads_torch_or_transformers(tmp_path: Path):
    script = (
        "import sys; import pagedchat.app.commands, pagedchat.app.server, pagedchat.app.web;"
        "print([name for name in ('torch', 'transformers', 'tokenizers', 'numba') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, cwd=tmp_path)

    assert result.stdout.strip() == "[]", result.stderr


def test_the_command_line_loads_nothing_heavy_before_it_is_needed(tmp_path: Path):
    script = (
        "import sys; import pagedchat.app.server;"
        "print([name for name in ('torch', 'gradio', 'fastapi', 'pandas', 'numpy') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, cwd=tmp_path)

    assert result.stdout.strip() == "[]", result.stderr


def test_nothing_is_loaded_before_signals_are_handled(tmp_path: Path):
    script = "import sys; import pagedchat.app.cli; print('typer' in sys.modules, 'asyncio' in sys.modules)"
    result = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, cwd=tmp_path)

    assert result.stdout.strip() == "False False", result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("delay_s", [0.0, 0.05, 0.15, 0.3, 0.5])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_ends_it_quietly_with_code_0(number: signal.Signals, delay_s: float, tmp_path: Path):
    command = [sys.executable, "-P", "-m", "pagedchat", "serve", "--no-browser", "--data-dir", str(tmp_path / "data")]
    command += ["--models-dir", str(tmp_path), "--model", str(tmp_path / "tiny.gguf")]
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not _handles(process.pid, signal.SIGTERM):
            time.sleep(0.001)
        time.sleep(delay_s)
        process.send_signal(number)
        errors = process.communicate(timeout=60)[1]

    assert (process.returncode, errors) == (0, b"")


def _handles(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler of its own for the signal."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(fields["SigCgt"], 16) >> (number - 1) & 1)
