"""The page says that a configuration does not answer, and its button takes the engine back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from pagedchat.engine.errors import PagedChatError
from support.page_driver import PageDriver
from support.page_server import PageServer
from support.paged_client import PagedFakeClient

PROBLEM = "The model is damaged. `pagedchat rollback` returns to the configuration that answered on 2026-01-02."


class Recovery:
    """A way back as the page knows it.

    Attributes:
        refusal: why going back is refused, if it is.
    """

    def __init__(self, client: PagedFakeClient) -> None:
        self.client, self.refusal = client, ""
        self.problem: str | None = PROBLEM
        self._tell: list[Callable[[], None]] = []

    def watch(self, callback: Callable[[], None]) -> None:
        self._tell.append(callback)

    def view(self) -> dict[str, Any]:
        back, since = ("2026-01-02T03:04:05+00:00", None) if self.problem else (None, "2026-01-03T03:04:05+00:00")
        return {"problem": self.problem, "way_back": back, "rolled_back": since}

    async def rollback(self) -> str:
        if self.refusal:
            raise PagedChatError(self.refusal)
        self.problem = None
        self.client.set_status("ready")
        for tell in self._tell:
            tell()
        return "pagedchat goes back to the configuration that answered."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    client = PagedFakeClient(("Hello!",))
    with PageServer(tmp_path_factory.mktemp("chats"), client, recovery=Recovery(client)) as server:
        yield server


@pytest.mark.parametrize("state", ["failed", "ready"])
def test_the_page_tells_the_problem_and_its_button_goes_back(
    context: BrowserContext, server: PageServer, state: str
) -> None:
    recovery = server.recovery
    recovery.problem = PROBLEM
    server.call(server.client.set_status, state, None, PROBLEM if state == "failed" else "")
    chat = PageDriver(context.new_page(), server.url).goto()
    banner = chat.page.locator("#pc-banner")
    expect(banner).to_contain_text("damaged. pagedchat rollback returns to the configuration that answered")
    expect(banner.locator("code")).to_have_text("pagedchat rollback")
    button = chat.page.get_by_role("button", name="Go back to what worked")

    recovery.refusal = "The model of that configuration is gone."
    button.click()
    expect(chat.page.get_by_text("is gone.")).to_be_visible()
    expect(banner).to_be_visible()
    recovery.refusal = ""
    if state == "ready":
        chat.test_id("kv-menu").click()
        chat.test_id("kv-rollback").click()
        expect(chat.test_id("dialog")).to_contain_text("Go back to what worked?")
        chat.test_id("confirm").click()
    else:
        button.click()

    expect(banner).to_be_hidden()
    chat.new_chat()
    chat.ask("Are you there?")
    assert chat.texts()[-1] == "Hello!"
    chat.page.get_by_role("button", name="Settings", exact=True).first.click()
    told = chat.page.locator("#pc-settings .set-engine")
    expect(told).to_contain_text("Rolled back since ")
    expect(told).to_contain_text("2026")
    expect(told).to_contain_text("pagedchat rollback --undo")
    assert chat.errors == []
    chat.page.close()


def test_the_page_says_that_kernels_are_being_compiled_until_they_are_ready(
    context: BrowserContext, server: PageServer
) -> None:
    server.recovery.problem = None
    server.client._info.update(compiling=True)
    server.call(server.client.set_status, "ready")
    chat = PageDriver(context.new_page(), server.url).goto()
    banner = chat.page.locator("#pc-banner")
    expect(banner).to_contain_text("until they are ready, replies are slow")
    server.client._info.update(compiling=False)
    server.call(server.client.set_status, "ready")
    expect(banner).to_be_hidden()
    assert chat.errors == []
    chat.page.close()
