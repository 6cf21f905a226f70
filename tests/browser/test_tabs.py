"""Several pages on the same chats: replies stay in their own chat, nothing stale overwrites, and all are in step."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, expect

from pagedchat.sessions.store import SessionStore
from support.page_driver import PageDriver
from support.page_server import PageServer
from support.paged_client import PagedFakeClient

TRIALS = int(os.environ.get("PAGEDCHAT_TRIALS", "5"))


def echo(request: object) -> str:
    """A long reply that names its question."""
    return (request.messages[-1]["content"] + " ") * 25  # type: ignore[attr-defined]


def test_b42_replies_of_two_chats_stay_in_their_own_while_the_reader_switches(
    same_page: PageDriver, server: PageServer
) -> None:
    chat = same_page
    server.client.replies, server.client.delay_s = echo, 0.2
    chat.send("alpha")
    first = chat.session_id
    second = chat.new_chat()
    chat.send("beta")
    for _ in range(TRIALS):
        for shown in (first, second):
            chat.open_chat(shown)
            assert chat.session_id == shown
    server.do(server.service.rename(first, "Renamed meanwhile"))
    expect(chat.row(first)).to_contain_text("Renamed meanwhile")
    assert chat.session_id == second, "the selection does not jump"
    assert len(server.service.core.jobs) == 2, "both are still being written"
    server.client.delay_s = 0.0
    for session_id, word in ((first, "alpha"), (second, "beta")):
        chat.open_chat(session_id)
        chat.wait_done()
        expected = [word, (f"{word} " * 25).strip()]
        assert chat.texts() == expected
        stored = server.do(server.service.open(session_id))["messages"]
        assert [one["content"].strip() for one in stored] == expected


def test_the_list_does_not_move_under_the_pointer(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    first, second = [server.do(server.service.create_session())["id"] for _ in range(2)]
    chat.ask("Written last")
    order = "() => window.pagedchat.page.sidebar.window.rows.map((row) => row.key)"
    chat.row(second).hover()
    before = chat.page.evaluate(order)
    server.do(server.service.send(first, None, "now the newest"))
    chat.page.wait_for_function(
        "(id) => window.pagedchat.page.sidebar.sessions.get(id).title.startsWith('now')", arg=first
    )
    expect(chat.row(first)).to_contain_text("now the newest")
    assert chat.page.evaluate(order) == before
    chat.page.mouse.move(700, 400)
    assert chat.page.evaluate(order) != before


def test_b43_a_page_that_slept_loses_nothing_of_what_another_wrote(
    same_page: PageDriver, open_page: Callable[..., PageDriver], server: PageServer
) -> None:
    chat = same_page
    chat.ask("one")
    other = open_page("?session=" + chat.session_id)
    expect(other.messages()).to_have_count(2)
    other.page.evaluate("() => { window.pagedchat.page.socket.socket.onmessage = () => {}; }")
    chat.front()
    for text in ("two", "three", "four", "five"):
        chat.ask(text)
    other.front().test_id("composer").fill("from the page that slept")
    other.test_id("send").click()
    expect(chat.messages().nth(2)).to_contain_text("from the page that slept")  # which hears no answer
    other.page.reload()
    expect(other.messages()).to_have_count(4)
    other.wait_done()
    assert other.texts()[2] == "from the page that slept", "it became a branch where that page was"
    assert other.session_id == chat.session_id
    other.action(other.messages("user").last, "sibling-prev")
    expect(other.messages()).to_have_count(10)
    assert [one for one in other.texts() if one != "Hello!"] == ["one", "two", "three", "four", "five"]


def test_a_stale_change_is_refused_with_a_sentence_and_the_chat_is_shown_as_it_is(
    same_page: PageDriver, server: PageServer
) -> None:
    chat = same_page
    chat.ask("Version one")
    shown = chat.session_id
    server.do(server.service.rename(shown, "Named elsewhere"))
    expect(chat.row(shown)).to_contain_text("Named elsewhere")
    chat.page.evaluate("(id) => { window.pagedchat.page.sidebar.sessions.get(id).version -= 1; }", shown)
    chat.chat_menu(shown, "rename")
    chat.row(shown).get_by_role("textbox").fill("Named here")
    chat.page.keyboard.press("Enter")
    expect(chat.page.locator(".toast.danger")).to_contain_text("changed in another window")
    expect(chat.page.locator("#pc-title")).to_have_text("Named elsewhere")
    chat.chat_menu(shown, "rename")
    chat.row(shown).get_by_role("textbox").fill("Named here")
    chat.page.keyboard.press("Enter")
    expect(chat.page.locator("#pc-title")).to_have_text("Named here")


def test_a_temporary_chat_is_marked_asks_before_it_is_left_and_is_gone(
    same_page: PageDriver, server: PageServer, open_page: Callable[..., PageDriver]
) -> None:
    chat = same_page
    chat.ask("A chat that is kept")
    kept = chat.session_id
    chat.test_id("new-temporary").click()
    expect(chat.test_id("notice")).to_contain_text("Temporary chat")
    chat.ask("Nobody will know")
    gone = chat.session_id
    expect(chat.row(gone)).to_have_count(0)
    assert chat.page.evaluate("JSON.stringify(localStorage).includes('Nobody')") is False
    chat.test_id("composer").fill("Nobody shall read this")
    second = open_page("?session=" + gone)
    expect(second.test_id("composer")).to_have_value("Nobody shall read this")
    second.page.goto(second.url + "/?session=" + kept)
    expect(second.messages("user")).to_have_text("A chat that is kept")
    chat.front().test_id("composer").fill("Nobody but me")
    chat.page.wait_for_function("() => window.pagedchat.page.composer.drafts.known.values().every((one) => !one.dirty)")
    for one in (chat, second):
        assert one.page.evaluate("JSON.stringify(localStorage).includes('Nobody')") is False
    chat.row(kept).click()
    chat.page.keyboard.press("Escape")
    assert chat.session_id == gone, "the answer was no"
    chat.row(kept).click()
    chat.test_id("confirm").click()
    expect(chat.messages("user")).to_have_text("A chat that is kept")
    expect(chat.test_id("notice")).to_be_hidden()
    server.do(server.service.list_sessions())
    chat.page.wait_for_function("(id) => !window.pagedchat.page.sidebar.sessions.has(id)", arg=gone)
    other = open_page("?session=" + gone)
    expect(other.page.locator(".toast")).to_contain_text("does not exist")


def test_settings_changed_in_one_page_show_in_the_open_dialog_of_another(
    same_page: PageDriver, open_page: Callable[..., PageDriver], server: PageServer
) -> None:
    chat = same_page
    chat.ask("Settings for two")
    shown = chat.session_id
    chat.page.get_by_role("button", name="Settings", exact=True).first.click()
    dialog = chat.page.get_by_role("dialog")
    dialog.get_by_label("Reply limit").fill("99")
    expect(dialog.locator(".set-saved")).to_have_text("Saved")
    server.do(server.service.update_settings(shown, params={"seed": 7}))
    expect(dialog.get_by_label("Seed")).to_have_value("7")
    dialog.get_by_label("Reply limit").fill("98")
    expect(dialog.locator(".set-saved")).to_have_text("Saved")
    chat.page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    own = server.do(server.service.open(shown))["session"]["own_params"]
    assert own == {"max_tokens": 98, "seed": 7}


def test_a_draft_shows_in_another_page_but_never_over_what_is_typed_there(
    same_page: PageDriver, chromium: Browser, server: PageServer
) -> None:
    chat = same_page
    chat.ask("Drafts for two")
    elsewhere = chromium.new_context()  # another browser: nothing is shared but the server
    other = PageDriver(elsewhere.new_page(), server.url).goto("?session=" + chat.session_id)
    mine, theirs = chat.test_id("composer"), other.test_id("composer")
    other.page.evaluate("document.activeElement.blur()")
    chat.front()
    mine.fill("half a thought")
    expect(theirs).to_have_value("half a thought")
    other.front()
    theirs.fill("quite another one")
    expect(chat.test_id("other-draft")).to_contain_text("quite another one")
    expect(mine).to_have_value("half a thought")
    mine.press("End")
    mine.type(", longer")
    expect(other.test_id("other-draft")).to_contain_text("half a thought, longer")
    expect(theirs).to_have_value("quite another one")
    other.test_id("other-draft").get_by_role("button", name="Use it").click()
    expect(theirs).to_have_value("half a thought, longer")
    theirs.press("Enter")
    expect(other.messages("user")).to_have_count(2)
    elsewhere.close()


def test_a_draft_outlives_a_killed_server_and_its_browser(
    chromium: Browser, context: BrowserContext, tmp_path: Path
) -> None:
    with PageServer(tmp_path, PagedFakeClient(("one",))) as server:
        chat = PageDriver(context.new_page(), server.url).goto()
        chat.new_chat()
        chat.test_id("composer").fill("not sent yet")
        chat.page.wait_for_function(
            "() => window.pagedchat.page.composer.drafts.known.values().every((one) => !one.dirty)"
        )
        session_id = chat.session_id
        chat.page.close()
        (tmp_path / "copy").mkdir()
        for file in tmp_path.glob("sessions.db*"):  # what a kill at this moment leaves behind
            (tmp_path / "copy" / file.name).write_bytes(file.read_bytes())
    store = SessionStore(tmp_path / "copy" / "sessions.db")
    assert store.drafts.draft(session_id).text == "not sent yet"
    store.close()
    with PageServer(tmp_path / "copy", PagedFakeClient(("one",))) as server:
        elsewhere = chromium.new_context()
        again = PageDriver(elsewhere.new_page(), server.url).goto("?session=" + session_id)
        expect(again.test_id("composer")).to_have_value("not sent yet")
        elsewhere.close()
