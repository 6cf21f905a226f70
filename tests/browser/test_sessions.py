"""The list of chats, settings of a chat, drafts, and what the page remembers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, expect

from support.page_driver import PageDriver
from support.page_server import PageServer


def open_settings(chat: PageDriver) -> Locator:
    chat.page.get_by_role("button", name="Settings", exact=True).first.click()
    dialog = chat.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


def stored(server: PageServer, session_id: str) -> dict[str, Any]:
    sessions = server.do(server.service.list_sessions())
    return next(one for one in sessions if one["id"] == session_id)


def test_the_first_message_names_the_chat(chat: PageDriver) -> None:
    chat.ask("How do tides work?")
    expect(chat.row(chat.session_id)).to_contain_text("How do tides work?")
    expect(chat.page.locator("#pc-title")).to_have_text(re.compile("How do tides work"))
    expect(chat.page).to_have_title(re.compile("How do tides work.* pagedchat"))


def test_a_chat_is_renamed_in_the_list(chat: PageDriver, server: PageServer) -> None:
    chat.ask("Rename me")
    item = chat.row(chat.session_id)
    chat.chat_menu(chat.session_id, "rename")
    field = item.get_by_role("textbox")
    field.fill("Another name")
    field.press("Enter")
    expect(item).to_contain_text("Another name")
    expect(chat.page.locator("#pc-title")).to_have_text("Another name")
    assert stored(server, chat.session_id)["title"] == "Another name"


def test_escape_leaves_a_name_as_it_was(chat: PageDriver) -> None:
    chat.ask("Keep this name")
    item = chat.row(chat.session_id)
    item.locator("a").focus()
    chat.page.keyboard.press("F2")
    item.get_by_role("textbox").fill("Something else")
    chat.page.keyboard.press("Escape")
    expect(item).to_contain_text("Keep this name")


def test_a_deleted_chat_comes_back_with_undo(chat: PageDriver) -> None:
    chat.ask("Delete me and bring me back")
    before, deleted = chat.texts(), chat.session_id
    chat.chat_menu(deleted, "delete")
    expect(chat.row(deleted)).to_have_count(0)
    expect(chat.messages()).to_have_count(0)
    chat.undo()
    expect(chat.row(deleted)).to_have_count(1)
    expect(chat.messages()).to_have_count(2)
    assert chat.texts() == before


def test_the_button_begins_a_new_chat(chat: PageDriver) -> None:
    chat.ask("Already something here")
    before = chat.session_id
    chat.test_id("new-session").click()
    expect(chat.messages()).to_have_count(0)
    expect(chat.test_id("composer")).to_be_focused()
    assert chat.session_id != before
    again = chat.session_id
    chat.test_id("new-session").click()
    chat.page.wait_for_timeout(200)
    assert chat.session_id == again, "an empty chat is used before another one is made"


def test_what_is_typed_while_a_new_chat_opens_goes_there(chat: PageDriver, server: PageServer) -> None:
    chat.ask("The old chat")
    old = chat.session_id
    chat.page.keyboard.press("Control+k")
    chat.page.keyboard.type("For the new one")
    chat.page.keyboard.press("Enter")
    expect(chat.messages("user")).to_have_text("For the new one")
    assert chat.session_id != old
    opened = server.do(server.service.open(old))
    assert [one["content"] for one in opened["messages"] if one["role"] == "user"] == ["The old chat"]


def test_the_address_names_the_chat_and_back_goes_back(chat: PageDriver) -> None:
    chat.ask("first chat")
    first = chat.session_id
    chat.new_chat()
    chat.ask("second chat")
    assert chat.session_id != first
    chat.page.go_back()
    expect(chat.messages("user")).to_have_text("first chat")
    assert chat.session_id == first


def test_the_page_without_an_address_shows_the_chat_shown_last(
    chat: PageDriver, open_page: Callable[..., PageDriver]
) -> None:
    chat.ask("older chat")
    older = chat.session_id
    chat.new_chat()
    chat.ask("newer chat")
    chat.open_chat(older)
    chat.page.wait_for_timeout(200)
    other = open_page()
    expect(other.messages("user")).to_have_text("older chat")
    assert other.session_id == older


def test_an_address_of_a_chat_that_is_gone_says_so(open_page: Callable[..., PageDriver]) -> None:
    page = open_page("?session=nothing-like-this")
    expect(page.page.locator(".toast")).to_contain_text("does not exist")
    expect(page.test_id("composer")).to_be_enabled()


def test_drafts_are_kept_for_each_chat(chat: PageDriver) -> None:
    chat.ask("one")
    first = chat.session_id
    chat.test_id("composer").fill("half a thought")
    chat.new_chat()
    expect(chat.test_id("composer")).to_have_value("")
    chat.ask("two")
    chat.open_chat(first)
    expect(chat.test_id("composer")).to_have_value("half a thought")
    chat.page.reload()
    expect(chat.test_id("composer")).to_have_value("half a thought")


def test_search_filters_the_list_by_title(chat: PageDriver) -> None:
    chat.ask("A zebra in the garden")
    chat.page.get_by_role("searchbox").fill("ZEBRA")
    expect(chat.test_id("session-item")).to_have_count(1)
    chat.page.get_by_role("searchbox").fill("no such title")
    expect(chat.test_id("session-item")).to_have_count(0)


def test_a_running_chat_is_marked_in_the_list(chat: PageDriver, server: PageServer) -> None:
    server.client.gate = gate = asyncio.Event()
    chat.send("Mark me")
    running = chat.session_id
    expect(chat.row(running).locator(".live")).to_be_visible()
    chat.new_chat()
    expect(chat.row(running).locator(".live")).to_be_visible()
    server.call(gate.set)
    chat.open_chat(running)
    chat.wait_done()
    expect(chat.row(running).locator(".live")).to_have_count(0)


def test_the_system_prompt_field_shows_the_templates_own(chat: PageDriver, server: PageServer) -> None:
    server.call(set_default, server, "You are a test.")
    try:
        chat.page.reload()
        expect(chat.page.locator("button.system")).to_contain_text("You are a test.")
        dialog = open_settings(chat)
        expect(dialog.get_by_label("System prompt")).to_have_value("You are a test.")
        chat.page.keyboard.press("Escape")
        expect(dialog).not_to_be_visible()
        assert stored(server, chat.session_id)["system_prompt"] is None
    finally:
        server.call(set_default, server, None)


def set_default(server: PageServer, prompt: str | None) -> None:
    server.client._info["default_system_prompt"] = prompt
    server.client.set_status("ready")


def test_an_own_system_prompt_is_sent_and_an_empty_one_is_a_real_empty_turn(
    chat: PageDriver, server: PageServer
) -> None:
    dialog = open_settings(chat)
    dialog.get_by_label("System prompt").fill("Answer in Latin.")
    dialog.get_by_role("button", name="Close").click()
    expect(chat.page.locator("button.system")).to_contain_text("Answer in Latin.")
    chat.ask("Salve")
    messages = server.client.requests[-1].messages or []
    assert (messages[0]["role"], messages[0]["content"]) == ("system", "Answer in Latin.")
    dialog = open_settings(chat)
    expect(dialog.get_by_label("System prompt")).to_have_value("Answer in Latin.")
    dialog.get_by_label("System prompt").fill("")
    dialog.get_by_role("button", name="Close").click()
    expect(chat.page.locator("button.system")).to_contain_text("empty")
    chat.ask("Vale")
    messages = server.client.requests[-1].messages or []
    assert (messages[0]["role"], messages[0]["content"]) == ("system", "")


def test_sampling_is_kept_for_each_chat_and_given_back_to_the_model(chat: PageDriver, server: PageServer) -> None:
    dialog = open_settings(chat)
    dialog.get_by_role("spinbutton", name="Temperature").fill("1.25")
    dialog.get_by_label("Reply limit").fill("77")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).not_to_be_visible()
    chat.ask("Warm")
    params = server.client.requests[-1].params
    assert (params.temperature, params.max_tokens) == (1.25, 77)
    first = chat.session_id
    chat.new_chat()
    chat.ask("Cool")
    assert server.client.requests[-1].params.temperature == 0.2
    chat.open_chat(first)
    dialog = open_settings(chat)
    expect(dialog.get_by_role("spinbutton", name="Temperature")).to_have_value("1.25")
    dialog.get_by_role("button", name="Use the model's own").click()
    expect(dialog.get_by_role("spinbutton", name="Temperature")).to_have_value("0.2")
    chat.page.keyboard.press("Escape")
    assert stored(server, first)["own_params"] == {}


def test_of_a_long_list_only_what_is_in_view_is_drawn(open_page: Callable[..., PageDriver], server: PageServer) -> None:
    async def many() -> list[str]:
        return [(await server.service.create_session())["id"] for _ in range(400)]

    made = server.do(many())
    try:
        page = open_page()
        page.page.wait_for_function("window.pagedchat.page.sidebar.sessions.size >= 400")
        assert page.test_id("session-item").count() <= 60
        page.page.locator(".list").evaluate("(list) => list.scrollTo(0, list.scrollHeight)")
        page.page.wait_for_timeout(100)
        last = page.page.evaluate("window.pagedchat.page.sidebar.window.rows.at(-1).key")
        expect(page.row(last)).to_be_in_viewport()
        assert page.test_id("session-item").count() <= 60
        page.page.evaluate("""window.kept = document.querySelector('.canvas').lastChild""")
        server.do(server.service.rename(made[0], "Only this line changes"))
        page.page.wait_for_function(
            "(id) => window.pagedchat.page.sidebar.sessions.get(id).title.startsWith('Only')", arg=made[0]
        )
        assert page.page.evaluate("window.kept.isConnected"), "the other lines keep their elements"
        page.page.close()  # it would open chat after chat as each one goes
    finally:

        async def clear() -> None:
            for one in made:
                await server.service.delete(one)

        server.do(clear())


def test_a_setting_that_does_not_fit_is_said_with_its_reason_and_never_called_saved(
    chat: PageDriver, server: PageServer
) -> None:
    dialog = open_settings(chat)
    words, limit = dialog.locator(".set-saved"), dialog.get_by_label("Reply limit")
    limit.fill("0")
    expect(words).to_have_text("Reply limit must be at least 1: 0 is not saved.")
    dialog.get_by_role("spinbutton", name="Min-p").fill("0.2")
    chat.page.wait_for_timeout(800)
    expect(words).to_have_text("Reply limit must be at least 1: 0 is not saved.")
    limit.fill("50")
    expect(words).to_have_text("Saved")
    box = dialog.get_by_role("spinbutton", name="Temperature")
    box.fill("9")
    expect(words).to_have_text("Temperature goes from 0 to 2: 9 is not saved.")
    box.press("Tab")
    expect(words).to_have_text("Temperature goes from 0 to 2: 9 became 2.")
    chat.page.wait_for_timeout(800)
    expect(words).to_have_text("Temperature goes from 0 to 2: 9 became 2.")
    assert stored(server, chat.session_id)["own_params"] == {"min_p": 0.2, "max_tokens": 50, "temperature": 2}
    chat.page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    expect(open_settings(chat).locator(".set-saved")).to_have_text("")
    chat.page.keyboard.press("Escape")
    chat.ask("These settings are this chat's alone")
