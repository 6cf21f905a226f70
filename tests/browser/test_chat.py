"""The chat view in a real browser over a scripted engine: send, stream, stop, branch, edit, come back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from support.page_driver import PageDriver
from support.page_server import PageServer

LONG = "One two three four five six seven. " * 6


def slow(server: PageServer, text: str = LONG, delay_s: float = 0.01) -> None:
    server.client.replies, server.client.delay_s = (text,), delay_s


def held(server: PageServer, text: str = LONG) -> asyncio.Event:
    """Replies stand still until the returned event is set (with ``server.call``)."""
    server.client.replies, server.client.gate = (text,), asyncio.Event()
    return server.client.gate


def test_a_message_is_sent_and_its_reply_streams_in(chat: PageDriver, server: PageServer) -> None:
    slow(server)
    chat.send("Count, please")
    reply = chat.messages("assistant").last
    expect(reply).to_have_attribute("data-status", "streaming")
    expect(reply.locator(".caret")).to_be_visible()
    expect(reply).to_contain_text("One two")
    assert len(reply.inner_text()) < len(LONG), "text must be shown before the reply is whole"
    chat.wait_done()
    expect(reply).to_have_attribute("data-status", "done")
    assert chat.texts() == ["Count, please", LONG.strip()]
    expect(reply.locator(".caret")).to_have_count(0)
    expect(chat.test_id("composer")).to_have_value("")


def test_the_footer_tells_reuse_first_token_and_speed(chat: PageDriver, server: PageServer) -> None:
    slow(server, "Something of some length here.", 0.005)
    first = chat.ask("A question of its own 61")
    expect(first.get_by_test_id("reply-stats")).to_contain_text(re.compile(r"\d+ of \d+ tokens reused"))
    expect(first.get_by_test_id("reply-stats")).to_contain_text(re.compile(r"first token \d+\.\d\d s"))
    expect(first.get_by_test_id("reply-stats")).to_contain_text(re.compile(r"[\d.]+ tok/s"))
    chat.regenerate(first, "2/2")
    stats = chat.messages("assistant").last.get_by_test_id("reply-stats").inner_text()
    found = re.search(r"(\d+) of (\d+) tokens reused", stats)
    assert found and int(found[1]) == int(found[2]) - 1, stats


def test_enter_sends_and_shift_enter_does_not(chat: PageDriver) -> None:
    field = chat.test_id("composer")
    field.fill("first line")
    field.press("Shift+Enter")
    field.press_sequentially("second line")
    assert chat.messages().count() == 0
    field.press("Enter")
    expect(chat.messages("user")).to_have_count(1)
    assert chat.texts()[0] == "first line\nsecond line"


def test_stop_keeps_what_has_arrived_and_continue_goes_on(chat: PageDriver, server: PageServer) -> None:
    slow(server, LONG, 0.02)
    chat.send("Go on and on")
    reply = chat.messages("assistant").last
    expect(reply).to_contain_text("One two")
    expect(chat.test_id("stop")).to_have_count(1)
    expect(chat.test_id("send")).to_have_count(0)
    chat.test_id("stop").click()
    expect(reply).to_have_attribute("data-status", "stopped")
    expect(chat.test_id("stop")).to_have_count(0)
    kept = reply.locator(".md").inner_text()
    assert kept.startswith("One two") and len(kept) < len(LONG)
    slow(server, " And the rest.", 0.0)
    reply.get_by_test_id("continue").click()
    expect(reply).to_have_attribute("data-status", "done")
    text = reply.locator(".md").inner_text()
    assert text.startswith(kept.rstrip()) and text.endswith("And the rest.")


def test_escape_stops_the_reply(chat: PageDriver, server: PageServer) -> None:
    slow(server, LONG, 0.02)
    chat.send("Again")
    expect(chat.messages("assistant").last).to_contain_text("One")
    chat.page.keyboard.press("Escape")
    expect(chat.messages("assistant").last).to_have_attribute("data-status", "stopped")


def test_b44_stop_before_the_first_token_leaves_a_chat_that_works(chat: PageDriver, server: PageServer) -> None:
    gate = held(server)
    chat.send("Never mind")
    chat.test_id("stop").click()
    expect(chat.test_id("send")).to_be_visible()
    server.call(gate.set)
    expect(chat.messages("user")).to_have_count(1)
    expect(chat.messages("assistant")).to_have_count(0)
    chat.page.reload()
    expect(chat.messages("user")).to_have_count(1)
    server.client.gate, server.client.replies = None, ("A reply at last",)
    chat.page.get_by_role("button", name="Get a reply").click()
    expect(chat.messages("assistant")).to_contain_text("A reply at last")


def test_regenerate_makes_a_sibling_and_the_first_one_is_found_again(chat: PageDriver, server: PageServer) -> None:
    server.client.replies = lambda request: f"Version {len(server.client.requests)}"
    reply = chat.ask("Name a number")
    first = reply.locator(".md").inner_text()
    expect(reply.get_by_test_id("sibling-label")).to_have_count(0)
    for count in (2, 3):
        chat.action(chat.messages("assistant").last, "regenerate")
        expect(chat.test_id("sibling-label")).to_have_text(f"{count}/{count}")
        chat.wait_done()
    expect(chat.test_id("sibling-next")).to_be_disabled()
    chat.test_id("sibling-prev").click()
    expect(chat.test_id("sibling-label")).to_have_text("2/3")
    chat.test_id("sibling-prev").click()
    expect(chat.test_id("sibling-label")).to_have_text("1/3")
    assert chat.texts() == ["Name a number", first]
    chat.page.reload()
    expect(chat.test_id("sibling-label")).to_have_text("1/3")
    assert chat.texts() == ["Name a number", first]


def test_an_earlier_reply_can_be_regenerated_and_what_followed_is_kept(chat: PageDriver, server: PageServer) -> None:
    server.client.replies = lambda request: f"Reply {len(server.client.requests)}"
    chat.ask("First")
    chat.ask("Second")
    before = chat.texts()
    chat.action(chat.messages("assistant").first, "regenerate")
    expect(chat.messages()).to_have_count(2)
    chat.wait_done()
    chat.test_id("sibling-prev").click()
    expect(chat.messages()).to_have_count(4)
    assert chat.texts() == before


def test_editing_a_question_makes_a_branch_with_a_reply(chat: PageDriver, server: PageServer) -> None:
    server.client.replies = lambda request: (request.messages or [])[-1]["content"].upper()
    chat.ask("one")
    chat.ask("two")
    chat.action(chat.messages("user").first, "edit")
    editor = chat.messages("user").first.locator("textarea")
    expect(editor).to_have_value("one")
    editor.fill("other")
    chat.test_id("edit-save").click()
    expect(chat.messages()).to_have_count(2)
    chat.wait_done()
    assert chat.texts() == ["other", "OTHER"]
    expect(chat.test_id("sibling-label")).to_have_text("2/2")
    chat.test_id("sibling-prev").click()
    expect(chat.messages()).to_have_count(4)
    assert chat.texts() == ["one", "ONE", "two", "TWO"]


def test_editing_a_reply_makes_a_sibling_without_running_the_model(chat: PageDriver, server: PageServer) -> None:
    reply = chat.ask("Say hello")
    asked = len(server.client.requests)
    chat.action(reply, "edit")
    reply.locator("textarea").fill("**Goodbye**")
    chat.test_id("edit-save").click()
    expect(chat.messages("assistant").last).to_have_text(re.compile("Goodbye"))
    expect(chat.test_id("sibling-label")).to_have_text("2/2")
    assert len(server.client.requests) == asked
    expect(chat.messages("assistant").last.get_by_test_id("reply-stats")).to_have_count(0)


def test_escape_leaves_an_edit_without_a_trace(chat: PageDriver) -> None:
    chat.ask("Stay")
    chat.action(chat.messages("user").last, "edit")
    field = chat.messages("user").last.locator("textarea")
    field.fill("Changed")
    field.press("Escape")
    expect(field).to_have_count(0)
    assert chat.texts()[0] == "Stay"
    assert chat.messages().count() == 2


def test_b44_a_refresh_during_a_reply_attaches_to_it_again(chat: PageDriver, server: PageServer) -> None:
    slow(server, LONG, 0.015)
    chat.send("Long one")
    expect(chat.messages("assistant").last).to_contain_text("One two")
    chat.page.reload()
    reply = chat.messages("assistant").last
    expect(reply).to_have_attribute("data-status", "streaming")
    expect(chat.test_id("stop")).to_be_visible()
    expect(reply).to_contain_text("One two")
    chat.wait_done()
    assert chat.texts() == ["Long one", LONG.strip()]


def test_replies_stay_in_their_own_chat_while_chats_are_switched(chat: PageDriver, server: PageServer) -> None:
    server.client.replies = lambda request: ((request.messages or [])[-1]["content"] + " ") * 40
    server.client.delay_s = 0.004
    chat.send("alpha")
    first = chat.session_id
    second = chat.new_chat()
    chat.send("beta")
    expect(chat.messages("assistant").last).to_contain_text("beta beta")
    chat.open_chat(first)
    expect(chat.messages("assistant").last).to_contain_text("alpha alpha")
    assert "beta" not in " ".join(chat.texts())
    chat.wait_done()
    assert chat.texts() == ["alpha", ("alpha " * 40).strip()]
    chat.open_chat(second)
    chat.wait_done()
    assert chat.texts() == ["beta", ("beta " * 40).strip()]


def test_two_tabs_stay_in_step(chat: PageDriver, open_page: Callable[..., PageDriver], server: PageServer) -> None:
    chat.ask("one")
    other = open_page(f"?session={chat.session_id}")
    slow(server, LONG, 0.005)
    chat.send("two")
    expect(other.messages("user")).to_have_count(2)
    expect(other.messages("assistant").last).to_contain_text("One two")
    other.wait_done()
    chat.wait_done()
    assert other.texts() == chat.texts()
    server.client.delay_s = 0.0
    other.ask("three")
    expect(chat.messages()).to_have_count(6)
    chat.wait_done()
    assert other.texts() == chat.texts()


def test_a_tree_of_many_branches_keeps_every_leaf(chat: PageDriver, server: PageServer) -> None:
    server.client.replies = lambda request: f"Reply {len(server.client.requests)}"
    chat.ask("root")
    for turn in range(2):
        chat.ask(f"turn {turn}")
    for count in range(2, 12):
        chat.regenerate(chat.messages("assistant").nth(1), f"{count}/{count}")
    expect(chat.test_id("sibling-label")).to_have_text("11/11")
    for index in range(10, 0, -1):
        chat.test_id("sibling-prev").first.click()
        expect(chat.test_id("sibling-label").first).to_have_text(f"{index}/11")
    expect(chat.messages()).to_have_count(6)
    before = chat.texts()
    chat.page.reload()
    expect(chat.messages()).to_have_count(6)
    assert chat.texts() == before


def test_sixty_versions_of_a_reply_are_walked_through_and_each_keeps_what_follows(
    chat: PageDriver, server: PageServer
) -> None:
    chat.ask("root")
    store, question = server.service.store, chat.messages("user").get_attribute("data-message-id")
    for number in range(2, 61):
        reply = store.finish_reply(store.add_reply(question)[1].id, f"version {number}", "done")[0]
        if number in (20, 60):
            below = store.add_question(chat.session_id, reply.id, f"under {number}")[2]
            store.finish_reply(below.id, f"re: {number}", "done")
    chat.page.reload()
    label = chat.test_id("sibling-label")
    expect(label).to_have_text("60/60")
    assert chat.texts() == ["root", "version 60", "under 60", "re: 60"]
    expect(chat.test_id("sibling-next")).to_be_disabled()
    for number in range(59, 0, -1):
        chat.test_id("sibling-prev").click()
        expect(label).to_have_text(f"{number}/60")
        if number == 20:
            expect(chat.messages()).to_have_count(4)
            assert chat.texts() == ["root", "version 20", "under 20", "re: 20"]
    expect(chat.test_id("sibling-prev")).to_be_disabled()
    assert chat.texts() == ["root", "Hello!"]
    chat.page.reload()
    expect(label).to_have_text("1/60")


def test_edit_and_regenerate_are_there_on_every_message_and_wait_for_a_running_reply(
    chat: PageDriver, server: PageServer
) -> None:
    server.client.replies, server.client.delay_s = ("word " * 60,), 0.01
    chat.send("Go")
    running = chat.messages("assistant").last
    expect(running).to_contain_text("word")
    for name in ("edit", "regenerate"):
        for message in chat.messages().all():
            expect(message.get_by_test_id(name)).to_have_count(1)
        button = running.get_by_test_id(name)
        expect(button).to_be_disabled()
        assert "still being written" in (button.get_attribute("title") or "")
    chat.test_id("stop").click()
    chat.wait_done()
    for name in ("edit", "regenerate"):
        expect(running.get_by_test_id(name)).to_be_enabled()


@pytest.mark.parametrize("text", ["1. one\n2. two", "\n\n- one\n- two", "1. one\n\n2. two", "> quoted", "# Head"])
def test_a_reply_begins_at_its_top_whatever_it_begins_with(chat: PageDriver, server: PageServer, text: str) -> None:
    server.client.replies = (text,)
    top = "(message) => message.querySelector('.md').getBoundingClientRect().top - message.getBoundingClientRect().top"
    assert chat.ask("Go").evaluate(top) == 0


def test_a_line_shows_where_a_chat_that_outgrew_the_context_is_cut(
    chat: PageDriver, server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(server.client._info, "max_model_len", 500)
    server.client.replies = ("r" * 60,)
    for number in range(3):
        chat.ask(f"Question number {number}, {'q' * 40}")
    expect(chat.test_id("context-cut")).to_have_count(0)
    last = chat.ask(f"Question number 3, {'q' * 40}")
    cut = chat.test_id("context-cut")
    expect(cut).to_have_text("2 earlier messages no longer fit into the context; the model does not see them.")
    expect(last.get_by_test_id("left-out")).to_have_text("2 earlier left out")
    below = cut.locator("xpath=following-sibling::*[1]")
    expect(below).to_contain_text("Question number 1")
    assert len(chat.texts()) == 8
    chat.test_id("composer").fill("one more")
    offer = chat.page.locator(".compact-offer .warn")
    expect(offer).to_have_text(re.compile("The oldest . messages will not be sent."))
    chat.page.reload()
    expect(cut).to_contain_text("2 earlier messages")
