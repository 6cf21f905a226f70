"""A reply is gone on with from one of its tokens, and a chat from a summary of it: as a reader does it."""

from __future__ import annotations

import asyncio
import re

from playwright.sync_api import expect

from support.page_driver import PageDriver
from support.page_server import PageServer


def test_a_reply_is_branched_at_a_token_with_the_keyboard_alone(same_page: PageDriver, server: PageServer) -> None:
    chat, keys = same_page, same_page.page.keyboard
    server.client.replies = lambda request: " and on" if request.begins_with else "One 🎉\ntwo"
    reply = chat.ask("Count")
    old = reply.get_attribute("data-message-id")
    chat.message_menu(reply, "branch-token")
    tokens = chat.test_id("token")
    expect(tokens).to_have_count(10)  # eleven bytes and the end; the four of one character are one
    expect(tokens.first).to_be_focused()
    expect(tokens.nth(4)).to_have_attribute("aria-label", "Token 5: “🎉”")
    expect(tokens.last).to_have_text("<end>")
    for key in ("ArrowRight", "ArrowDown", "Home", "ArrowRight"):
        keys.press(key)
    expect(tokens.nth(1)).to_be_focused()
    keys.press("Enter")
    choices = chat.test_id("token-choice")
    expect(choices).to_have_count(8)
    expect(chat.page.locator("[data-testid=token-choice][data-taken]")).to_have_text(re.compile("chosen"))
    expect(choices.first).to_contain_text("50.0 %")
    keys.press("Escape")
    expect(choices).to_have_count(0)
    expect(tokens.nth(1)).to_be_focused()
    tokens.nth(2).click()
    other = chat.page.locator("[data-testid=token-choice]:not([data-taken])").first
    expect(other).to_be_focused()
    chosen = int(other.get_attribute("data-token") or 0)
    keys.press("Enter")
    expect(chat.test_id("token-view")).to_have_count(0)
    chat.wait_done()
    branch = chat.messages("assistant")
    expect(branch).to_contain_text(f"On{chr(chosen)} and on")
    expect(branch.get_by_test_id("origin")).to_have_text("Branched from version 1 at token 3")
    expect(branch.get_by_test_id("sibling-label")).to_have_text("2/2")
    chat.action(branch, "sibling-prev")
    expect(chat.page.locator(f"[data-message-id='{old}']")).to_contain_text("One 🎉")
    expect(chat.test_id("origin")).to_have_count(0)
    server.client._info["fingerprint"] = "another"
    chat.message_menu(chat.messages("assistant"), "branch-token")
    expect(chat.test_id("token-view").get_by_role("alert")).to_contain_text("did not write this reply")
    del server.client._info["fingerprint"]
    keys.press("Escape")
    expect(chat.test_id("token-view")).to_have_count(0)


def test_a_chat_goes_on_from_a_summary_that_can_be_stopped_folded_and_corrected(
    same_page: PageDriver, server: PageServer
) -> None:
    chat, client = same_page, server.client
    client.replies = lambda request: "Notes of all." if "Sum up" in str(request.messages[-1]["content"]) else "Fine."
    chat.ask("First question")
    chat.ask("Second question")
    client.gate = asyncio.Event()
    chat.test_id("composer").fill("/compact")
    chat.page.keyboard.press("Enter")
    card = chat.test_id("summary-head")
    expect(card).to_contain_text("being written")
    chat.test_id("stop").click()
    expect(card).to_have_count(0)
    expect(chat.messages()).to_have_count(4)
    client.gate = None
    chat.chat_menu(chat.session_id, "compact-chat")
    expect(card).to_contain_text(re.compile(r"[\d,]+ tokens before, 14 after"))
    chat.wait_done()
    expect(chat.page.locator(".msg.unsent")).to_have_count(4)
    summary = chat.messages().last
    expect(summary).to_contain_text("Notes of all.")
    chat.test_id("summary-fold").click()
    expect(summary.locator(".body")).to_be_hidden()
    chat.test_id("summary-fold").click()
    chat.ask("Third question")
    sent = [one["content"] for one in client.requests[-1].messages]
    assert len(sent) == 1 and "Notes of all." in sent[0] and sent[0].endswith("Third question")
    expect(chat.messages()).to_have_count(7)
    chat.action(summary_of(chat), "edit")
    summary_of(chat).locator("textarea").fill("My own notes.")
    chat.test_id("edit-save").click()
    expect(chat.messages()).to_have_count(5)
    expect(chat.test_id("summary-head")).to_contain_text("edited")
    chat.ask("Another third")
    assert "My own notes." in client.requests[-1].messages[0]["content"]
    chat.action(summary_of(chat), "sibling-prev")
    expect(chat.messages()).to_have_count(7)
    expect(chat.messages("user").last).to_have_text("Third question")


def test_where_messages_would_be_left_out_a_summary_is_offered(same_page: PageDriver, server: PageServer) -> None:
    chat, client = same_page, server.client
    client.replies = lambda request: "Notes." if "Sum up" in str(request.messages[-1]["content"]) else "x" * 300
    usual, client._info["max_model_len"] = client._info["max_model_len"], 1500
    try:
        for number in range(3):
            chat.ask(f"Question {number} " + "y" * 100)
        chat.test_id("composer").fill("z" * 200)
        expect(chat.page.locator(".compact-offer")).to_contain_text("will not be sent")
        chat.test_id("compact").click()
        expect(chat.test_id("summary-head")).to_contain_text("did not fit")
        expect(chat.page.locator(".compact-offer")).to_have_count(0)
        expect(chat.test_id("composer")).to_have_value("z" * 200)
        chat.test_id("composer").fill("")
    finally:
        client._info["max_model_len"] = usual


def summary_of(chat: PageDriver):
    return chat.page.locator(".msg.summary")
