"""Files in the page: said before sending what goes, shown under the question, opened where a reply names a passage."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from pagedchat.ui import shown_part
from support.page_driver import PageDriver
from support.page_server import PageServer

WORDS = "Nothing much happens in this part of the story, and so it goes on, word by word. "
CHAPTERS = [f"Chapter {number}. {WORDS * 5}" for number in range(40)]
REPLY = "It lies under the oak [1], not in [9] or `x[1]`."
NO_IMAGE = "This model reads text only; an image cannot be sent, so say what is in it."
CHAPTERS[17] += "The treasure lies under the old oak."


def made(chat: PageDriver, place: int) -> dict[str, Any]:
    """How a reply of the shown branch came to be."""
    code = "(at) => { const { chat } = window.pagedchat.page; return chat.items.get(chat.ids[at]).view.generation; }"
    return chat.page.evaluate(code, place)


def attach_both(chat: PageDriver, server: PageServer, folder: Path) -> None:
    """Attach a large file and a small one; what is asked then is answered with ``REPLY``."""
    server.client.replies = lambda request: REPLY
    (folder / "story.txt").write_text("\n\n".join(CHAPTERS))
    (folder / "notes.md").write_text("Apples are red.")
    chat.test_id("file-input").set_input_files([folder / "story.txt", folder / "notes.md"])
    expect(chat.test_id("file-chip")).to_have_count(2)


def test_a_large_file_is_quoted_in_passages_that_the_reply_opens(
    same_page: PageDriver, server: PageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, page = same_page, same_page.page
    attach_both(chat, server, tmp_path)
    photo = {"name": "photo.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n\x1a\n" + bytes(30)}
    chat.test_id("file-input").set_input_files([photo])
    chat.test_id("composer").fill("Where is the treasure?")
    chips = chat.test_id("file-chip")
    expect(chips.filter(has_text="story.txt")).to_contain_text(re.compile(r"1 of \d\d passages"))
    expect(chips.filter(has_text="notes.md")).to_contain_text("whole (15 tokens)")
    expect(chips.filter(has_text="story.txt")).to_contain_text("16 KiB")
    expect(chips.filter(has_text="photo.png").locator("small")).to_have_text(NO_IMAGE)
    said = sum(int(one.split()[0].replace(",", "")) for one in page.locator(".probe b").all_inner_texts()[:2])
    chat.ask("Where is the treasure?")
    assert made(chat, 1)["prompt_tokens"] == said
    expect(chips).to_have_count(0)
    expect(chat.messages("user").get_by_test_id("file")).to_have_count(2)  # what cannot be sent goes without a trace
    files = chat.messages("user").get_by_test_id("file")
    expect(files.filter(has_text="story.txt")).to_have_text(re.compile(r"story.txt1 of \d\d passages"))

    monkeypatch.setattr(shown_part, "WINDOW", 1)  # of a long chat only the reply would be shown
    page.reload()
    page.wait_for_function("window.pagedchat?.page?.entered")
    expect(chat.messages("assistant").locator(".body")).to_have_text(REPLY.replace("`", ""))
    cite = page.locator("button.cite")
    expect(cite).to_have_count(1)
    monkeypatch.undo()
    cite.focus()
    page.keyboard.press("Enter")
    expect(chat.test_id("passage")).to_contain_text("The treasure lies under the old oak.")
    expect(chat.test_id("passage")).to_be_in_viewport()
    expect(chat.test_id("document")).to_contain_text("Passage 1")
    page.keyboard.press("Escape")
    expect(cite).to_be_focused()
    files.filter(has_text="notes.md").click()
    expect(chat.test_id("document-text")).to_have_text("Apples are red.")
    page.keyboard.press("Escape")


def test_the_focus_stays_on_the_button_that_goes_from_passage_to_passage(
    same_page: PageDriver, server: PageServer, tmp_path: Path
) -> None:
    chat, page = same_page, same_page.page
    server.client.replies = lambda request: "Both say so [1] [2]."
    for name in ("story", "tale"):
        (tmp_path / f"{name}.txt").write_text("\n\n".join([f"A {name}.", *CHAPTERS]))
    chat.test_id("file-input").set_input_files([tmp_path / "story.txt", tmp_path / "tale.txt"])
    chat.ask("Where is the treasure?")
    page.locator("button.cite").first.click()
    document, forward, back = (chat.test_id(name) for name in ("document", "passage-next", "passage-prev"))
    expect(document).to_contain_text("Passage 1 of 2")
    forward.focus()
    page.keyboard.press("Enter")
    expect(document).to_contain_text("Passage 2 of 2")
    expect(forward).to_be_focused()
    expect(forward).to_have_attribute("aria-disabled", "true")
    back.focus()
    page.keyboard.press("Enter")
    expect(document).to_contain_text("Passage 1 of 2")
    expect(back).to_be_focused()
    page.keyboard.press("Escape")


def test_later_questions_name_the_passages_above_and_get_more_of_the_file(
    same_page: PageDriver, server: PageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, page = same_page, same_page.page
    attach_both(chat, server, tmp_path)
    chat.ask("Where is the treasure?")
    first = made(chat, 1)
    chat.ask("And who buried it?")
    second = made(chat, 3)
    assert second["cached_tokens"] >= first["prompt_tokens"] + len(REPLY)  # all that was there, documents included
    cite = page.locator("button.cite")
    expect(cite).to_have_count(2)  # what a question above quotes is opened from here, too
    cite.nth(1).click()
    expect(chat.test_id("passage")).to_contain_text("The treasure lies under the old oak.")
    page.keyboard.press("Escape")

    chat.test_id("composer").fill("What happens in chapter 33?")
    expect(page.locator("#pc-context")).to_contain_text(re.compile(r"1 more of \d\d passages of story\.txt"))
    chat.ask("What happens in chapter 33?")
    more = chat.messages("user").last.get_by_test_id("file")
    expect(more).to_have_text(re.compile(r"story.txt1 more of \d\d passages"))
    more.click()
    expect(chat.test_id("document")).to_contain_text("Passage 2")
    expect(chat.test_id("passage")).to_contain_text("Chapter 33.")
    page.keyboard.press("Escape")

    monkeypatch.setattr(shown_part, "WINDOW", 1)
    page.reload()  # now only the last question is shown, and the passages that its reply names belong to one above
    page.wait_for_function("window.pagedchat?.page?.entered")
    expect(chat.messages()).to_have_count(2)
    expect(cite).to_have_count(1)
    cite.click()
    expect(chat.test_id("passage")).to_contain_text("The treasure lies under the old oak.")
    page.keyboard.press("Escape")
