"""The load benches against the whole server with a scripted engine: what they measure, tell, keep and leave behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import httpx
import psutil
import pytest
from typer.testing import CliRunner

from pagedchat.app.bench import target as targets
from pagedchat.app.bench.bench_run import Setup, close_result, forget, new_result, running
from pagedchat.app.bench.branch import BranchSpec, run_branch
from pagedchat.app.bench.chat import ChatSpec, run_chat
from pagedchat.app.bench.decode import DecodeSpec, run_decode
from pagedchat.app.bench.http_load import Ask, clients_for
from pagedchat.app.bench.interfere import InterfereSpec, run_interfere
from pagedchat.app.bench.loads import BUILT_IN, Load
from pagedchat.app.bench.prefill import PrefillSpec, run_prefill
from pagedchat.app.bench.report import BenchResult
from pagedchat.app.bench.serve import run_phases
from pagedchat.app.bench.serve_figures import run_figures
from pagedchat.app.bench.server_watch import Watch
from pagedchat.app.bench.target import Target, listening_process, peer_server
from pagedchat.app.commands import cli
from pagedchat.engine.errors import PagedChatError
from support.running_app import TESTS, RunningApp

SILENT = SimpleNamespace(phase=lambda *_: None, advance=lambda *_: None)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name in ("good", "slow", "broken"):
        (folder / f"{name}.gguf").write_bytes(b"GGUF")
    return folder


@pytest.fixture(scope="module")
def target(models, tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    flags = ("--models-dir", str(models), "--model", "good")
    with RunningApp(*flags, data_dir=data, scripted=True) as app:
        yield Target("pagedchat", app.url, "good", True, app.process.pid, app.wait_engine())


def run(bench, spec, *measured: Target) -> BenchResult:
    """A bench on these targets."""
    result = BenchResult(bench.__name__, {})

    async def measure() -> None:
        async with clients_for(measured) as clients:
            await bench(clients, spec, result, SILENT)
            close_result(result, clients)

    asyncio.run(measure())
    return result


def send(target: Target, *asks: Ask):
    async def measure():
        async with clients_for([target]) as (client,):
            return await client.send_all(asks)

    return asyncio.run(measure())


# -- the client -------------------------------------------------------------------------------------------------------


def test_every_token_has_a_time_and_counts_are_the_servers(target):
    plain, chat = send(target, Ask(6, prompt="abcdefgh"), Ask(4, messages=[{"role": "user", "content": "hello"}]))
    assert (plain.error, plain.text, plain.completion_tokens) == ("", "ABCDEF", 6)
    assert len(plain.moments) == 6 and plain.prompt_tokens == 8 and plain.cached_tokens == 0
    assert plain.sent < plain.moments[0][0] <= plain.moments[-1][0] <= plain.ended
    assert chat.completion_tokens == 4 and chat.finish_reason == "length"


def test_a_refused_request_is_an_error_in_the_answer_and_in_the_result(target):
    refused, served = send(target, Ask(4, prompt="refuse"), Ask(4, prompt="abcd"))
    assert "The prompt has 9 tokens" in refused.error and not served.error

    async def measure(result: BenchResult) -> None:
        async with clients_for([target]) as clients:
            await clients[0].send(Ask(4, prompt="refuse"))
            close_result(result, clients)

    result = BenchResult("x", {})
    asyncio.run(measure(result))
    assert result.passed is False and result.verdict.startswith("1 of 1 requests failed")
    assert result.tables[0].rows[0][1] == 1


def test_processor_time_and_memory_of_the_servers_processes_are_seen(target):
    async def measure() -> Watch:
        async with clients_for([target]) as (client,), Watch(client) as watch:
            await client.send_all([Ask(300, prompt="x" * 300) for _ in range(8)])
        return watch

    watch = asyncio.run(measure())
    assert watch.cpu_s is not None and watch.cpu_s > 0
    assert watch.resident is not None and watch.resident > psutil.Process(target.pid).memory_info().rss
    assert watch.samples and all(one.live_tokens <= 8 * 600 for one in watch.samples)


# -- the benches ------------------------------------------------------------------------------------------------------


def test_decode_has_a_cell_for_every_number_of_chats_and_length(target):
    result = run(run_decode, DecodeSpec((1, 3), (20,), tokens=16, repeats=2), target)
    assert [(cell["chats"], cell["context"]) for cell in result.figures["cells"]] == [(1, 20), (3, 20)]
    assert all(cell["tokens_per_s"] > 0 for cell in result.figures["cells"])
    assert result.figures["errors"] == 0 and result.passed is None


def test_prefill_counts_what_is_computed(target):
    result = run(run_prefill, PrefillSpec((50, 200), repeats=1), target)
    small, large = result.figures["cells"]
    assert small["computed_tokens"] == small["prompt_tokens"] < large["computed_tokens"]


def test_chat_shows_every_turn_with_and_without_a_moving_first_line(target):
    spec = ChatSpec(chats=2, turns=3, system=60, question=20, reply=8, break_prefix="timestamp")
    result = run(run_chat, spec, target)
    turns = result.figures["turns"]
    assert [(one["first_line"], one["turn"]) for one in turns] == [
        (line, turn) for line in ("stays", "timestamp") for turn in (1, 2, 3)
    ]
    assert turns[0]["prompt_tokens"] < turns[1]["prompt_tokens"] < turns[2]["prompt_tokens"]
    assert "put what changes after what stays" in result.verdict
    assert result.figures["requests"] == 2 * 2 * 3 + 3


def test_branch_answers_one_question_again_and_again(target):
    result = run(run_branch, BranchSpec(regenerations=3, history=60, reply=6), target)
    found = result.figures["pagedchat"]
    assert set(found) == {"first reply", "regenerated, one by one", "all at once"}
    assert result.figures["requests"] == 7 + 3 and result.figures["errors"] == 0
    one, at_once = found["regenerated, one by one"], found["all at once"]
    assert at_once["times_of_one"] == pytest.approx(3 * at_once["whole_ms"] / one["whole_ms"])
    assert f"All at once take {at_once['times_of_one']:.2f} times as long as one." in result.verdict


def test_what_a_peer_was_sent_is_found_again_until_it_is_told_to_forget(target):
    peer = Target("peer", target.url, target.model, False, None)

    async def measure() -> list[str]:
        async with clients_for([peer, peer, target]) as (client, another, ours):
            salts = [client._body(Ask(4, prompt="a"))["cache_salt"] for _ in range(2)]
            await forget(client)
            assert "cache_salt" not in ours._body(Ask(4, prompt="a"))
            return [*salts, *(one._body(Ask(4, prompt="a"))["cache_salt"] for one in (client, another))]

    first, again, after, of_another_run = asyncio.run(measure())
    assert first == again and len({first, after, of_another_run}) == 3


def test_two_targets_stand_side_by_side_with_a_ratio(target):
    other = Target("other", target.url, target.model, False, None, missing=["queue time"])
    result = run(run_prefill, PrefillSpec((50,), repeats=1), target, other)
    assert result.tables[0].columns == ["prompt", "pagedchat", "other", "pagedchat / other"]
    ours, theirs, quotient = (float(cell or 0) for cell in result.tables[0].rows[0][1:])
    assert quotient == pytest.approx(ours / theirs)
    assert f"That is {quotient:.2f} times other." in result.verdict
    assert result.tables[-1].title == "Not measured" and result.tables[-1].rows == [["other", "queue time"]]


def test_interference_compares_gaps_before_and_during_a_long_prompt(target):
    spec = InterfereSpec(streams=2, prompt=300, before=8, repeats=1)
    result = run(run_interfere, spec, target)
    found = result.figures["interfere"]["pagedchat"]
    assert found["itl_p99_before_ms"] > 0 and found["ttft_alone_ms"] > 0
    assert result.figures["errors"] == 0, "replies that are left off are no errors"


def test_phases_send_what_they_say_and_all_of_it_is_answered(target):
    async def measure():
        async with clients_for([target]) as clients:
            return await run_phases(clients, Load(BUILT_IN["chat"], 0, 2000, 6.0), 2.0, SILENT)

    runs = asyncio.run(measure())
    found = {one.phase: run_figures(one, target, {"ttft": 5000.0}) for one in runs}
    assert list(found) == ["cold", "steady", "burst", "long-output"]
    assert all(one["errors"] == 0 and one["requests"] > 0 for one in found.values())
    assert found["burst"]["requests"] >= 4
    assert found["long-output"]["reply_tokens"]["p50"] > found["burst"]["reply_tokens"]["p50"]
    assert found["steady"]["good_share"] == 1.0
    assert 0 < found["steady"]["ttft_ms"]["p50"] <= found["steady"]["ttft_ms"]["p99"]


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def scripted(monkeypatch, models, tmp_path):
    """Benches that start the scripted server."""
    monkeypatch.setattr(targets, "PROGRAM", ["-P", "-m", "support.scripted_server"])
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.setenv("PAGEDCHAT_DATA_DIR", str(tmp_path / "mine"))
    return ["--models-dir", str(models), "--model", str(models / "good.gguf")]


def test_bench_serve_starts_a_server_measures_keeps_a_report_and_ends_the_server(scripted, tmp_path):
    before = set(_servers())
    done = CliRunner().invoke(cli, ["bench", "serve", "--duration", "1", *scripted, "--json", "--save-baseline"])
    assert done.exit_code == 0, (done.output, done.exception)
    found = json.loads(done.stdout)
    assert found["name"] == "serve" and found["figures"]["error_rate"] == 0.0
    assert found["configuration"]["engine"]["num_blocks"] == 256
    assert found["parameters"]["slo"] == {"ttft": 1000.0, "itl": 100.0}
    kept = sorted(path.suffix for path in (tmp_path / "mine" / "state" / "bench").iterdir())
    assert kept == [".html", ".json"]
    assert "Kept as the baseline of this model and configuration (only" in done.stderr, "few replies in a second"
    assert set(_servers()) == before


def test_the_server_has_the_users_settings_and_flags_beat_them(scripted, monkeypatch):
    monkeypatch.setenv("PAGEDCHAT_BLOCK_SIZE", "8")
    monkeypatch.setenv("PAGEDCHAT_PORT", "1")
    setup = Setup([*scripted, "--max-num-seqs", "5"])
    with running(setup, SILENT) as (server,):
        assert server.info["block_size"] == 8
        assert setup.settings().max_num_seqs == 5
        result = new_result("x", setup, [server])
    assert result.configuration["settings"]["block_size"] == 8
    assert result.configuration["engine"]["block_size"] == 8


def test_a_server_that_does_not_start_is_told_in_one_sentence(scripted, models):
    flags = ["--models-dir", str(models), "--model", str(models / "broken.gguf")]
    done = CliRunner().invoke(cli, ["bench", "prefill", *flags])
    assert isinstance(done.exception, PagedChatError)
    assert str(done.exception).startswith("The server to measure ") and "secret" not in str(done.exception)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_bench_says_so_and_leaves_no_server(scripted, number):
    if number == signal.SIGKILL and sys.platform != "linux":
        pytest.skip("only Linux ends a child with its parent")
    code = (
        "from pagedchat.app.bench import target; target.PROGRAM = ['-P', '-m', 'support.scripted_server']\n"
        "from pagedchat.app.cli import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code, "bench", "serve", "--duration", "60", *scripted],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = []
    while "phase" not in (line := process.stderr.readline()):
        lines.append(line)
        assert line, lines
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    process.send_signal(number)
    if number == signal.SIGTERM:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 1
        assert errors.splitlines()[-1].startswith("pagedchat: The bench was interrupted")
    _, alive = psutil.wait_procs(children, timeout=60)
    process.communicate(timeout=120)
    assert not alive


def test_options_that_do_not_go_together_are_refused():
    for options, word in (
        (["--compare", "prefix-caching", "--interfere"], "runs of their own"),
        (["--compare", "kernels"], "--compare can be"),
        (["--sweep", "num-blocks", "--peer", "hf"], "leave out --peer"),
        (["--interfere", "--save-baseline"], "plain run"),
        (["--load", "nothing"], "no file"),
    ):
        done = CliRunner().invoke(cli, ["bench", "serve", *options])
        assert isinstance(done.exception, PagedChatError) and word in str(done.exception)


def _servers() -> list[int]:
    found = []
    for one in psutil.Process(os.getpid()).children(recursive=True):
        with suppress(psutil.Error):
            found.append(one.pid)
    return found


# -- peers ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def strict_peer():
    """A server in OpenAI's words that refuses fields it does not know, and tells neither ids nor cached tokens."""
    known = {"model", "messages", "prompt", "max_tokens", "temperature", "stream", "stream_options", "seed"}

    class Peer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_) -> None:
            pass

        def do_GET(self) -> None:
            self._say(200, {"data": [{"id": "theirs"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if set(body) - known:
                return self._say(400, {"error": {"message": "unknown field"}})
            if not body.get("stream"):
                return self._say(200, {"choices": [{"message": {"content": "Hi"}}], "usage": {"prompt_tokens": 3}})
            chunks = [{"choices": [{"delta": {"role": "assistant", "content": ""}}]}]
            chunks += [{"choices": [{"delta": {"content": f" w{n}"}}]} for n in range(body["max_tokens"])]
            chunks += [{"choices": [{"delta": {}, "finish_reason": "length"}]}]
            chunks += [{"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": body["max_tokens"]}}]
            lines = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks) + b"data: [DONE]\n\n"
            self._send(200, "text/event-stream", lines)

        def _say(self, status: int, value) -> None:
            self._send(status, "application/json", json.dumps(value).encode())

        def _send(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Peer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_of_a_peer_that_knows_openais_fields_only_it_is_said_what_could_not_be_measured(strict_peer):
    with peer_server(f"{strict_peer}/v1", None) as peer:
        assert peer.fields == () and peer.model == "theirs" and peer.pid == os.getpid()
        missing = " / ".join(peer.missing)
        for what in ("token ids", "cached tokens", "equal reply lengths", "empty cache", "queue time", "KV usage"):
            assert what in missing
        (answer,) = send(peer, Ask(5, messages=[{"role": "user", "content": "x"}]))
    assert not answer.error and (answer.prompt_tokens, answer.completion_tokens) == (7, 5)
    assert len(answer.moments) == 5 and answer.cached_tokens is None and answer.text == " w0 w1 w2 w3 w4"


def test_a_peer_that_never_answers_a_chat_is_waited_for_once(strict_peer, monkeypatch):
    asked = []

    def silent(url, **sent):
        asked.append(url)
        raise httpx.ReadTimeout("nothing came")

    monkeypatch.setattr(httpx, "post", silent)
    with pytest.raises(PagedChatError, match="did not answer a chat completion"), peer_server(strict_peer, None):
        pass
    assert len(asked) == 1


def test_a_peer_that_is_not_there_is_told_in_one_sentence():
    port = targets.free_port()
    with pytest.raises(PagedChatError, match="start the peer first"), peer_server(f"http://127.0.0.1:{port}", None):
        pass
    assert listening_process(f"http://127.0.0.1:{port}") is None
    assert listening_process("http://192.0.2.1:80") is None
