from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.page_socket import Page
from support.running_app import RunningApp

Start = Callable[..., RunningApp]


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A models folder whose files name the scripted engine's behaviours; its own name is not easy."""
    folder = tmp_path / "zkouška ß 模型 models"
    folder.mkdir()
    for name in ("good", "slow", "broken", "missing"):
        (folder / f"{name}.gguf").write_bytes(b"GGUF")
    return folder


@pytest.fixture
def start(start_app: Start, models: Path) -> Start:
    """Start a server with the scripted engine."""

    def begin(*flags: str, model: str = "good", **options: Any) -> RunningApp:
        return start_app("--models-dir", str(models), "--model", model, *flags, scripted=True, **options)

    return begin


def stored_replies(app: RunningApp) -> list[tuple[str, str]]:
    connection = sqlite3.connect(app.data_dir / "sessions.db")
    try:
        return connection.execute("SELECT status, content FROM messages WHERE role = 'assistant'").fetchall()
    finally:
        connection.close()


def follow_events(app: RunningApp) -> Iterator[bytes]:
    """An event stream that stays open; ends when the server closes it."""
    host, port = app.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as stream:
        stream.sendall(f"GET /api/kv/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        while chunk := stream.recv(4096):
            yield chunk


def test_the_page_and_the_api_answer_and_a_signal_ends_it_with_code_0(start):
    app = start()

    status, headers, body = app.request("GET", "/")
    assert status == 200
    assert "text/html" in headers["content-type"]
    assert b"pagedchat" in body
    assert app.get_json("/health")[1]["model"] == "good"
    assert app.request("GET", "/", headers={"Host": "evil.example"})[0] == 403
    assert "tokens" in app.output
    assert (app.data_dir / "sessions.db").stat().st_mode & 0o777 == 0o600

    code, seconds = app.stop(signal.SIGINT)
    assert (code, app.errors) == (0, "")
    assert seconds < 5
    assert not (app.data_dir / "instance.json").exists()


def test_a_context_that_the_model_cannot_take_is_told_at_the_start_and_in_health(start):
    app = start("--max-model-len", "100000")

    (warning,) = app.get_json("/health")[1]["warnings"]
    assert "100,000" in warning and "4,096" in warning
    deadline = time.monotonic() + 60
    while warning not in app.errors and time.monotonic() < deadline:
        time.sleep(0.02)
    assert warning in app.errors


def test_a_signal_saves_running_replies_and_closes_streams_within_five_seconds(start):
    app = start(model="slow")
    pages = [Page(app) for _ in range(3)]
    for page in pages:
        page.call("hello")
    sent = pages[0].call("send", session=None, text="word " * 300)
    streams = [follow_events(app) for _ in range(2)]
    for stream in streams:
        next(stream)
    time.sleep(1)

    code, seconds = app.stop(signal.SIGTERM)
    assert app.output.splitlines()[-1] == "pagedchat has ended; everything is saved."

    assert code == 0, app.errors
    assert seconds < 5
    assert app.errors == ""
    assert [status for status, _ in stored_replies(app)] == ["interrupted"]
    assert "WORD WORD" in stored_replies(app)[0][1]
    assert sent["reply"]
    for stream in streams:
        list(stream)


def test_the_engine_process_ends_with_a_server_that_was_killed(start):
    app = start()
    children = psutil.Process(app.process.pid).children(recursive=True)
    assert children

    app.process.send_signal(signal.SIGKILL)
    app.wait_end()

    _, alive = psutil.wait_procs(children, timeout=2.5)
    assert alive == []


def test_after_a_kill_the_chat_is_there_with_its_reply_marked_as_interrupted(start):
    app = start(model="slow")
    page = Page(app)
    page.call("hello")
    session = page.call("send", session=None, text="word " * 300)["session"]
    time.sleep(1)
    app.process.send_signal(signal.SIGKILL)
    app.wait_end()

    again = start(data_dir=app.data_dir, wait="page")

    assert Page(again).call("hello")["session"] == session
    assert [status for status, _ in stored_replies(again)] == ["interrupted"]


def test_a_second_start_names_the_page_of_the_first_and_ends_well(start):
    first = start(wait="page")

    second = start("--max-num-seqs", "3", data_dir=first.data_dir, wait="")

    assert second.wait_end() == 0, second.errors
    assert first.url in second.output
    assert "ignored" in second.output
    assert first.request("GET", "/")[0] == 200


def test_a_second_start_with_another_port_is_refused(start):
    first = start(wait="page")

    second = start("--port", "7999", data_dir=first.data_dir, wait="")

    assert second.wait_end() == 1
    assert first.url in second.errors
    assert second.errors.count("\n") == 1


def test_a_second_start_while_the_first_still_comes_up_waits_for_its_page(start):
    first = start(wait="")
    while not (first.data_dir / "instance.lock").exists():
        time.sleep(0.01)

    second = start(data_dir=first.data_dir, wait="")

    assert second.wait_end(30) == 0, second.errors
    assert first.wait_page() in second.output


def test_two_data_folders_have_two_servers_on_two_ports(start, tmp_path):
    first = start(wait="page", data_dir=tmp_path / "one")
    second = start(wait="page", data_dir=tmp_path / "druhý ß")

    assert first.url != second.url
    assert second.request("GET", "/")[0] == 200


def test_a_named_port_that_is_taken_is_one_sentence(start):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])

        app = start("--port", port, wait="")

        assert app.wait_end() == 1
    assert port in app.errors
    assert app.errors.count("\n") == 1


@pytest.mark.parametrize(("model", "expected"), [("missing", "does not exist"), ("broken", "internal error")])
def test_a_model_that_cannot_be_loaded_ends_the_start_with_one_sentence(start, model, expected):
    app = start(model=model, wait="")

    assert app.wait_end(20) == 1
    assert expected in app.errors
    assert app.errors.count("\n") == 1
    assert not (app.data_dir / "instance.json").exists()


def test_the_server_is_quiet_while_nobody_does_anything(start):
    app = start()
    page = Page(app)
    page.call("hello")
    processes = [psutil.Process(app.process.pid), *psutil.Process(app.process.pid).children(recursive=True)]
    time.sleep(1)
    before = sum(sum(process.cpu_times()[:2]) for process in processes)
    time.sleep(3)
    used = sum(sum(process.cpu_times()[:2]) for process in processes) - before

    assert used < 0.15


def test_folders_with_spaces_and_other_letters_work(start, tmp_path):
    home = tmp_path / "zkouška ß 模型 dir"
    home.mkdir()
    app = start(
        data_dir=home / "data",
        env={"HOME": str(home), "TMPDIR": str(home), "XDG_CACHE_HOME": str(home / "mezipaměť")},
    )

    assert app.request("GET", "/")[0] == 200
    log = (app.data_dir / "state" / "log" / "pagedchat.log").read_text(encoding="utf-8")
    assert re.search(r"^\d{4}-\d\d-\d\dT[\d:.]+Z INFO", log, re.MULTILINE)


def test_without_folders_for_logs_and_cache_it_still_serves(start, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for in_the_way in (data / "state", tmp_path / "cache"):
        in_the_way.write_text("a file")

    app = start(data_dir=data, env={"XDG_CACHE_HOME": str(tmp_path / "cache")})

    assert app.request("GET", "/")[0] == 200
    assert app.stop()[0] == 0
    assert app.errors == ""


def test_a_request_in_flight_does_not_hold_up_the_end(start):
    app = start(model="slow")
    body = {"model": "slow", "prompt": "long", "max_tokens": 4000, "stream": True}
    answers: list[int] = []
    client = threading.Thread(target=lambda: answers.append(app.request("POST", "/v1/completions", body)[0]))
    client.start()
    time.sleep(1)

    code, seconds = app.stop()
    client.join(5)

    assert code == 0
    assert seconds < 5
    assert answers == [200]


def test_no_text_of_a_chat_is_in_the_log(start):
    app = start()
    page = Page(app)
    page.call("hello")
    page.call("send", session=None, text="my secret question")
    time.sleep(0.5)
    app.stop()

    logs = b"".join(file.read_bytes() for file in (app.data_dir / "state").rglob("*.log"))
    assert b"secret" not in logs.lower()
    assert os.name != "posix" or (app.data_dir.stat().st_mode & 0o077) == 0
