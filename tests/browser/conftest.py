"""A Chromium, a page server with a scripted engine, and pages. Without Chromium these tests fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from support.page_driver import CHROMIUM, CHROMIUM_FLAGS, PageDriver
from support.page_server import PageServer
from support.paged_client import PagedFakeClient

expect.set_options(timeout=45_000)
LIGHTER = "/usr/bin/chromium-headless-shell"
"""The same engine without a window around it, where it is installed: it starts in half the time."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    assert Path(CHROMIUM).exists(), f"these tests need a Chromium at {CHROMIUM}"
    path = LIGHTER if Path(LIGHTER).exists() else CHROMIUM
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    with PageServer(tmp_path_factory.mktemp("page"), PagedFakeClient(num_blocks=800)) as server:
        yield server


@pytest.fixture
def server(shared_server: PageServer) -> PageServer:
    """The server with its engine set back: short replies, no pauses."""
    client = shared_server.client
    client.replies, client.delay_s, client.gate, client.refuse = ("Hello!",), 0.0, None, None
    client.rests = ()
    return shared_server


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(viewport={"width": 1480, "height": 920})
    yield context
    context.close()


@pytest.fixture
def open_page(context: BrowserContext, server: PageServer) -> Iterator[Callable[..., PageDriver]]:
    """Open a page: ``open_page("?session=…")``. No page may have thrown an error in the end."""
    opened: list[PageDriver] = []

    def open_one(query: str = "") -> PageDriver:
        driver = PageDriver(context.new_page(), server.url).goto(query)
        opened.append(driver)
        return driver

    yield open_one
    assert [error for driver in opened for error in driver.errors] == []


@pytest.fixture
def chat(open_page: Callable[..., PageDriver]) -> PageDriver:
    """A page with a new, empty chat."""
    driver = open_page()
    if driver.page.evaluate("window.pagedchat.page.session !== null && !window.pagedchat.page.chat.ids.length"):
        return driver
    driver.new_chat()
    return driver


@pytest.fixture(scope="module")
def standing_page(chromium: Browser, shared_server: PageServer) -> Iterator[PageDriver]:
    context = chromium.new_context(viewport={"width": 1480, "height": 920})
    yield PageDriver(context.new_page(), shared_server.url).goto("?session=")
    context.close()


@pytest.fixture
def same_page(standing_page: PageDriver, server: PageServer) -> Iterator[PageDriver]:
    """A new chat in a page that the tests of a file share: opening one takes seconds."""
    page = standing_page.front().page
    if page.locator("dialog, [data-testid=menu]").count() or page.locator("#pc-notice:visible").count():
        standing_page.goto("?session=")  # an earlier test did not come to its end
    standing_page.errors.clear()
    standing_page.new_chat()
    yield standing_page
    assert standing_page.errors == []
