"""A ``pagedchat serve`` of its own for a test: started, awaited, and ended as a user would."""

from __future__ import annotations

import http.client
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TESTS = Path(__file__).resolve().parent.parent
READY = re.compile(r"pagedchat is ready at (\S+)")


class RunningApp:
    """The server process. ``url`` is known once it printed it.

    Args:
        flags: of ``pagedchat serve``; ``--no-browser`` and ``--data-dir`` are given already.
        env: environment on top of the test's own.
        wait: for "page", for "engine" (implies the page) or for nothing ("").
        scripted: with an engine that needs no model; see ``scripted_server``.
        opens_browser: without ``--no-browser``.
    """

    def __init__(
        self,
        *flags: str,
        data_dir: Path,
        env: dict[str, str] | None = None,
        wait: str = "engine",
        timeout_s: float = 180.0,
        scripted: bool = False,
        opens_browser: bool = False,
    ) -> None:
        self.data_dir = data_dir
        self.url = ""
        self.started = time.monotonic()
        program = "support.scripted_server" if scripted else "pagedchat"
        command = [sys.executable, "-P", "-m", program, "serve", "--data-dir", str(data_dir)]
        if not opens_browser:
            command.append("--no-browser")
        self.process = subprocess.Popen(
            [*command, *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, **({"PYTHONPATH": str(TESTS)} if scripted else {}), **(env or {})},
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._texts: dict[str, list[str]] = {"out": [], "err": []}
        self._readers = [
            threading.Thread(target=self._read, args=(name, stream), daemon=True)
            for name, stream in (("out", self.process.stdout), ("err", self.process.stderr))
        ]
        for reader in self._readers:
            reader.start()
        try:
            if wait:
                self.wait_page(timeout_s)
            if wait == "engine":
                self.wait_engine(timeout_s)
        except BaseException:
            self.process.kill()
            raise

    # -- waiting ----------------------------------------------------------------------------------------------------

    def wait_page(self, timeout_s: float = 120.0) -> str:
        """Wait for the ready line; the address it names."""
        deadline = time.monotonic() + timeout_s
        while not self.url:
            try:
                line = self._lines.get(timeout=0.05)
            except queue.Empty:
                line = ""
            match = READY.search(line)
            if match:
                self.url = match[1]
            elif self.process.poll() is not None and self._lines.empty():
                raise AssertionError(f"pagedchat ended with {self.process.returncode}: {self.errors}")
            elif time.monotonic() > deadline:
                raise AssertionError(f"no page within {timeout_s} s: {self.output}{self.errors}")
        return self.url

    def wait_engine(self, timeout_s: float = 90.0) -> dict[str, Any]:
        """Wait until /health says ready; what it says."""
        deadline = time.monotonic() + timeout_s
        while True:
            status, health = self.get_json("/health")
            if status == 200:
                return health
            if time.monotonic() > deadline or health.get("status") == "failed":
                raise AssertionError(f"the engine is not ready: {health}")
            time.sleep(0.05)

    def wait_end(self, timeout_s: float = 60.0) -> int:
        """Wait for the process to end by itself; its exit code."""
        code = self.process.wait(timeout_s)
        for reader in self._readers:
            reader.join(2)
        return code

    # -- talking ----------------------------------------------------------------------------------------------------

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """One HTTP request; status, headers and body of the answer. A Host header given wins."""
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        try:
            data = None if body is None else json.dumps(body).encode()
            sent = {"Content-Type": "application/json", **(headers or {})}
            connection.putrequest(method, path, skip_host="Host" in sent)
            if data is not None:
                sent["Content-Length"] = str(len(data))
            for name, value in sent.items():
                connection.putheader(name, value)
            connection.endheaders(data)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def get_json(self, path: str) -> tuple[int, Any]:
        """GET ``path``; status and parsed body."""
        status, _, body = self.request("GET", path)
        return status, json.loads(body)

    # -- ending -----------------------------------------------------------------------------------------------------

    def stop(self, number: int = signal.SIGTERM, timeout_s: float = 60.0) -> tuple[int, float]:
        """Send a signal and wait; exit code and seconds it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        return self.wait_end(timeout_s), time.monotonic() - began

    @property
    def output(self) -> str:
        """Everything on stdout so far."""
        return "".join(self._texts["out"])

    @property
    def errors(self) -> str:
        """Everything on stderr so far."""
        return "".join(self._texts["err"])

    def __enter__(self) -> RunningApp:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise

    def _read(self, name: str, stream: Any) -> None:
        for line in stream:
            self._texts[name].append(line)
            if name == "out":
                self._lines.put(line)
