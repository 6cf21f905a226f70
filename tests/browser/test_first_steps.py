"""What a first hour with the page meets: the keyboard, empty chats, notices, a connection that comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from playwright.sync_api import expect

from support.page_driver import PageDriver
from support.page_server import PageServer

COMPOSING = """(field, key) => field.dispatchEvent(
    new KeyboardEvent("keydown", {key, isComposing: true, bubbles: true, cancelable: true}))"""


def test_keys_that_belong_to_an_input_method_do_nothing_here(same_page: PageDriver) -> None:
    same_page.ask("Name me")
    row = same_page.row(same_page.session_id)
    same_page.chat_menu(same_page.session_id, "rename")
    field = row.get_by_role("textbox")
    for key in ("Enter", "Escape"):
        field.evaluate(COMPOSING, key)
        expect(field).to_be_visible()
    field.press("Escape")
    search = same_page.test_id("search")
    search.fill("Name")
    for key in ("Enter", "Escape"):
        search.evaluate(COMPOSING, key)
        assert search.input_value() == "Name"
    search.fill("")
    same_page.action(same_page.messages("user").last, "edit")
    edit = same_page.test_id("edit-field")
    expect(same_page.page.locator(".editor .hint")).to_contain_text("Ctrl+Enter saves, Esc cancels.")
    edit.evaluate(COMPOSING, "Escape")
    expect(edit).to_be_visible()
    edit.press("Escape")
    expect(edit).to_have_count(0)


def test_what_is_typed_first_is_written_into_the_composer_and_one_empty_chat_is_enough(
    open_page: Callable[..., PageDriver],
) -> None:
    chat = open_page("?session=")
    chat.page.keyboard.type("hello")
    expect(chat.test_id("composer")).to_have_value("hello")
    chat.test_id("composer").fill("")
    first = chat.new_chat()
    expect(chat.row(first)).to_be_visible()
    empty = chat.test_id("session-item").filter(has_text="New chat")
    before = empty.count()  # other tests may have left one
    chat.open_chat(ask_elsewhere(chat, first))
    assert chat.new_chat() == first
    expect(empty).to_have_count(before)


def test_the_first_message_of_all_leaves_the_composer_empty_and_is_sent_once(
    open_page: Callable[..., PageDriver], server: PageServer
) -> None:
    chat = open_page("?session=")
    server.client.gate = server.call(asyncio.Event)
    chat.page.get_by_role("button", name="Give me five names").click()
    chat.test_id("composer").press("Enter")
    expect(chat.messages("user")).to_have_count(1)
    expect(chat.test_id("composer")).to_have_value("")
    expect(chat.test_id("queue")).to_be_hidden()
    server.call(server.client.gate.set)
    chat.wait_done()
    chat.test_id("composer").press("Enter")
    expect(chat.test_id("composer")).to_have_value("")
    assert server.do(server.service.library.draft(chat.session_id))["text"] == ""
    assert len(chat.texts()) == 2


def ask_elsewhere(chat: PageDriver, besides: str) -> str:
    """Id of a chat with a message, begun from the page of no chat."""
    ids = "() => [...window.pagedchat.page.sidebar.sessions.keys()]"
    before = chat.page.evaluate(ids)
    chat.page.evaluate("window.pagedchat.page.socket.call('send', {session: null, parent: null, text: 'elsewhere'})")
    chat.page.wait_for_function("(known) => window.pagedchat.page.sidebar.sessions.size > known", arg=len(before))
    return next(one for one in chat.page.evaluate(ids) if one not in before and one != besides)


def test_a_sentence_about_a_lost_connection_goes_when_it_is_back(same_page: PageDriver) -> None:
    said = same_page.page.evaluate(
        "async () => { const { composer, socket } = window.pagedchat.page; composer.text = 'kept';"
        " socket.socket.close(); await composer.submit(); return composer.problem.textContent; }"
    )
    assert "no connection" in said and "kept here" in said
    expect(same_page.page.locator(".box .problem")).to_be_hidden()
    expect(same_page.test_id("composer")).to_have_value("kept")
    same_page.test_id("composer").fill("")


def test_a_notice_covers_neither_the_panel_nor_the_last_reply_and_goes_with_its_chat(same_page: PageDriver) -> None:
    same_page.ask("One")
    same_page.ask("Two")
    same_page.message_menu(same_page.messages("user").last, "delete-branch")
    toast = same_page.page.locator(".toast", has_text="Deleted 2 messages")
    expect(toast).to_be_visible()
    box, main = toast.bounding_box(), same_page.page.locator("#pc main").bounding_box()
    foot = same_page.messages("assistant").last.locator(".foot").bounding_box()
    assert box and main and foot
    assert main["x"] <= box["x"] and box["x"] + box["width"] <= main["x"] + main["width"]
    assert foot["y"] + foot["height"] <= box["y"]
    same_page.new_chat()
    expect(toast).to_have_count(0)
    told = "import('/ui/static/toasts.js').then(({ toast }) => toast('Deleted “A boat.”. It was “a boat”.'))"
    same_page.page.evaluate(told)
    expect(same_page.page.locator(".toast")).to_contain_text("Deleted “A boat.” It was “a boat”.")
