"""The server has stored what was sent, and the connection is lost before the page hears of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, WebSocketRoute, expect

from support.page_driver import PageDriver
from support.page_server import PageServer


class LostAnswer:
    """Carries a page's frames, but for what follows a call ``op``: its answer is lost, and the connection with it.

    Args:
        news: whether what the server tells before its answer still arrives.
    """

    def __init__(self, op: str, news: bool) -> None:
        self.op: str | None = op
        self._news = news

    def route(self, page: WebSocketRoute) -> None:
        server, lost = page.connect_to_server(), []

        def to_server(message: str | bytes) -> None:
            frame = json.loads(message)
            if frame["op"] == self.op:
                self.op = None
                lost.append(frame["id"])
            server.send(message)

        def to_page(message: str | bytes) -> None:
            if lost and json.loads(message).get("re") in lost:
                page.close(code=1001)
            elif not lost or self._news:
                page.send(message)

        page.on_message(to_server)
        server.on_message(to_page)


def after(chat: PageDriver, text: str, lost: LostAnswer) -> None:
    chat.test_id("composer").fill(text)
    chat.test_id("composer").press("Enter")
    expect(chat.test_id("composer")).to_have_value("")
    expect(chat.page.locator("html")).to_have_attribute("data-connection", "open")
    expect(chat.page.locator(".box .problem")).to_be_hidden()
    assert lost.op is None, "the answer was lost"


@pytest.mark.parametrize("news", [False, True])
def test_the_first_message_of_a_chat_is_there_once_and_shown(
    context: BrowserContext, open_page: Callable[..., PageDriver], server: PageServer, news: bool
) -> None:
    lost = LostAnswer("send", news)
    context.route_web_socket("**/ui/ws", lost.route)
    chat = open_page("?session=")
    after(chat, f"The first one, news {news}", lost)
    expect(chat.messages("user")).to_have_text([f"The first one, news {news}"])
    expect(chat.messages()).to_have_count(2)
    chat.wait_done()
    found = server.do(server.service.list_sessions())
    assert [one["id"] for one in found if one["title"] == f"The first one, news {news}"] == [chat.session_id]


@pytest.mark.parametrize("news", [False, True])
def test_a_message_that_waits_is_there_once(
    context: BrowserContext, chat: PageDriver, server: PageServer, news: bool
) -> None:
    chat.page.close()
    lost = LostAnswer("queue", news)
    context.route_web_socket("**/ui/ws", lost.route)
    session_id = chat.session_id
    page = PageDriver(context.new_page(), server.url).goto(f"?session={session_id}")
    server.client.gate = server.call(asyncio.Event)
    page.send("One")
    after(page, "Two", lost)
    expect(page.test_id("queued")).to_have_count(1)
    server.call(server.client.gate.set)
    expect(page.messages("user")).to_have_count(2)
    page.wait_done()
    assert page.texts() == ["One", "Hello!", "Two", "Hello!"]
