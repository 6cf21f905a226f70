"""What can be done with the blocks as a whole. The way back to what worked has tests of its own: test_rollback.py."""

from __future__ import annotations

import asyncio

from playwright.sync_api import Locator, expect

from support.page_driver import PageDriver
from support.page_server import PageServer


def choose(chat: PageDriver, name: str) -> None:
    """Pick an entry of the panel's menu."""
    chat.test_id("kv-menu").click()
    chat.test_id(name).click()


def toast(chat: PageDriver) -> Locator:
    return chat.page.locator(".toast").last


def dismiss(chat: PageDriver) -> None:
    toast(chat).get_by_role("button", name="Dismiss").click()


def test_cached_blocks_are_forgotten_once_asked_and_never_under_a_running_reply(
    same_page: PageDriver, server: PageServer
) -> None:
    chat, client = same_page, server.client
    chat.ask("Something that fills a few blocks of the pool")
    cached = server.do(client.snapshot())["cached"]
    expect(chat.test_id("kv-grid")).to_have_attribute("data-cached", str(cached))
    assert cached

    chat.test_id("kv-menu").click()
    expect(chat.test_id("kv-rollback")).to_have_count(0)
    chat.test_id("kv-forget").click()
    expect(chat.test_id("dialog")).to_contain_text(f"Cached now: {cached} blocks.")
    chat.page.get_by_role("button", name="Cancel").click()
    assert server.do(client.snapshot())["cached"] == cached
    expect(chat.test_id("kv-menu")).to_be_focused()

    client.gate = asyncio.Event()
    chat.send("Another question")
    expect(chat.test_id("kv-grid")).not_to_have_attribute("data-active", "0")
    choose(chat, "kv-forget")
    chat.test_id("confirm").click()
    expect(toast(chat)).to_contain_text("cannot be")
    assert server.do(client.snapshot())["active"] > 0
    dismiss(chat)
    server.call(client.gate.set)
    chat.wait_done()

    cached = server.do(client.snapshot())["cached"]
    choose(chat, "kv-forget")
    chat.test_id("confirm").click()
    expect(toast(chat)).to_contain_text(f"{cached} cached blocks forgotten.")
    assert server.do(client.snapshot())["cached"] == 0
    expect(chat.test_id("kv-grid")).to_have_attribute("data-cached", "0")
    dismiss(chat)


def test_the_panel_is_summed_up_on_request_and_when_much_has_changed(same_page: PageDriver, server: PageServer) -> None:
    chat, client = same_page, server.client
    server.do(client.reset_cache())
    expect(chat.test_id("kv-grid")).to_have_attribute("data-cached", "0")
    client.replies = ("Short.",)
    chat.ask("A few blocks are no news")
    snapshot = server.do(client.snapshot())
    expect(chat.test_id("kv-grid")).to_have_attribute("data-seq", str(snapshot["seq"]))
    chat.test_id("kv-menu").click()
    chat.test_id("kv-sum-up").click()
    words = f"Of {snapshot['num_blocks']} KV blocks none in use, {snapshot['cached']} cached, {snapshot['free']} free"
    expect(toast(chat)).to_contain_text(words)
    dismiss(chat)
    for number in range(2):  # what was said last was of less than a tenth
        chat.new_chat()
        chat.ask(f"{number} of a tenth of the pool is news. " * 45)
    snapshot = server.do(client.snapshot())
    assert snapshot["cached"] > snapshot["num_blocks"] / 5
    expect(chat.test_id("kv-summary")).to_contain_text(f"{snapshot['cached']} cached, {snapshot['free']} free")
    expect(chat.test_id("kv-summary")).to_contain_text("counts add up.")
