from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator

import pytest

from pagedchat.app.instance import InstanceLock, RunningServer, read_note, running_server
from pagedchat.engine.errors import PagedChatError


@pytest.fixture
def page() -> Iterator[int]:
    """Port of something that answers /health as a pagedchat that still loads."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"status": "loading"}).encode()
            self.send_response(503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_the_first_start_gets_the_folder_and_a_second_one_finds_its_page(tmp_path, page):
    first = InstanceLock(tmp_path)
    assert first.take(0) is None
    first.publish(page, f"http://127.0.0.1:{page}")

    found = InstanceLock(tmp_path).take(0)

    assert isinstance(found, RunningServer)
    assert found.url == f"http://127.0.0.1:{page}"


def test_the_folder_is_free_again_after_release(tmp_path, page):
    first = InstanceLock(tmp_path)
    first.take(0)
    first.publish(page, f"http://127.0.0.1:{page}")
    first.release()

    assert read_note(tmp_path) is None
    assert InstanceLock(tmp_path).take(0) is None


def test_a_start_that_never_comes_up_is_refused_with_one_sentence_after_a_while(tmp_path):
    first = InstanceLock(tmp_path)
    first.take(0)
    began = time.monotonic()

    with pytest.raises(PagedChatError, match="--data-dir"):
        InstanceLock(tmp_path).take(0.5)

    assert 0.4 < time.monotonic() - began < 5


def test_a_second_start_takes_over_when_the_first_gives_up_meanwhile(tmp_path):
    first = InstanceLock(tmp_path)
    first.take(0)
    threading.Timer(0.4, first.release).start()

    assert InstanceLock(tmp_path).take(10) is None


def test_a_note_that_a_crash_left_behind_is_ignored(tmp_path):
    (tmp_path / "instance.json").write_text('{"pid": 1, "port": 1, "url": "http://127.0.0.1:1"}')

    assert InstanceLock(tmp_path).take(0) is None


def test_a_damaged_note_is_as_good_as_none(tmp_path):
    (tmp_path / "instance.json").write_text("{half")

    assert read_note(tmp_path) is None


def test_what_a_crash_left_behind_does_not_lead_to_another_folders_server(tmp_path, page):
    mine = InstanceLock(tmp_path)
    mine.take(0)
    mine.publish(page, f"http://127.0.0.1:{page}")
    assert running_server(tmp_path) == read_note(tmp_path)
    mine._lock.release()  # as a kill does: the note stays, and somebody answers at its port

    assert read_note(tmp_path) is not None and running_server(tmp_path) is None
    assert mine.take(0) is None, "to look takes nothing"
