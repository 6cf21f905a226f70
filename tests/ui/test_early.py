"""What is put into Gradio's HTML, and the routes of the page that need no browser."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, PlainTextResponse
from fastapi.testclient import TestClient

from pagedchat.ui.early import EarlyHead
from pagedchat.ui.routes import ui_router
from support.fake_client import FakeEngineClient


def inner() -> FastAPI:
    app = FastAPI()

    @app.get("/")
    def page() -> HTMLResponse:
        return HTMLResponse("<html><head><title>x</title></head><body>ü <head></body></html>")

    @app.get("/other")
    def other() -> PlainTextResponse:
        return PlainTextResponse("<head>")

    return app


def test_the_page_gets_our_head_first_and_only_once() -> None:
    client = TestClient(EarlyHead(inner(), "<script>ä</script>"))
    answer = client.get("/?session=1")
    assert answer.text == "<html><head><script>ä</script><title>x</title></head><body>ü <head></body></html>"
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_other_answers_pass_unchanged() -> None:
    client = TestClient(EarlyHead(inner(), "<script></script>"))
    assert client.get("/other").text == "<head>"
    assert client.get("/nothing").status_code == 404


def served() -> TestClient:
    app: Any = FastAPI()
    app.state.shutting_down = asyncio.Event()
    app.include_router(ui_router(None, FakeEngineClient()))
    return TestClient(app)


def test_static_files_are_checked_again_and_not_sent_twice() -> None:
    client = served()
    first = client.get("/ui/static/main.js")
    assert first.status_code == 200 and first.headers["cache-control"] == "no-cache"
    assert "javascript" in first.headers["content-type"]
    again = client.get("/ui/static/main.js", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304


def test_only_the_static_folder_is_served() -> None:
    client = served()
    for path in ("..%2froutes.py", "%2e%2e/routes.py", "nothing.js", "..%2f..%2fpyproject.toml"):
        assert client.get(f"/ui/static/{path}").status_code == 404
