"""The whole page in this process: the real application over a scripted engine, on a port of its own.

By hand: ``python -m support.page_server PORT FOLDER`` from the tests folder.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import uvicorn

from pagedchat.app.folders import find_folders
from pagedchat.app.installation import Installation
from pagedchat.app.model_store import ModelStore
from pagedchat.app.settings import Settings
from pagedchat.app.watch.sampler import AlertWatch
from pagedchat.sessions.chat_service import ChatService
from pagedchat.sessions.store import SessionStore
from support.paged_client import PagedFakeClient

_T = TypeVar("_T")


class PageServer:
    """``with PageServer(folder, client) as server``: serves until the block ends.

    Attributes:
        url: where the page is; browsers find it as ``away.localhost``, too.
        client: the scripted engine; change it from the test through ``do``.
        recovery: the way back that the page offers, if any.
        alerts: the watch; it takes a sample when a test says so, on a clock (``alert_time``) that the test sets.
    """

    def __init__(self, folder: Path, client: PagedFakeClient, port: int = 0, recovery: Any = None) -> None:
        self.client = client
        self.recovery = recovery
        self.folder = folder
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> PageServer:
        self._thread.start()
        deadline = time.monotonic() + 60
        while not self._ready.wait(0.05):
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise RuntimeError("The page server did not start.")
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stop)
        self._thread.join(15)
        assert not self._thread.is_alive(), "the server must end although pages are open"

    def do(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the server's loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    def call(self, function: Any, *args: Any) -> Any:
        """Run a plain function in the server's loop."""

        async def run() -> Any:
            return function(*args)

        return self.do(run())

    def sample_alerts(self, minutes: float, **gauges: float) -> None:
        """Scrapes every 15 s for so many minutes, in no time, with these gauges."""
        self.client.metrics_told = {**self.client.metrics_told, "gauges": gauges}
        for _ in range(round(minutes * 4)):
            self.alert_time += 15.0
            self.do(self.alerts.sample())

    def count_alerts(self, **counters: Any) -> None:
        """A scrape with these counters, which stay."""
        self.client.metrics_told = {"counters": counters}
        self.alert_time += 15.0
        self.do(self.alerts.sample())

    def _stop(self) -> None:
        self._web.config.app.state.shutting_down.set()  # type: ignore[attr-defined]
        self._web.should_exit = True

    async def _serve(self) -> None:
        from pagedchat.app.web import create_app

        self.loop = asyncio.get_running_loop()
        self.service = ChatService(SessionStore(self.folder / "sessions.db"), self.client)
        settings = Settings(port=self.port, allowed_host=["away.localhost"])
        self.alert_time = 0.0
        self.alerts = AlertWatch(self.client, settings, find_folders(self.folder), now=lambda: self.alert_time)
        folders = replace(find_folders(self.folder), cache=self.folder / "cache", models=self.folder / "models")
        installation = Installation(lambda: settings, folders, ModelStore(folders.models))
        app = create_app(settings, self.client, self.service, self.recovery, self.alerts, installation)  # type: ignore[arg-type]
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        self._web = uvicorn.Server(config)
        self._web.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        asyncio.get_running_loop().call_later(0, self._watch_start)
        await self._web.serve(sockets=[self._listener])
        await self.service.close()

    def _watch_start(self) -> None:
        if self._web.started:
            self._ready.set()
        else:
            self.loop.call_later(0.01, self._watch_start)


SAMPLE = """A block is still **contiguous** inside, so nothing is read twice:

1. The position picks a row of the *block table*.
2. The row names a physical block.

```python
def locate(position: int, table: list[int], block_size: int = 16) -> tuple[int, int]:
    # one division, one small load
    return table[position // block_size], position % block_size
```

| step | cost |
|---|--:|
| table | 1 load |
| keys | 16 rows |

With \\(b = 16\\) the waste is at most \\(b - 1\\) slots, about \\[ \\frac{b-1}{2} \\] on average.
"""


def _by_hand() -> None:
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    info = {
        "model": "SmolLM2-135M-Instruct",
        "dtype": "bfloat16",
        "num_blocks": 820,
        "max_model_len": 8192,
        "default_system_prompt": "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
        "sampling_defaults": {"temperature": 0.2, "top_p": 0.9},
    }
    client = PagedFakeClient([SAMPLE], delay_s=0.02, num_blocks=820, info=info)
    with PageServer(folder, client, int(sys.argv[1])) as server:
        print(server.url, flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    _by_hand()
