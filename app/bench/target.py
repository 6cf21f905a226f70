"""What a load runs against: a server of ours that lives as long as the bench, or somebody else's.

All are reached over OpenAI's API by the same client code (`http_load`). A peer named ``hf`` is transformers in a
process of its own, which speaks the same API (`transformers_server`).
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

from ...engine.errors import PagedChatError

PROGRAM = ["-P", "-m", "pagedchat"]
START_S = 300.0
END_S = 8.0
LOOK_AGAIN_S = 0.2
FIRST_REPLY_S = 60.0
ANSWER_S = 10.0
PEER_FIELDS = ("return_token_ids", "ignore_eos", "cache_salt")
"""Fields beyond OpenAI's that a peer may refuse."""
_PR_SET_PDEATHSIG = 1
_READY = re.compile(r"ready at (http://\S+)")


@dataclass
class Target:
    """A server that answers.

    Attributes:
        name: the column's title.
        model: what requests must call the model.
        ours: whether it has our ``/health``, ``/metrics`` and ``/api/kv``.
        pid: the root of its processes, where they run here and could be found.
        info: what our ``/health`` says; of a peer nothing.
        fields: of `PEER_FIELDS`, those that it takes.
        missing: what could not be measured on it, a phrase each.
    """

    name: str
    url: str
    model: str
    ours: bool
    pid: int | None
    info: dict[str, Any] = field(default_factory=dict)
    fields: tuple[str, ...] = PEER_FIELDS
    missing: list[str] = field(default_factory=list)

    @property
    def block_bytes(self) -> float | None:
        """Bytes of one KV block; None where that is not told."""
        blocks = self.info.get("num_blocks")
        return self.info["kv_bytes"] / blocks if blocks and self.info.get("kv_bytes") else None


@contextmanager
def our_server(
    flags: Sequence[str] = (), name: str = "pagedchat", settings: Mapping[str, Any] | None = None
) -> Iterator[Target]:
    """A server with these flags of ``pagedchat serve``, ``settings`` as its config file, and chats of its own in a
    folder that is deleted with it. Ready means that the compiled kernels are.

    Raises:
        PagedChatError: it did not become ready; its own words are in the sentence.
    """
    with tempfile.TemporaryDirectory(prefix="pagedchat-bench-", ignore_cleanup_errors=True) as folder:
        _write_config(Path(folder), settings or {})
        own = ["--no-browser", "--host", "127.0.0.1", "--port", str(free_port()), "--data-dir", folder]
        with _child([*PROGRAM, "serve", *flags, *own]) as child:
            url = child.wait_for(_READY)
            info = _wait_ready(url, child)
            yield Target(name, url, info["model"], True, child.process.pid, info)


@contextmanager
def peer_server(peer: str, model_path: Path | None) -> Iterator[Target]:
    """The server at the address ``peer``, or for ``hf`` transformers with the weights at ``model_path``.

    Raises:
        PagedChatError: nothing answers there, or not in OpenAI's words.
    """
    if peer != "hf":
        yield _find_peer(peer.rstrip("/").removesuffix("/v1"))
        return
    assert model_path is not None
    with _child(["-P", "-m", "pagedchat.app.bench.transformers_server", str(model_path)]) as child:
        url = child.wait_for(_READY)
        missing = ["cached tokens (it caches nothing between requests)", "queue time", "KV usage"]
        yield Target("transformers", url, "hf", False, child.process.pid, missing=missing)


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class _Child:
    """A server process of ours, and what it printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: list[str] = []
        for stream, take in ((process.stdout, self._lines.put), (process.stderr, self._errors.append)):
            threading.Thread(target=self._read, args=(stream, take), daemon=True).start()

    def _read(self, stream: Any, take: Any) -> None:
        with suppress(ValueError):
            for line in stream:
                take(line)
        if take == self._lines.put:
            take(None)

    def wait_for(self, pattern: re.Pattern[str]) -> str:
        """The first group of the first line that matches.

        Raises:
            PagedChatError: it ended, or said nothing of the kind in time.
        """
        deadline = time.monotonic() + START_S
        while (left := deadline - time.monotonic()) > 0:
            with suppress(queue.Empty):
                line = self._lines.get(timeout=min(left, 1.0))
                if line is None:
                    raise self.failure()
                if found := pattern.search(line):
                    return found[1]
        raise PagedChatError(f"The server did not come up within {START_S:.0f} s; its machine may be too busy.")

    def failure(self) -> PagedChatError:
        """Why it ended, in its own last words."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        time.sleep(0.05)  # its last line is on its way through the reader
        said = [line.strip() for line in self._errors if line.strip()]
        words = said[-1].removeprefix("pagedchat: ") if said else f"exit code {self.process.returncode}"
        return PagedChatError(f"The server to measure ended before it was ready: {words}")

    def end(self) -> None:
        """End it as a user would, and by force if it does not go."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextmanager
def _child(arguments: Sequence[str]) -> Iterator[_Child]:
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        env={name: value for name, value in os.environ.items() if not name.startswith("PAGEDCHAT_")},
        preexec_fn=_end_with_parent if sys.platform == "linux" else None,
    )
    child = _Child(process)
    try:
        yield child
    finally:
        child.end()


def _end_with_parent() -> None:
    """In the child, before it runs: get SIGTERM when the bench is gone, however it ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _write_config(folder: Path, settings: Mapping[str, Any]) -> None:
    """TOML's strings, numbers and lists are JSON's."""
    (folder / "config").mkdir()
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in settings.items()]
    (folder / "config" / "config.toml").write_text("".join(lines), encoding="utf-8")


def _wait_ready(url: str, child: _Child) -> dict[str, Any]:
    """What ``/health`` says once the engine is ready with the kernels it will keep."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if child.process.poll() is not None:
            raise child.failure()
        with suppress(httpx.HTTPError, ValueError):
            answer = httpx.get(f"{url}/health", timeout=ANSWER_S, trust_env=False)
            said = answer.json()
            if answer.status_code == 200 and not said.get("compiling"):
                return said
            if said.get("status") == "failed":
                raise PagedChatError(f"The server to measure could not start: {said.get('message', 'no reason told')}")
        time.sleep(LOOK_AGAIN_S)
    raise PagedChatError(f"The engine to measure was not ready within {START_S:.0f} s; its machine may be too busy.")


def _find_peer(url: str) -> Target:
    try:
        answer = httpx.get(f"{url}/v1/models", timeout=ANSWER_S, trust_env=False)
        model = answer.json()["data"][0]["id"]
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise PagedChatError(f"No server answers at {url} ({error}); start the peer first.") from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise PagedChatError(f"What answers at {url} is no OpenAI-compatible server: /v1/models lists none.") from error
    target = Target(f"peer {urlsplit(url).netloc}", url, model, False, listening_process(url))
    target.missing = ["queue time", "KV usage", "preemptions"]
    if target.pid is None:
        target.missing.append("CPU time and memory (its process is not on this computer, or not visible)")
    _find_fields(target)
    return target


def _find_fields(target: Target) -> None:
    """Which fields beyond OpenAI's the peer takes: all, or those it does not refuse one by one."""
    said = _reply(target, PEER_FIELDS)
    if said is None:
        target.fields = tuple(name for name in PEER_FIELDS if _reply(target, (name,)) is not None)
        said = _reply(target, target.fields)
    if said is None:
        raise PagedChatError(f"The peer {target.url} refuses chat completions; see its log.")
    if "token_ids" not in said["choices"][0]:
        target.missing.append("token ids (each chunk with text counts as one token)")
    if "cached_tokens" not in (said.get("usage") or {}).get("prompt_tokens_details", {}):
        target.missing.append("cached tokens")
    if "cache_salt" not in target.fields:
        target.missing.append("an empty cache (what earlier runs sent may be cached still)")
    if "ignore_eos" not in target.fields:
        target.missing.append("equal reply lengths (it stops where its model stops)")


def _reply(target: Target, names: Sequence[str]) -> dict[str, Any] | None:
    """A short chat completion asked for with these fields; None if it is refused.

    Raises:
        PagedChatError: if nothing is answered.
    """
    values: dict[str, Any] = {"return_token_ids": True, "ignore_eos": True, "cache_salt": "bench"}
    body = {"model": target.model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    sent = {**body, **{name: values[name] for name in names}}
    try:
        answer = httpx.post(f"{target.url}/v1/chat/completions", json=sent, timeout=FIRST_REPLY_S, trust_env=False)
        said = answer.json()
        return said if answer.status_code == 200 and said["choices"] else None
    except httpx.HTTPError as error:
        what = f"The peer {target.url} lists its models, but did not answer a chat completion"
        raise PagedChatError(f"{what} ({type(error).__name__}); see its log.") from error
    except (ValueError, KeyError, TypeError):
        return None


def listening_process(url: str) -> int | None:
    """The process of this computer that listens at the address; None if there is none to be seen."""
    address = urlsplit(url)
    if address.hostname not in ("127.0.0.1", "localhost", "::1"):
        return None
    with suppress(psutil.Error, OSError):
        for one in psutil.net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr[1] == (address.port or 80):
                return one.pid
    return None
