"""Writing in a real browser: messages that wait, files, commands, the bar of the context, edits that were left."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from playwright.sync_api import expect

from support.page_driver import PageDriver
from support.page_server import PageServer

DROP = """([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name, { type: 'text/plain' }));
  const main = document.querySelector('#pc .main');
  main.dispatchEvent(new DragEvent('dragenter', { dataTransfer: data, bubbles: true }));
  const shown = !document.querySelector('[data-testid=drop]').hidden;
  main.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
  return shown;
}"""

LOOK = """(hidden) => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


def test_a_page_that_nobody_looks_at_asks_nothing_of_the_engine(same_page: PageDriver, server: PageServer) -> None:
    page, asked, probe = same_page, [], server.client.probe
    server.client.replies = ("Hello!",)
    page.ask("First")
    expect(page.test_id("context-bar")).to_have_attribute("aria-label", re.compile("^Context of"))

    async def counted(**question: Any) -> Any:
        if "salt" in question:  # a page's; that of a message which is sent has none
            asked.append(question["messages"][-1]["content"])
        return await probe(**question)

    server.client.probe = counted
    try:
        page.page.evaluate(LOOK, True)
        page.ask("Second")
        page.test_id("composer").fill("not yet")
        page.page.evaluate("new Promise((done) => setTimeout(done, 400))")  # after what the page would do later
        page.test_id("composer").fill("and now?")
        page.page.evaluate(LOOK, False)
        expect(page.page.locator("#pc-context")).to_contain_text("If you send this now")
        assert asked == ["and now?"]
    finally:
        server.client.probe = probe
        page.page.evaluate(LOOK, False)
        page.test_id("composer").fill("")


def test_messages_wait_under_a_reply_and_are_sent_in_their_order(same_page: PageDriver, server: PageServer) -> None:
    page, field = same_page, same_page.test_id("composer")
    server.client.replies, server.client.gate = ("Hello!",), asyncio.Event()
    page.send("First")
    queued = page.test_id("queued")
    for number, text in enumerate(("Second", "Third", "Fourth", "Fifth"), 1):
        field.fill(text)
        expect(page.test_id("queue")).to_be_visible()
        expect(page.test_id("stop")).to_have_count(1)
        field.press("Enter")
        expect(queued).to_have_count(number)
        expect(field).to_have_value("")
    queued.nth(3).get_by_test_id("queued-up").click()
    expect(queued.nth(2)).to_contain_text("Fifth")
    queued.nth(0).get_by_test_id("queued-remove").click()
    expect(queued).to_have_count(3)
    page.undo()
    expect(queued.first).to_contain_text("Second")
    field.fill("typed meanwhile")
    queued.nth(1).get_by_test_id("queued-edit").click()
    expect(field).to_have_value("Third\n\ntyped meanwhile")
    expect(field).to_be_focused()
    page.page.reload()
    expect(queued).to_have_count(3)
    server.call(server.client.gate.set)
    expect(page.messages("user")).to_have_count(4)
    page.wait_done()
    expect(queued).to_have_count(0)
    assert page.texts()[::2] == ["First", "Second", "Fifth", "Fourth"]
    expect(field).to_have_value("Third\n\ntyped meanwhile")
    field.fill("")


def test_after_a_stop_a_waiting_message_is_held_until_its_reader_sends_it(
    same_page: PageDriver, server: PageServer
) -> None:
    page = same_page
    server.client.replies, server.client.delay_s = ("Some words, one by one. " * 9, "Well."), 0.02
    server.client._served = 0
    page.send("Go on")
    expect(page.messages("assistant").last).to_contain_text("Some")
    page.test_id("composer").fill("And then?")
    page.test_id("queue").click()
    page.test_id("stop").click()
    held = page.test_id("queued")
    expect(held).to_contain_text("Held. The reply above was stopped.")
    expect(page.messages("user")).to_have_count(1)
    server.client.delay_s = 0.0
    page.regenerate(page.messages("assistant").last, "2/2")
    expect(page.test_id("waiting-elsewhere")).to_contain_text("1 message waits in another branch.")
    page.test_id("waiting-elsewhere").get_by_role("button", name="Show").click()
    held.get_by_test_id("send-now").click()
    expect(page.messages("user")).to_have_count(2)
    page.wait_done()
    assert page.texts()[2:] == ["And then?", "Well."]


def test_files_come_by_drop_paste_and_button_and_stay_until_they_are_sent(
    same_page: PageDriver, server: PageServer
) -> None:
    page, chips, field = same_page, same_page.test_id("file-chip"), same_page.test_id("composer")
    assert page.page.evaluate(DROP, ["notes.txt", "The boat is called Marla."])
    expect(page.test_id("drop")).to_be_hidden()
    expect(chips.first).to_have_attribute("data-state", "ready")
    page.test_id("file-input").set_input_files(
        [{"name": "photo.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n\x1a\n" + bytes(30)}]
    )
    expect(chips.nth(1)).to_have_attribute("data-state", "refused")
    long = "A line of text.\n" * 60
    page.paste(long)
    expect(chips.nth(2)).to_contain_text("Pasted text.txt")
    expect(field).to_have_value("")
    chips.nth(2).get_by_role("button", name="Put it into the message instead").click()
    expect(field).to_have_value(long)
    expect(chips).to_have_count(2)
    field.fill("What is it called?")
    expect(chips.first).to_contain_text("whole (")
    page.page.reload()
    expect(chips).to_have_count(2)
    expect(field).to_have_value("What is it called?")
    field.press("Enter")
    page.wait_done()
    expect(chips).to_have_count(0)
    assert "Marla" in str(server.client.requests[-1].messages)
    page.page.reload()
    expect(page.messages("user")).to_have_count(1)
    expect(chips).to_have_count(0)  # a refused one does not come back


def test_commands_are_found_run_and_never_sent_by_mistake(same_page: PageDriver, server: PageServer) -> None:
    page, field, menu = same_page, same_page.test_id("composer"), same_page.test_id("commands")
    page.ask("Hello")
    field.fill("/re")
    expect(menu.get_by_role("option")).to_have_count(2)
    field.press("ArrowDown")
    expect(menu.get_by_role("option", selected=True)).to_contain_text("/rename")
    field.press("Tab")
    expect(field).to_have_value("/rename ")
    expect(menu).to_be_hidden()
    field.press_sequentially("Boats")
    field.press("Enter")
    expect(page.page.locator("#pc-title")).to_have_text("Boats")
    expect(field).to_have_value("")
    field.fill("/system Be brief.")
    field.press("Enter")
    expect(page.page.locator("#pc .system")).to_contain_text("Be brief.")
    field.fill("/nonsense now")
    field.press("Enter")
    problem = page.page.locator(".box .problem")
    expect(problem).to_contain_text("There is no command /nonsense.")
    assert page.messages("user").count() == 1
    problem.get_by_role("button", name="Send it as text").click()
    expect(page.messages("user").last).to_contain_text("/nonsense now")
    page.wait_done()
    page.ask("//etc is a folder")
    assert page.texts()[-2] == "/etc is a folder"
    field.fill("/")
    field.press("Escape")
    expect(menu).to_be_hidden()
    expect(field).to_have_value("/")
    field.fill("")


def test_the_bar_tells_the_context_and_keeps_the_composer_in_place(same_page: PageDriver, server: PageServer) -> None:
    page, field = same_page, same_page.test_id("composer")
    page.ask("A first question for the bar")
    height = page.page.locator("#pc .box").bounding_box()["height"]  # type: ignore[index]
    field.fill("And a second one")
    expect(page.page.locator(".probe .cost")).to_contain_text("If you send this now")
    expect(page.test_id("typed-tokens")).to_have_text("16 tokens typed")
    bar = page.test_id("context-bar")
    label = bar.get_attribute("aria-label") or ""
    assert "cached" in label and "for the reply" in label
    left = re.search(r"[\d,]+ tokens left", page.page.locator(".probe .cost").inner_text())
    assert left and f" {left.group().replace(' tokens', '')}, up to " in label, "one number of tokens that are left"
    assert bar.locator(".cached").evaluate("(part) => part.offsetWidth") > 0
    assert page.page.locator("#pc .box").bounding_box()["height"] == height  # type: ignore[index]
    field.fill("x\n" * 60)
    assert field.evaluate(
        "(field) => field.offsetHeight <= innerHeight / 3 + 2 && field.scrollHeight > field.offsetHeight"
    )
    field.fill("")


def test_an_edit_that_was_left_is_offered_again(same_page: PageDriver, server: PageServer) -> None:
    page = same_page
    page.ask("A question")
    message = page.messages("user").first
    page.action(message, "edit")
    page.test_id("edit-field").fill("A better question")
    page.page.reload()
    left = page.test_id("left-edit")
    left.get_by_role("button", name="Go on").click()
    expect(page.test_id("edit-field")).to_have_value("A better question")
    page.page.keyboard.press("Escape")
    expect(page.test_id("edit-field")).to_have_count(0)
    page.undo()
    expect(page.test_id("edit-field")).to_have_value("A better question")
    page.test_id("edit-save").click()
    expect(message).to_contain_text("A better question")
    page.wait_done()
    page.page.reload()
    expect(page.messages()).to_have_count(2)
    expect(left).to_have_count(0)


def test_a_message_to_a_chat_that_went_on_elsewhere_begins_a_branch_and_says_so(
    same_page: PageDriver, server: PageServer
) -> None:
    page = same_page
    page.ask("One")
    last = page.messages("assistant").last.get_attribute("data-message-id")
    page.page.evaluate("() => { const { page } = window.pagedchat; page.showPath = () => {}; }")  # it hears of nothing
    server.do(server.service.send(page.session_id, last, "Two, from elsewhere"))
    page.test_id("composer").fill("Two, from here")
    page.test_id("send").click()
    toast = page.page.locator(".toast").last
    expect(toast).to_contain_text("This chat had gone on in another window")
    page.page.evaluate("() => { delete window.pagedchat.page.showPath; }")
    toast.get_by_role("button", name="Show the other").click()
    expect(page.messages("user").last).to_contain_text("Two, from elsewhere")
    page.wait_done()
