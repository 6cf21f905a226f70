"""Ways in which servers went wrong elsewhere, played on a real engine process with a tiny model: prompts that can never
run and block others, and work that goes on after nobody wants it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.running_app import RunningApp
from support.tiny_gguf import TINY, write_gguf
from support.tiny_tokenizers import byte_level_metadata, byte_level_tokenizer

BLOCKS, BLOCK, CHUNK = 280, 16, 4
GREEDY = {"temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    """A server whose pool holds less than its context, and whose steps are small beside its prompts."""
    folder = tmp_path_factory.mktemp("server")
    spec = replace(TINY, vocab_size=byte_level_tokenizer().num_tokens, max_position=8192)
    model = write_gguf(folder / "tiny.gguf", spec, metadata=byte_level_metadata())
    flags = ("--num-blocks", str(BLOCKS), "--max-num-batched-tokens", str(CHUNK), "--max-num-seqs", "2")
    with RunningApp("--model", str(model), *flags, data_dir=folder / "data") as running:
        yield running


def ids(length: int, seed: int) -> list[int]:
    return [20 + (seed * 7 + place * (seed + 1)) % 200 for place in range(length)]


def complete(app: RunningApp, prompt: list[int], max_tokens: int) -> tuple[int, Any, float]:
    """Status, body and seconds of a completion."""
    began = time.monotonic()
    status, _, body = app.request("POST", "/v1/completions", {"prompt": prompt, "max_tokens": max_tokens, **GREEDY})
    return status, json.loads(body), time.monotonic() - began


class Streaming:
    """A streamed completion on a connection of its own, which a test can read from and break off."""

    def __init__(self, app: RunningApp, prompt: list[int], max_tokens: int) -> None:
        address = urlsplit(app.url)
        body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "stream": True, **GREEDY}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
        self._socket = socket.create_connection((address.hostname or "", address.port or 0), timeout=120)
        self._socket.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self._file = self._socket.makefile("rb")

    def read_tokens(self, count: int) -> None:
        """Wait for so many pieces of text."""
        while count:
            line = self._file.readline()
            assert line, "the stream ended"
            count -= line.startswith(b"data: {")

    def leave(self) -> None:
        """Close the connection."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._socket.close()


def requests(app: RunningApp) -> list[dict[str, Any]]:
    """Requests, live and recent, oldest first."""
    return app.get_json("/api/kv/requests")[1]["requests"]


def live(app: RunningApp) -> list[dict[str, Any]]:
    """Requests that have not ended."""
    return [row for row in requests(app) if row["state"] in ("waiting", "running")]


def until_idle(app: RunningApp, within_s: float) -> None:
    """Nothing runs or waits any more, and no block is held."""
    deadline = time.monotonic() + within_s
    while live(app):
        assert time.monotonic() < deadline, live(app)
        time.sleep(0.01)
    assert app.get_json("/api/kv/snapshot")[1]["active"] == 0


def test_a_prompt_larger_than_the_pool_is_refused_at_once_and_the_next_one_is_served(app: RunningApp) -> None:
    status, body, seconds = complete(app, ids(BLOCKS * BLOCK + 1, 1), 8)
    assert status == 400 and seconds < 1
    assert "4,481 tokens" in body["error"]["message"] and "holds 4,480" in body["error"]["message"]
    status, body, _ = complete(app, ids(5, 2), 8)
    assert status == 200 and body["usage"]["completion_tokens"] == 8


def test_a_stream_that_is_broken_off_after_five_of_500_tokens_ends_at_once(app: RunningApp) -> None:
    stream = Streaming(app, ids(8, 3), 500)
    stream.read_tokens(5)
    stream.leave()
    until_idle(app, 1)
    assert 5 <= requests(app)[-1]["metrics"]["completion_tokens"] < 250


def test_a_prompt_of_4000_tokens_that_nobody_waits_for_any_more_stops_within_a_chunk(app: RunningApp) -> None:
    streams = [Streaming(app, ids(9, 5), 4000)]
    streams[0].read_tokens(1)
    for prompt in (ids(4000, 4), ids(9, 6)):  # one is computed beside the reply, the other waits for a seat
        streams.append(Streaming(app, prompt, 500))
        while len(live(app)) < len(streams):
            time.sleep(0.01)
    rows = live(app)
    assert sorted(row["state"] for row in rows) == ["running", "running", "waiting"]
    assert [row["num_computed"] < 3900 for row in rows if row["num_tokens"] == 4000] == [True]
    for stream in streams:
        stream.leave()
    until_idle(app, 1)
    status, _, seconds = complete(app, ids(5, 7), 2)
    assert status == 200 and seconds < 1


def test_others_go_on_while_one_after_another_is_broken_off(app: RunningApp) -> None:
    results: list[tuple[int, Any, float]] = []
    staying = threading.Thread(target=lambda: results.append(complete(app, ids(40, 8), 300)))
    staying.start()
    for number in range(5):
        stream = Streaming(app, ids(300, 20 + number), 500)
        time.sleep(0.02)
        stream.leave()
    staying.join(120)
    assert results[0][0] == 200 and results[0][1]["usage"]["completion_tokens"] == 300
    until_idle(app, 1)
