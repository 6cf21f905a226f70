"""A server that nobody asks anything burns next to nothing: no thread of its processes waits by spinning."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from support.running_app import RunningApp
from support.tiny_gguf import write_gguf
from support.tiny_tokenizers import byte_level_metadata

WATCHED_S = 5.0
MOST_SHARE = 0.08


def cpu_seconds(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(one.user + one.system for one in times)


@pytest.mark.skipif(sys.platform != "linux", reason="counts the processor's time as Linux does")
def test_server_and_engine_sleep_while_nobody_asks(start_app: Callable[..., RunningApp], tmp_path: Path) -> None:
    model = write_gguf(tmp_path / "tiny.gguf", metadata=byte_level_metadata())
    app = start_app("--model", str(model))
    body = {"prompt": "hello", "max_tokens": 20, "ignore_eos": True}
    assert app.request("POST", "/v1/completions", body)[0] == 200
    while app.get_json("/health")[1]["compiling"]:
        time.sleep(0.5)
    assert app.request("POST", "/v1/completions", body)[0] == 200
    server = psutil.Process(app.process.pid)
    processes = [server, *server.children(recursive=True)]
    assert len(processes) == 2, "the server and its engine"

    time.sleep(1.0)
    before = cpu_seconds(processes)
    time.sleep(WATCHED_S)
    assert cpu_seconds(processes) - before < MOST_SHARE * WATCHED_S
