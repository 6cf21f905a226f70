"""What happens to a file between the moment it is chosen and the moment the server has it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Route, expect

from support.page_driver import PageDriver
from support.page_server import PageServer

OAK = {"name": "oak.txt", "mimeType": "text/plain", "buffer": b"The oak stands by the gate."}

HOLD = """(op) => {
  const { socket } = pagedchat.page, held = [];
  const ask = (...call) => Object.getPrototypeOf(socket).call.apply(socket, call);
  const later = (...call) => new Promise((go) => held.push(go)).then(() => ask(...call));
  socket.call = (...call) => (call[0] === op ? later : ask)(...call);
  window.letGo = () => { delete socket.call; for (const go of held) go(); };
}"""
"""Calls of this name leave the page only after ``letGo()``."""


@contextmanager
def late_answer(page: PageDriver, server: PageServer) -> Iterator[None]:
    """The page asks which files there are; it is told what there was before the block, and not before its end."""
    documents: Any = server.service.documents
    known, tell, there = threading.Event(), asyncio.Event(), documents.waiting

    async def late(session: str) -> list[dict[str, Any]]:
        del documents.waiting
        found = await there(session)
        known.set()
        await tell.wait()
        return found

    documents.waiting = late
    page.page.evaluate("() => { pagedchat.page.composer.files.refresh(); }")
    assert known.wait(60)
    yield
    server.call(tell.set)
    page.page.evaluate("(session) => pagedchat.page.socket.call('files', { session })", page.session_id)


def test_a_file_that_an_older_answer_does_not_know_of_stays_and_is_sent(
    same_page: PageDriver, server: PageServer
) -> None:
    page, chips = same_page, same_page.test_id("file-chip")
    with late_answer(page, server):
        page.test_id("file-input").set_input_files(OAK)
        expect(chips).to_have_attribute("data-state", "ready")
    assert chips.count() == 1
    page.ask("Where is the oak?")
    expect(page.messages("user").get_by_test_id("file")).to_contain_text("oak.txt")


def test_a_file_that_only_an_older_answer_knows_of_does_not_come_back(
    same_page: PageDriver, server: PageServer
) -> None:
    page, chips = same_page, same_page.test_id("file-chip")
    page.test_id("file-input").set_input_files(OAK)
    expect(chips).to_have_attribute("data-state", "ready")
    with late_answer(page, server):
        (file,) = server.do(server.service.documents.waiting(page.session_id))
        server.do(server.service.documents.set_removed(file["id"], True))  # in another window
        expect(chips).to_have_count(0)
    assert chips.count() == 0


def test_what_is_sent_while_its_chat_begins_goes_there_with_its_file(same_page: PageDriver) -> None:
    page = same_page
    page.page.evaluate("pagedchat.page.open(null)")
    page.page.wait_for_function("!pagedchat.page.session && !pagedchat.page.switching")
    page.page.evaluate(HOLD, "create")
    page.test_id("composer").fill("Where is the oak?")
    page.test_id("file-input").set_input_files(OAK)
    page.test_id("send").click()
    page.page.evaluate("letGo()")
    expect(page.messages("user").get_by_test_id("file")).to_contain_text("oak.txt")
    expect(page.test_id("composer")).to_have_value("")


def test_what_is_sent_while_a_new_chat_is_opened_does_not_stay_in_the_composer(same_page: PageDriver) -> None:
    page = same_page
    page.ask("Hello")
    page.page.evaluate(HOLD, "create")
    page.page.keyboard.press("Control+k")
    expect(page.test_id("composer")).to_be_focused()
    page.page.keyboard.type("Quick question")
    page.page.keyboard.press("Enter")
    page.page.evaluate("letGo()")
    expect(page.messages("user")).to_contain_text("Quick question")
    page.wait_done()
    expect(page.test_id("composer")).to_have_value("")


def test_a_message_whose_file_is_read_goes_into_no_other_chat_that_is_opened_meanwhile(same_page: PageDriver) -> None:
    page, held = same_page, list[Route]()
    page.ask("First")
    first = page.session_id
    page.new_chat()
    page.ask("Second")
    second = page.session_id
    page.page.route("**/ui/files?*", lambda route: held.append(route))
    with page.page.expect_request("**/ui/files?*"):
        page.test_id("file-input").set_input_files(OAK)
    page.test_id("composer").fill("Where is the oak?")
    page.test_id("send").click()
    page.open_chat(first)
    held[0].continue_()
    expect(page.page.locator(".box .problem")).to_contain_text("Your message was not sent")
    page.page.unroute("**/ui/files?*")
    assert page.texts()[::2] == ["First"]
    page.open_chat(second)
    expect(page.test_id("composer")).to_have_value("Where is the oak?")
    page.ask("Where is the oak?")
    expect(page.messages("user").last.get_by_test_id("file")).to_contain_text("oak.txt")


def test_a_file_that_is_removed_while_it_is_read_does_not_come_back(same_page: PageDriver, server: PageServer) -> None:
    page, held = same_page, list[Route]()
    page.page.route("**/ui/files?*", lambda route: held.append(route))
    chips = page.test_id("file-chip")
    with page.page.expect_request("**/ui/files?*"):
        page.test_id("file-input").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"The oak."})
    expect(chips).to_have_attribute("data-state", "reading")
    chips.get_by_role("button", name="Remove a.txt").click()
    expect(chips).to_have_count(0)
    (way,) = held
    stored = way.fetch()
    assert [one["name"] for one in server.do(server.service.documents.waiting(page.session_id))] == ["a.txt"]
    way.fulfill(response=stored)
    page.page.unroute("**/ui/files?*")
    while server.do(server.service.documents.waiting(page.session_id)):
        page.page.wait_for_timeout(10)
    expect(chips).to_have_count(0)


def test_a_long_paste_that_cannot_be_kept_as_a_file_goes_into_the_chat_where_it_was_pasted(
    same_page: PageDriver,
) -> None:
    page, held, long = same_page, list[Route](), "word " * 600
    page.ask("Hello")
    first = page.session_id
    page.test_id("composer").fill("See this:")
    page.page.route("**/ui/files?*", lambda route: held.append(route))
    with page.page.expect_request("**/ui/files?*"):
        page.paste(long)
    page.new_chat()
    held[0].abort()
    expect(page.page.locator(".toast")).to_contain_text("could not be sent")
    page.page.unroute("**/ui/files?*")
    expect(page.test_id("composer")).to_have_value("")
    page.open_chat(first)
    expect(page.test_id("composer")).to_have_value(f"See this:\n\n{long}")
    page.errors[:] = [one for one in page.errors if "ERR_FAILED" not in one]
