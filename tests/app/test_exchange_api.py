"""``/api/sessions/export`` and ``import``: chats as files over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from pagedchat.app import exchange_api
from pagedchat.app.exchange_api import exchange_router
from pagedchat.app.security import OnlyOurPage, allowed_hosts
from pagedchat.sessions.chat_service import ChatService
from pagedchat.sessions.store import SessionStore
from support.fake_client import FakeEngineClient

LINE = b'{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}\n'


@pytest.fixture
def http(tmp_path: Path) -> Iterator[TestClient]:
    service = ChatService(SessionStore(tmp_path / "chats.db"), FakeEngineClient())
    app = FastAPI()
    app.add_middleware(OnlyOurPage, hosts=allowed_hosts(7861))
    app.include_router(exchange_router(service.library))
    with TestClient(app, base_url="http://127.0.0.1:7861") as client:
        yield client
    service.store.close()


def bring(http: TestClient, content: bytes = LINE, query: str = "") -> dict[str, Any]:
    answer = http.post(f"/api/sessions/import{query}", content=content)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_file_comes_in_as_the_body_and_goes_out_again(http: TestClient) -> None:
    report = bring(http, query="?name=mine.jsonl")
    assert report["summary"] == "1 chat with 2 messages imported." and report["file"] == "mine.jsonl"
    chat = report["chats"][0]["id"]
    answer = http.get(f"/api/sessions/export?ids={chat}&format=openai")
    assert answer.headers["content-type"] == "application/jsonl"
    assert json.loads(answer.content) == json.loads(LINE)
    assert answer.headers["content-disposition"].startswith('attachment; filename="Hi.jsonl"')
    whole = http.get("/api/sessions/export")
    assert [one["id"] for one in whole.json()["chats"]] == [chat]


def test_a_file_comes_in_by_a_form_with_its_name(http: TestClient) -> None:
    answer = http.post("/api/sessions/import", files={"file": ("Gespräch.jsonl", LINE, "application/jsonl")})
    assert (answer.status_code, answer.json()["file"], answer.json()["imported"]) == (200, "Gespräch.jsonl", 1)


def test_what_was_imported_before_is_told_and_can_be_left_out(http: TestClient) -> None:
    chat = bring(http)["chats"][0]["id"]
    assert bring(http)["seen_before"] == 1  # lines have no ids, so their words tell
    ours = http.get(f"/api/sessions/export?ids={chat}").content
    assert bring(http, ours)["seen_before"] == 1
    again = bring(http, ours, "?skip_seen=true")
    assert (again["imported"], again["left_out"]) == (0, 1)
    assert again["skipped"][0]["reason"] == "It had been imported before."


@pytest.mark.parametrize(
    "title", ["日本の旅", "صباح الخير", '../../etc/"passwd"\\', "a\r\nSet-Cookie: x", "CON", "Grüße; 100%"]
)
def test_the_file_is_named_by_the_title_in_any_script_and_safely(http: TestClient, title: str) -> None:
    file = {"format": "pagedchat", "version": 1, "chats": [{"id": "a", "title": title, "messages": []}]}
    chat = bring(http, json.dumps(file).encode())["chats"][0]["id"]
    header = http.get(f"/api/sessions/export?ids={chat}").headers["content-disposition"]
    plain, encoded = header.removeprefix('attachment; filename="').split("\"; filename*=UTF-8''")
    name = unquote(encoded)
    assert name.endswith(".pagedchat.json") and not set('/\\"\r\n:') & set(name + plain)
    assert not name.startswith((".", "CON."))
    words = [one for one in title.split() if one.isalpha()]
    assert all(one in name for one in words) and plain.isascii()


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("?format=word", 400, "pagedchat, markdown, text, openai, sharegpt"),
        ("?ids=nobody", 404, "does not exist"),
        ("?branches=some", 400, "all or shown"),
        ("?ids=", 400, "no chats to export"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_a_sentence(http: TestClient, query: str, status: int, says: str) -> None:
    answer = http.get(f"/api/sessions/export{query}")
    assert answer.status_code == status and says in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"hello", "no export of chats"),
        (b"", "no export of chats"),
        (b"[" * 5000, "nested deeper"),
        (b"{}", "No chats"),
    ],
)
def test_a_file_that_holds_no_chats_is_refused_in_a_sentence(http: TestClient, content: bytes, says: str) -> None:
    answer = http.post("/api/sessions/import", content=content)
    assert answer.status_code == 400 and says in answer.json()["error"]["message"]


def test_a_file_that_claims_to_be_too_large_is_refused_before_it_is_read(
    http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []

    def body() -> Iterator[bytes]:
        for _ in range(4):
            sent.append(1)
            yield b" " * 1000

    answer = http.post("/api/sessions/import", content=body(), headers={"content-length": str(1 << 30)})
    assert answer.status_code == 413 and "512 MiB" in answer.json()["error"]["message"]
    monkeypatch.setattr(exchange_api, "MOST_BYTES", 2000)
    assert http.post("/api/sessions/import", content=body()).status_code == 413
    big = {"file": ("a.json", b" " * 100_000)}
    assert http.post("/api/sessions/import", files=big).status_code == 413


def test_other_pages_and_broken_forms_are_refused(http: TestClient) -> None:
    assert http.post("/api/sessions/import", content=LINE, headers={"origin": "http://evil.example"}).status_code == 403
    assert http.get("/api/sessions/export", headers={"host": "evil.example"}).status_code == 403
    for headers in ({"content-type": "multipart/form-data"}, {"content-type": "multipart/form-data; boundary=x"}):
        answer = http.post("/api/sessions/import", content=b"--y\r\n\r\nzz", headers=headers)
        assert answer.status_code == 400, answer.text
    assert http.post("/api/sessions/import", data={"a": "b"}, files={}).status_code == 400
    assert http.get("/api/sessions/import").status_code == 405
