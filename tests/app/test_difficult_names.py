"""Known fault B53: spaces and letters of all scripts in every path, a linked models folder, ports that are taken."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pagedchat.app.settings import DEFAULT_PORT
from support.page_socket import Page
from support.running_app import RunningApp
from support.scripted_chat import piped

NAME = "zkouška ß 模型 dir"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose models folder is a link to another place, with a model whose own name is difficult too."""
    place = tmp_path / NAME
    place.mkdir()
    elsewhere = tmp_path / "jinde 他"
    elsewhere.mkdir()
    (elsewhere / "good.gguf").write_bytes(b"GGUF")
    (place / "models ß").symlink_to(elsewhere)
    return place


def environment(home: Path) -> dict[str, str]:
    """Home, temporary files and caches in the difficult place."""
    return {"HOME": str(home), "TMPDIR": str(home), "TMP": str(home), "XDG_CACHE_HOME": str(home / "mezipaměť")}


def flags(home: Path) -> list[str]:
    """Options that name the folders."""
    return ["--models-dir", str(home / "models ß"), "--model", "good"]


def test_a_server_and_terminals_chat_from_difficult_places_and_a_taken_port_gives_way(
    start_app: Callable[..., RunningApp], home: Path
) -> None:
    with ExitStack() as stack:
        taken = [port for port in (7860, DEFAULT_PORT) if stack.enter_context(holding(port))]
        app = start_app(*flags(home), data_dir=home / "data ü", env=environment(home), scripted=True)
        port = int(app.url.rpartition(":")[2])

        assert port not in taken
        page = Page(app)
        page.call("hello")
        session = page.call("send", session=None, text="příliš žluťoučký")["session"]
        beside = piped("--data-dir", str(home / "data ü"), "beside", **environment(home))
        second = start_app(*flags(home), data_dir=home / "data ü", env=environment(home), scripted=True, wait="")
        assert second.wait_end() == 0 and app.url in second.output
        other = start_app(*flags(home), data_dir=home / "druhá", env=environment(home), scripted=True, wait="page")
        assert other.url != app.url

        assert beside.stdout == "UBESIDEA\n", beside.stderr
        assert text_of(page, session) == "UPŘÍLIŠ ŽLUŤOUČKÝA"
    log = (home / "data ü" / "state" / "log" / "pagedchat.log").read_text(encoding="utf-8")
    assert re.search(r"^\d{4}-\d\d-\d\dT[\d:.]+Z INFO", log, re.MULTILINE)


@contextmanager
def holding(port: int) -> Iterator[bool]:
    """Listen on a port; whether it is ours, for somebody else may have it."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen()
        except OSError:
            yield False
        else:
            yield True


def text_of(page: Page, session: str) -> str:
    """The reply of a chat, once it is whole; a page has it as HTML."""
    for _ in range(200):
        reply = page.call("open", session=session)["messages"][-1]
        if reply["status"] == "done":
            return re.sub(r"<[^>]+>", "", "".join(reply["blocks"])).strip()
        time.sleep(0.05)
    raise AssertionError("the reply did not end")


def test_a_chat_without_a_server_runs_from_difficult_places(home: Path) -> None:
    done = piped(*flags(home), "--data-dir", str(home / "data ü"), "ahoj", **environment(home))

    assert done.stdout == "UAHOJA\n", done.stderr
    assert (home / "data ü" / "sessions.db").is_file()
    assert "\ufffd" not in done.stderr and done.returncode == 0
