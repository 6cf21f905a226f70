"""Many chats: found, filed, archived, deleted and brought back, taken out and in; the same in every open page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from support.page_driver import PageDriver
from support.page_server import PageServer


def search(page: PageDriver, words: str) -> None:
    page.test_id("search").fill(words)


def answer(page: Page, words: str | None = None) -> None:
    """Answer the open dialog: with a line, or with yes."""
    if words is not None:
        page.locator("dialog input").fill(words)
    page.get_by_test_id("confirm").click()


def test_an_old_message_is_found_and_opened_in_its_branch(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    server.client.replies = lambda request: "about " + (request.messages or [])[-1]["content"][-12:]
    chat.ask("Where do puffins sleep?")
    old = chat.session_id
    found = chat.messages("assistant").get_attribute("data-message-id")
    chat.regenerate(chat.messages("assistant"), "2/2")
    chat.new_chat()
    chat.ask("Something else")
    search(chat, "puffins")
    hits = chat.test_id("search-hit")
    expect(hits.locator("mark").first).to_have_text(re.compile("puffins", re.IGNORECASE))
    search(chat, "about role:assistant sleep")
    expect(hits).to_have_count(2)
    chat.page.locator(f"[data-message='{found}'] a").click()
    expect(chat.page.get_by_text("1/2", exact=True)).to_be_visible()
    assert chat.session_id == old
    expect(chat.page.locator(f"[data-message-id='{found}']")).to_have_class(re.compile("found"))
    search(chat, "role:nobody")
    expect(chat.page.locator(".list .none")).to_contain_text("role")
    chat.test_id("search").press("Escape")
    expect(chat.test_id("search")).to_have_value("")
    expect(chat.row(old)).to_be_visible()
    search(chat, "puffins")
    expect(hits.first).to_be_visible()
    chat.test_id("search").press("ArrowDown")
    chat.page.keyboard.press("Enter")
    expect(chat.messages("user")).to_have_text("Where do puffins sleep?")
    chat.test_id("search").press("Escape")


def test_a_message_far_up_in_a_long_chat_is_found_and_shown(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    chat.ask("The first word is quokka")
    store, parent = server.service.store, chat.messages("assistant").get_attribute("data-message-id")
    for number in range(150):
        parent = store.finish_reply(store.add_question(chat.session_id, parent, f"q{number}")[2].id, "a", "done")[0].id
    search(chat, "quokka")
    chat.test_id("search-hit").first.click()
    expect(chat.messages().first).to_contain_text("quokka")
    expect(chat.messages().first).to_be_in_viewport()
    chat.test_id("search").press("Escape")


def test_chats_are_pinned_filed_and_archived_and_another_page_shows_it(
    same_page: PageDriver, open_page: Callable[..., PageDriver]
) -> None:
    chat = same_page
    chat.ask("A chat to be filed")
    filed = chat.session_id
    other = open_page("?session=" + filed)
    chat.front().chat_menu(filed, "pin")
    expect(other.page.locator(".list h2").first).to_have_text("Pinned")
    chat.chat_menu(filed, "pin")
    expect(other.page.locator(".list h2").first).not_to_have_text("Pinned")
    chat.chat_menu(filed, "move", "New folder…")
    answer(chat.page, "Boats and birds")
    folder = other.front().test_id("folder").filter(has_text="Boats and birds")
    expect(folder).to_contain_text("1")
    fold = folder.get_by_role("button", name="Boats and birds").first
    fold.click()
    expect(other.row(filed)).to_have_count(0)
    expect(chat.row(filed)).to_have_count(1)
    fold.click()
    folder.get_by_test_id("folder-menu").click()
    other.page.get_by_role("menuitem", name="Delete folder").click()
    expect(chat.test_id("folder").filter(has_text="Boats")).to_have_count(0)
    expect(chat.row(filed)).to_have_count(1)
    other.undo()
    expect(chat.test_id("folder").filter(has_text="Boats")).to_have_count(1)
    other.chat_menu(filed, "archive")
    expect(chat.row(filed)).to_have_count(0)
    chat.front().test_id("show-archive").click()
    expect(chat.row(filed)).to_be_visible()
    other.front().undo()
    expect(chat.row(filed)).to_have_count(0)
    expect(other.row(filed)).to_be_visible()


def test_a_chat_deleted_in_another_page_says_so_and_comes_back(
    same_page: PageDriver, open_page: Callable[..., PageDriver]
) -> None:
    chat = same_page
    chat.ask("Deleted elsewhere")
    before, shown = chat.texts(), chat.session_id
    other = open_page("?session=" + shown)
    other.chat_menu(shown, "delete")
    expect(other.messages()).to_have_count(0)
    expect(chat.test_id("notice")).to_contain_text("deleted in another window")
    assert chat.texts() == before, "what was there stays in sight"
    chat.front().test_id("restore-here").click()
    expect(chat.test_id("notice")).to_be_hidden()
    expect(chat.row(shown)).to_be_visible()
    expect(other.row(shown)).to_be_visible()
    other.front().chat_menu(shown, "delete")
    other.test_id("show-trash").click()
    item = other.page.locator(f"[data-gone-id='{shown}']")
    item.get_by_test_id("purge").click()
    other.page.keyboard.press("Escape")
    expect(item).to_be_visible()
    item.get_by_test_id("purge").click()
    answer(other.page)
    expect(item).to_have_count(0)
    expect(chat.test_id("notice")).to_contain_text("forever")
    chat.front().test_id("notice").get_by_role("button", name="Close").click()
    expect(chat.messages()).to_have_count(0)


def test_a_chat_deleted_while_a_page_was_away_says_so_and_comes_back(
    same_page: PageDriver, open_page: Callable[..., PageDriver], server: PageServer
) -> None:
    chat = same_page
    chat.ask("Deleted meanwhile")
    server.do(server.service.delete(chat.session_id))
    late = open_page("?session=" + chat.session_id)
    expect(late.page.locator(".toast")).to_contain_text("in the trash")
    late.undo()
    expect(late.messages("user")).to_have_text("Deleted meanwhile")
    chat.front()


def test_a_deleted_branch_comes_back_by_undo_and_from_the_trash(
    same_page: PageDriver, open_page: Callable[..., PageDriver]
) -> None:
    chat = same_page
    chat.ask("Stays")
    chat.ask("Goes")
    before = chat.texts()
    other = open_page("?session=" + chat.session_id)
    chat.front()
    for again in (chat.undo, lambda: restore_from_trash(chat, "Goes")):
        chat.message_menu(chat.messages("user").last, "delete-branch")
        for page in (chat, other):
            expect(page.messages()).to_have_count(2)
        expect(chat.page.locator(".toast").last).to_contain_text("Deleted 2 messages")
        again()
        for page in (chat, other):
            expect(page.messages()).to_have_count(4)
            assert page.texts() == before


def restore_from_trash(page: PageDriver, words: str) -> None:
    page.test_id("show-trash").click()
    page.test_id("trash-item").filter(has_text=words).get_by_test_id("restore").click()
    page.test_id("show-trash").click()


def test_forks_leave_the_chat_as_it_is_and_versions_are_compared(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    colours = iter(("red", "blue", "green"))
    server.client.replies = lambda request: f"A {next(colours)} boat on a lake"
    chat.ask("Name a boat")
    chat.regenerate(chat.messages("assistant"), "2/2")
    chat.ask("Another")
    first, texts = chat.session_id, chat.texts()
    chat.message_menu(chat.messages("assistant").first, "compare-versions")
    dialog = chat.test_id("compare")
    expect(dialog.locator("mark")).to_have_text(["red", "blue"])
    chat.test_id("compare-follow").click()
    expect(dialog).to_contain_text(re.compile("blue.*Another.*green", re.DOTALL))
    chat.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    for mode, number, siblings in (("fork-branch", 2, 0), ("fork-siblings", 2, 1), ("fork-tree", 4, 1)):
        chat.message_menu(chat.messages("assistant").first, "fork", mode)
        chat.page.wait_for_function("(id) => window.pagedchat.page.session?.id !== id", arg=first)
        expect(chat.messages()).to_have_count(number)
        assert chat.texts() == texts[:number]
        expect(chat.messages("assistant").first.get_by_test_id("sibling-label")).to_have_count(siblings)
        chat.open_chat(first)
    assert chat.texts() == texts


def test_a_new_chat_begins_with_a_preset(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    chat.ask("Before the preset")
    chat.test_id("more-menu").click()
    chat.test_id("presets").last.click()
    chat.test_id("new-preset").click()
    form = chat.test_id("preset-form")
    form.get_by_label("Name").fill("Pirate")
    form.get_by_label("System prompt").fill("Answer like a pirate.")
    form.get_by_test_id("confirm").click()
    server.do(server.service.library.save_preset({"name": "Made elsewhere"}))
    expect(chat.test_id("preset").filter(has_text="Made elsewhere")).to_be_visible()
    chat.test_id("preset").filter(has_text="Made elsewhere").get_by_label("Delete").click()
    expect(chat.test_id("preset")).to_have_count(1)
    chat.undo()
    expect(chat.test_id("preset")).to_have_count(2)
    chat.test_id("preset").filter(has_text="Pirate").get_by_label("New chat with Pirate").click()
    expect(chat.page.locator("button.system")).to_contain_text("Answer like a pirate.")
    chat.ask("Ahoy")
    assert (server.client.requests[-1].messages or [])[0]["content"] == "Answer like a pirate."


def test_an_edited_reply_is_followed_by_the_next_message(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    chat.ask("First")
    chat.action(chat.messages("assistant"), "edit")
    chat.test_id("edit-field").fill("My own words")
    chat.test_id("edit-save").click()
    expect(chat.page.get_by_text("2/2", exact=True)).to_be_visible()
    chat.ask("Second")
    assert chat.texts() == ["First", "My own words", "Second", "Hello!"]
    sent = [one["content"] for one in server.client.requests[-1].messages or [] if one["role"] != "system"]
    assert sent == ["First", "My own words", "Second"]


def test_a_chat_leaves_as_a_file_and_comes_back_through_the_page(same_page: PageDriver, tmp_path: Path) -> None:
    chat = same_page
    chat.ask("Carry me over")
    chat.regenerate(chat.messages("assistant"), "2/2")
    before, first = chat.texts(), chat.session_id
    chat.row(first).hover()
    chat.row(first).get_by_test_id("chat-menu").click()
    chat.test_id("export").click()
    for name in ("markdown", "text", "openai", "sharegpt"):
        href = chat.test_id(f"export-{name}").get_attribute("href") or ""
        assert chat.page.request.get(chat.url + href).ok
    with chat.page.expect_download() as download:
        chat.test_id("export-pagedchat").click()
    expect(chat.page.locator(".toast")).to_contain_text("your browser keeps the file")
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert json.loads(file.read_text("utf-8"))
    (tmp_path / "broken.json").write_text("{", "utf-8")
    chat.test_id("more-menu").click()
    with chat.page.expect_file_chooser() as chooser:
        chat.test_id("import").click()
    chooser.value.set_files([file, tmp_path / "broken.json"])
    report = chat.test_id("import-report")
    expect(report).to_contain_text("1 chat with 3 messages imported")
    expect(report.locator(".problem")).to_be_visible()
    chat.errors.clear()  # the browser complains of the answer to the broken file
    report.get_by_role("button", name="Show the first").click()
    chat.page.wait_for_function("(id) => window.pagedchat.page.session?.id !== id", arg=first)
    expect(chat.messages()).to_have_count(2)
    assert chat.texts() == before
    expect(chat.page.get_by_text("2/2", exact=True)).to_be_visible()
