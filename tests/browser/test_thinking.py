"""The thinking of a reply: a block above the answer, open while it is being thought."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from support.page_driver import PageDriver
from support.page_server import PageServer

REPLY = "<think>\nA *plan* with <b>marks</b> and `</thin`\n</think>\n\nIt is **done**, a < b."


@pytest.fixture(autouse=True)
def thinker(server: PageServer) -> Iterator[None]:
    server.client.marks_thinking, server.client.replies = True, (REPLY,)
    yield
    server.client.marks_thinking = False


def test_b25_thinking_is_shown_apart_and_survives_a_reload_in_the_middle(
    chat: PageDriver, server: PageServer, open_page: Callable[..., PageDriver]
) -> None:
    server.client.delay_s = 0.04
    chat.send("Think, please")
    thinking = chat.messages("assistant").last.get_by_test_id("thinking")
    expect(thinking).to_have_attribute("open", "")
    expect(thinking.locator("summary")).to_have_text("Thinking …")
    expect(thinking.locator("em")).to_have_text("plan")
    chat.page.reload()
    reply = chat.messages("assistant").last
    thinking = reply.get_by_test_id("thinking")
    expect(thinking.locator("em")).to_have_text("plan")
    server.client.delay_s = 0.0
    chat.wait_done()
    expect(thinking.locator("summary")).to_have_text("Thinking")
    expect(thinking).not_to_have_attribute("open", "")
    expect(reply.locator(".body > .md")).to_have_text("It is done, a < b.")
    expect(thinking.locator(".md")).to_be_hidden()
    thinking.locator("summary").focus()
    chat.page.keyboard.press("Enter")
    expect(thinking.locator(".md")).to_have_text("A plan with <b>marks</b> and </thin")
    assert thinking.locator("b").count() == 0
    chat.page.reload()
    expect(thinking.locator(".md")).to_be_visible()
    thinking.locator("summary").click()
    chat.page.reload()
    expect(thinking.locator("summary")).to_have_text("Thinking")
    expect(thinking.locator(".md")).to_be_hidden()
    other = open_page(f"?session={chat.session_id}").messages("assistant").last
    expect(other.get_by_test_id("thinking").locator("summary")).to_have_text("Thinking")
    expect(other.locator(".body > .md strong")).to_have_text("done")


def test_copy_takes_the_answer_only(chat: PageDriver) -> None:
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    reply = chat.ask("Think and copy")
    chat.action(reply, "copy")
    chat.page.wait_for_function("async () => await navigator.clipboard.readText()")
    assert chat.page.evaluate("navigator.clipboard.readText()") == "It is **done**, a < b."


def test_a_reply_stopped_in_thought_can_be_continued(chat: PageDriver, server: PageServer) -> None:
    server.client.delay_s = 0.05
    chat.send("Think and stop")
    reply = chat.messages("assistant").last
    expect(reply.get_by_test_id("thinking").locator("em")).to_have_text("plan")
    chat.test_id("stop").click()
    expect(reply).to_have_attribute("data-status", "stopped")
    server.client.replies, server.client.delay_s = (" enough.</think>Fine.",), 0.0
    reply.get_by_test_id("continue").click()
    chat.wait_done()
    expect(reply.locator(".body > .md")).to_have_text("Fine.")
    reply.get_by_test_id("thinking").locator("summary").click()
    expect(reply.get_by_test_id("thinking").locator(".md")).to_contain_text("enough.")


def test_replies_without_thinking_have_no_such_block(chat: PageDriver, server: PageServer) -> None:
    server.client.replies = ("Plain, a < b.",)
    reply = chat.ask("No thought")
    expect(reply.get_by_test_id("thinking")).to_be_hidden()
    expect(reply.locator(".body > .md")).to_have_text("Plain, a < b.")
