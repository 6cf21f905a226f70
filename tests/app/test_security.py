from __future__ import annotations

import pytest
from fastapi import FastAPI, WebSocket
from fastapi.responses import HTMLResponse
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from pagedchat.app.security import OnlyOurPage, allowed_hosts

HOST = "127.0.0.1:7861"
OWN = f"http://{HOST}"


def client(*extra: str) -> TestClient:
    app = FastAPI()
    app.add_middleware(OnlyOurPage, hosts=allowed_hosts(7861, extra))

    @app.get("/page")
    @app.post("/page")
    async def page() -> HTMLResponse:
        return HTMLResponse("hello")

    @app.websocket("/ws")
    async def ws(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("hello")
        await socket.close()

    return TestClient(app, base_url=OWN)


@pytest.mark.parametrize("host", ["127.0.0.1:7861", "localhost:7861", "LOCALHOST:7861", "[::1]:7861"])
def test_loopback_names_with_the_port_are_served(host):
    assert client().get("/page", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:7861",
        "127.0.0.1",
        "localhost:80",
        "127.0.0.1:7861.evil.example",
        "127.0.0.2:7861",
        "",
    ],
)
def test_any_other_host_name_is_refused(host):
    assert client().get("/page", headers={"host": host}).status_code == 403


def test_a_host_name_that_the_user_added_is_served_and_its_pages_too():
    app = client("chat.example", "other.example:8443")

    for host in ("chat.example", "chat.example:7861", "other.example:8443"):
        assert app.post("/page", headers={"host": host, "origin": f"https://{host}"}).status_code == 200
    assert app.get("/page", headers={"host": "other.example"}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:3000", "http://localhost", "file://", "http://[bad"]
)
def test_requests_from_pages_of_another_origin_are_refused(origin):
    assert client().post("/page", headers={"origin": origin}).status_code == 403
    with (
        pytest.raises(WebSocketDisconnect),
        client().websocket_connect("/ws", headers={"host": HOST, "origin": origin}),
    ):
        pass


def test_our_own_page_and_programs_without_an_origin_may_do_everything():
    app = client()

    assert app.post("/page").status_code == 200
    assert app.post("/page", headers={"origin": OWN}).status_code == 200
    assert app.post("/page", headers={"origin": "http://localhost:7861"}).status_code == 200
    with app.websocket_connect("/ws", headers={"host": HOST, "origin": OWN}) as socket:
        assert socket.receive_text() == "hello"


def test_a_form_of_another_site_without_an_origin_is_refused_but_a_link_works():
    app = client()

    assert app.post("/page", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert app.get("/page", headers={"sec-fetch-site": "cross-site"}).status_code == 200


def test_a_websocket_under_a_foreign_name_is_refused():
    with (
        pytest.raises(WebSocketDisconnect),
        client().websocket_connect("/ws", headers={"host": "evil.example", "origin": "http://evil.example"}),
    ):
        pass


def test_pages_may_load_nothing_from_elsewhere_nor_be_framed():
    policy = client().get("/page").headers["content-security-policy"]

    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "https:" not in policy
    assert f"ws://{HOST}" in policy
