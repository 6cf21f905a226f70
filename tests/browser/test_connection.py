"""What the page shows and keeps when the engine or the server is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from pagedchat.engine.errors import RequestError
from pagedchat.sessions.errors import StoreError
from pagedchat.sessions.store import SessionStore
from support.page_driver import PageDriver
from support.page_server import PageServer
from support.paged_client import PagedFakeClient


@pytest.fixture
def ready_again(server: PageServer) -> Iterator[PageServer]:
    yield server
    server.call(server.client.set_status, "ready")


def test_a_lost_connection_is_said_and_nothing_is_lost(context: BrowserContext, tmp_path: Path) -> None:
    client = PagedFakeClient(("A reply",))
    with PageServer(tmp_path, client) as server:
        chat = PageDriver(context.new_page(), server.url).goto()
        chat.new_chat()
        chat.ask("Before the restart")
        before = chat.texts()
        port = server.port
        chat.test_id("composer").fill("Written meanwhile")
    expect(chat.page.locator("#pc-banner")).to_contain_text("No connection")
    chat.test_id("send").click()
    expect(chat.page.locator(".box .problem")).to_contain_text("kept")
    expect(chat.test_id("composer")).to_have_value("Written meanwhile")
    with PageServer(tmp_path, PagedFakeClient(("Another reply",)), port):
        expect(chat.page.locator("#pc-banner")).to_be_hidden()
        assert chat.texts() == before
        expect(chat.test_id("composer")).to_have_value("Written meanwhile")
        chat.test_id("send").click()
        expect(chat.messages()).to_have_count(4)
        chat.wait_done()
        assert chat.texts() == [*before, "Written meanwhile", "Another reply"]
        chat.page.close()
    assert chat.errors == []


def test_b43_a_page_left_open_over_a_restart_goes_on_from_where_the_chat_is_now(
    context: BrowserContext, tmp_path: Path
) -> None:
    with PageServer(tmp_path, PagedFakeClient(("one",))) as server:
        chat = PageDriver(context.new_page(), server.url).goto()
        chat.new_chat()
        chat.ask("first")
        port, session_id = server.port, chat.session_id
        chat.test_id("composer").fill("typed before the restart")
    expect(chat.page.locator("#pc-banner")).to_contain_text("No connection")
    store = SessionStore(tmp_path / "sessions.db")
    head = store.session(session_id).head_id
    for text in ("second", "third"):
        reply = store.add_question(session_id, head, text)[2]
        head = store.finish_reply(reply.id, f"re: {text}", "done")[0].id
    store.close()
    with PageServer(tmp_path, PagedFakeClient(("last",)), port) as server:
        expect(chat.messages()).to_have_count(6)
        expect(chat.test_id("composer")).to_have_value("typed before the restart")
        chat.test_id("send").click()
        expect(chat.messages()).to_have_count(8)
        chat.wait_done()
        expected = ["first", "one", "second", "re: second", "third", "re: third", "typed before the restart", "last"]
        assert chat.texts() == expected
        stored = server.do(server.service.open(session_id))["messages"]
        assert [one["content"] for one in stored] == expected
        chat.page.close()
    assert chat.errors == []


def test_a_page_that_sends_below_an_old_reply_makes_a_branch_and_loses_nothing(
    chat: PageDriver, server: PageServer
) -> None:
    chat.ask("first")
    chat.ask("second")
    chat.page.evaluate("() => { const { chat } = window.pagedchat.page; chat.ids = chat.ids.slice(0, 2); }")
    chat.test_id("composer").fill("from an old place")
    chat.test_id("send").click()
    expect(chat.page.get_by_text("2/2", exact=True)).to_be_visible()
    chat.wait_done()
    assert chat.texts() == ["first", "Hello!", "from an old place", "Hello!"]
    chat.action(chat.messages("user").last, "sibling-prev")
    expect(chat.messages("user").last).to_contain_text("second")
    assert server.do(server.service.open(chat.session_id))["messages"][2]["content"] == "second"


def test_a_reply_cut_off_by_a_restart_is_marked_and_can_go_on(context: BrowserContext, tmp_path: Path) -> None:
    client = PagedFakeClient(("word " * 200,), delay_s=0.01)
    with PageServer(tmp_path, client) as server:
        chat = PageDriver(context.new_page(), server.url).goto()
        chat.new_chat()
        chat.send("A long one")
        expect(chat.messages("assistant")).to_contain_text("word word")
        port = server.port
    with PageServer(tmp_path, PagedFakeClient((" and on.",)), port):
        reply = chat.messages("assistant")
        expect(reply).to_have_attribute("data-status", "interrupted")
        expect(reply).to_contain_text("word word")
        expect(chat.test_id("stop")).to_have_count(0)
        reply.get_by_test_id("continue").click()
        expect(reply).to_contain_text("and on.")
        chat.page.close()


@pytest.mark.parametrize("length", [3_000, 250_000, 4 << 20])
def test_a_message_longer_than_the_context_stays_in_the_composer(chat: PageDriver, length: int) -> None:
    chat.ask("Before")
    before, too_long = chat.texts(), "x" * length
    composer, problem = chat.test_id("composer"), chat.page.locator(".box .problem")
    composer.evaluate("(field, text) => { field.value = text; field.dispatchEvent(new Event('input')); }", too_long)
    chat.test_id("send").click()
    expect(problem).to_contain_text("horten")
    expect(problem).to_contain_text(f"{length:,}"[0] if length < 4 << 20 else "4 MiB")
    assert composer.input_value() == too_long
    assert chat.texts() == before
    session_id = chat.session_id
    chat.new_chat()
    assert composer.input_value() == ""
    chat.open_chat(session_id)
    assert composer.input_value() == too_long, "the draft waits in its chat"
    composer.fill("Shorter")
    chat.test_id("send").click()
    expect(chat.messages("user")).to_have_count(2)
    chat.wait_done()
    assert chat.texts() == [*before, "Shorter", "Hello!"]


def test_a_first_message_longer_than_the_context_leaves_no_chat_behind(
    open_page: Callable[..., PageDriver], server: PageServer
) -> None:
    chat = open_page("?session=")
    known = server.do(server.service.list_sessions())
    chat.test_id("composer").fill("y" * 3_000)
    chat.test_id("send").click()
    expect(chat.page.locator(".box .problem")).to_contain_text("3,003 tokens, but the context holds 2,048")
    assert server.do(server.service.list_sessions()) == known
    chat.page.reload()
    chat.page.wait_for_function("window.pagedchat?.page?.entered")
    chat.new_chat()
    assert chat.test_id("composer").input_value() == "y" * 3_000
    chat.test_id("composer").fill("")


def test_an_edit_longer_than_the_context_stays_in_the_editor(chat: PageDriver) -> None:
    chat.ask("Short")
    before = chat.texts()
    chat.action(chat.messages("user"), "edit")
    chat.test_id("edit-field").fill("z" * 3_000)
    chat.test_id("edit-save").click()
    expect(chat.page.locator(".editor .problem")).to_contain_text("2,048")
    expect(chat.test_id("edit-field")).to_have_value("z" * 3_000)
    chat.page.keyboard.press("Escape")
    assert chat.texts() == before


def test_a_refused_message_keeps_its_text_in_the_chat(chat: PageDriver, server: PageServer) -> None:
    server.client.refuse = RequestError("The prompt has 9,999 tokens, but the context holds 2,048 with the reply.")
    chat.send("Much too long")
    reply = chat.messages("assistant").last
    expect(reply).to_have_attribute("data-status", "error")
    expect(reply).to_contain_text("The prompt has 9,999 tokens")
    expect(chat.messages("user").last).to_contain_text("Much too long")
    reply.get_by_role("button", name="Try again").click()
    expect(chat.messages("assistant").last).to_have_attribute("data-status", "done")


def test_a_failed_send_keeps_the_text_in_the_composer(chat: PageDriver, server: PageServer) -> None:
    chat.ask("First")
    original = server.service.send

    async def failing(*_args: object) -> dict:
        raise RequestError("The disk is full; free some space.")

    server.service.send = failing  # type: ignore[method-assign]
    try:
        chat.test_id("composer").fill("Precious words")
        chat.test_id("send").click()
        expect(chat.page.locator(".box .problem")).to_have_text("The disk is full; free some space.")
        expect(chat.test_id("composer")).to_have_value("Precious words")
    finally:
        server.service.send = original  # type: ignore[method-assign]
    chat.test_id("send").click()
    expect(chat.messages("user")).to_have_count(2)
    expect(chat.test_id("composer")).to_have_value("")


def test_a_reply_that_cannot_be_saved_says_so_until_it_is(
    chat: PageDriver, server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StoreError("The disk that holds sessions.db is full; free some space.", "full")

    chat.ask("Before the disk is full")
    for name in ("save_partial", "finish_reply"):
        monkeypatch.setattr(server.service.store, name, full)
    chat.send("While it is full")
    note = chat.messages("assistant").last.locator(".note")
    expect(note).to_contain_text("Not saved yet: The disk that holds sessions.db is full")
    expect(chat.messages("assistant").last.locator(".body")).to_have_text("Hello!")
    monkeypatch.undo()
    expect(note).to_be_hidden()
    chat.wait_done()


def test_fetching_and_loading_are_shown_with_true_progress(chat: PageDriver, ready_again: PageServer) -> None:
    server, banner = ready_again, chat.page.locator("#pc-banner")
    server.call(server.client.set_fetching, 0.43, "43 of 98 MB.")
    expect(banner).to_contain_text("Fetching the model · 43 %")
    expect(banner).to_contain_text("43 of 98 MB.")
    expect(banner.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "43")
    server.call(server.client.set_status, "loading", None, "Loading the model.")
    expect(banner).to_have_text("Loading the model")
    expect(chat.page.locator("button.system")).to_contain_text("the model's own")
    chat.send("Asked while it loads")
    reply = chat.messages("assistant").last
    expect(reply).to_have_attribute("data-status", "streaming")
    server.call(server.client.set_status, "ready")
    expect(banner).to_be_hidden()
    expect(reply).to_have_attribute("data-status", "done")


def test_a_failed_engine_says_why(chat: PageDriver, ready_again: PageServer) -> None:
    ready_again.call(ready_again.client.set_failed, "The model file is cut; fetch it again.")
    expect(chat.page.locator("#pc-banner")).to_contain_text("The model file is cut; fetch it again.")


def test_a_dying_engine_interrupts_the_reply_and_says_so(
    chat: PageDriver, ready_again: PageServer, open_page: Callable[..., PageDriver]
) -> None:
    server = ready_again
    server.client.replies, server.client.delay_s = ("word " * 100,), 0.01
    chat.send("Until it dies")
    reply = chat.messages("assistant").last
    expect(reply).to_contain_text("word word")
    server.call(server.client.die, "The engine stopped: out of memory.")
    expect(reply).to_have_attribute("data-status", "interrupted")
    expect(reply).to_contain_text("out of memory")
    expect(chat.page.locator("#pc-banner")).to_contain_text("Starting the engine again")
    server.call(server.client.set_status, "ready")
    expect(chat.page.locator("#pc-banner")).to_be_hidden()


def test_what_was_live_is_marked_while_there_is_no_connection_and_old_events_go_with_their_engine(
    context: BrowserContext, tmp_path: Path
) -> None:
    client = PagedFakeClient(("word " * 200,), delay_s=0.02)
    with PageServer(tmp_path, client) as server:
        chat = PageDriver(context.new_page(), server.url).goto()
        panel, lamp = chat.page.locator("#pc-kv"), chat.page.locator("#pc-kv .lamp")
        load = panel.locator(".gauges div").filter(has_text="running").locator("b")
        chat.new_chat()
        chat.panel_tab("events")
        chat.send("A long one")
        expect(chat.page.locator(".item .live span")).to_contain_text("tok/s")
        expect(load).to_have_text("1 / 0")
        expect(panel.locator(".event .seq").first).to_be_visible()
        port = server.port
    expect(lamp).to_have_text("not live")
    expect(load).to_have_text("–")
    expect(panel).to_have_class("kv stale")
    expect(chat.page.locator(".item .live")).to_be_hidden()
    with PageServer(tmp_path, PagedFakeClient(("Short",)), port):
        expect(lamp).to_have_text("conserved")
        expect(panel).to_have_class("kv")
        expect(panel.locator(".event .seq")).to_have_count(0)
        chat.ask("Again")
        expect(panel.locator(".event .seq").last).to_have_text("1")
        chat.page.close()


def test_an_engine_that_begins_anew_clears_the_events_of_the_last_one(
    chat: PageDriver, ready_again: PageServer
) -> None:
    chat.ask("Before")
    rows = chat.panel_tab("events").locator(".seq")
    expect(rows.first).to_be_visible()
    chat.page.evaluate(
        """() => { const { panel } = window.pagedchat.page;
            panel.feed.takeEvents([{ seq: panel.model.seq, type: "reset", blocks: [], ref_counts: [],
                states: "", num_tokens: null, owner: null }]); }"""
    )
    expect(rows).to_have_count(0)
    ready_again.call(ready_again.client.set_status, "restarting", None, "The engine stopped.")
    expect(chat.page.locator("#pc-kv .lamp")).to_have_text("not live")
    ready_again.call(ready_again.client.set_status, "ready")
    expect(chat.page.locator("#pc-kv .lamp")).to_have_text("conserved")
