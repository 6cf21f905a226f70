"""The main story on the real program, the real model and a real browser: chat, branch, close, start again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from support.page_driver import CHROMIUM, CHROMIUM_FLAGS, PageDriver
from support.page_socket import Page
from support.running_app import RunningApp

REUSED = re.compile(r"(\d+) of (\d+) tokens reused")


@pytest.fixture
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1480, "height": 920})
    context.set_default_timeout(60_000)
    expect.set_options(timeout=120_000)
    yield context
    expect.set_options(timeout=15_000)
    context.close()


def reused(driver: PageDriver) -> tuple[int, int]:
    """Reused and all prompt tokens of the last reply, as its footer tells them."""
    stats = driver.messages("assistant").last.get_by_test_id("reply-stats")
    expect(stats).to_contain_text(REUSED)
    match = REUSED.search(stats.inner_text())
    assert match
    return int(match[1]), int(match[2])


def new_chat(app: RunningApp) -> str:
    """A chat with short replies, always the same."""
    page = Page(app)
    page.call("hello")
    session = page.call("create", params={"temperature": 0.0, "max_tokens": 48})["id"]
    page.socket.close()
    return session


def ask(driver: PageDriver, text: str) -> None:
    """Send and wait for the whole reply."""
    replies = driver.messages("assistant").count()
    driver.send(text)
    expect(driver.messages("assistant")).to_have_count(replies + 1)
    driver.wait_done()


def other_hosts(context: BrowserContext, *apps: RunningApp) -> list[str]:
    """Addresses that pages of ``context`` ask for anywhere but at these servers; filled from now on."""
    homes = {urlsplit(app.url).netloc for app in apps}
    asked: list[str] = []

    def note(url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.netloc not in homes:
            asked.append(url)

    context.on("request", lambda request: note(request.url))
    context.on("page", lambda page: page.on("websocket", lambda socket: note(socket.url)))
    return asked


def test_a_chat_is_branched_and_found_again_after_a_restart(
    default_model_path, start_app: Callable[..., RunningApp], context: BrowserContext
):
    flags = ("--model", str(default_model_path))
    app = start_app(*flags)
    first_visits = other_hosts(context, app)
    session = new_chat(app)
    driver = PageDriver(context.new_page(), app.url).goto(f"?session={session}")
    complaints: list[str] = []
    driver.page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)

    ask(driver, "What is the capital of France?")
    cold, first_prompt = reused(driver)
    ask(driver, "And of Italy?")
    warm, second_prompt = reused(driver)
    assert (cold, first_prompt < second_prompt) == (0, True)
    assert warm >= first_prompt, "what the first turn fed and produced is reused"

    driver.action(driver.messages("assistant").last, "regenerate")
    last = driver.messages("assistant").last
    expect(last.get_by_test_id("sibling-label")).to_have_text("2/2")
    driver.wait_done()
    assert reused(driver) == (second_prompt - 1, second_prompt)
    driver.action(last, "sibling-prev")
    expect(driver.messages("assistant").last.get_by_test_id("sibling-label")).to_have_text("1/2")
    shown = driver.texts()

    snapshot = app.get_json("/api/kv/snapshot")[1]
    assert snapshot["conserved"] is True
    assert snapshot["cached"] > 0
    assert driver.grid() == {name: snapshot[name] for name in ("free", "cached", "active", "shared", "seq")}

    assert complaints == []
    assert first_visits == []

    code, seconds = app.stop()
    assert (code, app.errors) == (0, "")
    assert seconds < 5

    again = start_app(*flags, data_dir=app.data_dir)
    later_visits = other_hosts(context, app, again)
    found = PageDriver(context.new_page(), again.url).goto()
    expect(found.messages("assistant")).to_have_count(2)
    assert found.session_id == session
    assert found.texts() == shown
    expect(found.messages("assistant").last.get_by_test_id("sibling-label")).to_have_text("1/2")
    found.action(found.messages("assistant").last, "sibling-next")
    expect(found.messages("assistant").last.get_by_test_id("sibling-label")).to_have_text("2/2")

    assert later_visits == []
