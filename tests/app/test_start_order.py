"""The engine process exists before the page's import takes the interpreter, so that both load at the same time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pagedchat.app.engine_start import EngineStart
from pagedchat.app.model_store import ModelStore
from pagedchat.app.settings import Settings
from pagedchat.engine.errors import ModelFileError
from pagedchat.engine.status import EngineStatus

TESTS = Path(__file__).resolve().parent.parent

TOLD_AT_THE_IMPORT = """
import os, sys
import psutil
from pagedchat.app import cli, server
from support import scripted_server

def load_page():
    workers = [child for child in psutil.Process().children() if "pagedchat.engine.worker" in child.cmdline()]
    print(len(workers), [name for name in ("gradio", "fastapi", "numpy") if name in sys.modules], flush=True)
    os._exit(0)

scripted_server._script()
server._load_page = load_page
cli.main(["serve", "--no-browser", "--data-dir", sys.argv[1], "--model", sys.argv[2]])
"""


def test_the_engine_process_is_there_when_the_page_begins_to_load(tmp_path: Path) -> None:
    model = tmp_path / "slow.gguf"
    model.write_bytes(b"GGUF")
    told = subprocess.run(
        [sys.executable, "-P", "-c", TOLD_AT_THE_IMPORT, str(tmp_path / "data"), str(model)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])},
    )
    assert told.stdout.strip() == "1 []", told.stderr


class Client:
    """Starts when it is let, and is never ready."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        self.status = EngineStatus()
        self.failed = ""

    async def start(self, config: Any) -> None:
        await self.let.wait()

    async def wait_ready(self) -> None:
        await asyncio.Event().wait()

    def set_failed(self, message: str) -> None:
        self.failed = message


def test_a_start_has_begun_once_the_process_is_spawned(tmp_path: Path) -> None:
    async def test() -> None:
        client = Client()
        start = EngineStart(client, Settings(), ModelStore(tmp_path), tmp_path / "model.gguf")
        running = asyncio.create_task(start.run())
        await asyncio.sleep(0.05)
        assert not start.begun.is_set()
        client.let.set()
        await asyncio.wait_for(start.begun.wait(), 5)
        running.cancel()

    asyncio.run(test())


@pytest.mark.parametrize("stays_up", [True, False])
def test_a_start_that_comes_to_nothing_holds_up_no_page(tmp_path: Path, stays_up: bool) -> None:
    async def test() -> None:
        trouble = ModelFileError("It is damaged.")
        told = "It is damaged, go back." if stays_up else ""
        start = EngineStart(Client(), Settings(), ModelStore(tmp_path), None, lambda error: told, trouble)
        running = asyncio.create_task(start.run())
        await asyncio.wait_for(start.begun.wait(), 5)
        await asyncio.wait({running})
        assert (running.exception() is None) == (stays_up or start._model is None)

    asyncio.run(test())
