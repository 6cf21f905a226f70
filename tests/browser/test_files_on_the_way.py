"""What happens to a file between the moment it is chosen and the moment the server has it."""

from __future__ import annotations

from playwright.sync_api import Route, expect

from support.page_driver import PageDriver
from support.page_server import PageServer


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
