"""States of files: in the composer, under a question, and opened where a reply names a passage."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import expect

from looks.stage import Stage
from looks.table import state
from support.made_pdf import pdf

WORDS = "Nothing much happens in this part of the story, and so it goes on, word by word. "
CHAPTERS = [f"Chapter {number}. {WORDS * 5}" for number in range(120)]
CHAPTERS[17] += "The treasure lies under the old oak."
CHAPTERS[61] += "An oak as old as this one hides a treasure well."
NOTES = ("notes-on-the-garden.md", "text/markdown", b"# Trees\n\nThe oak by the gate is the oldest.\n")
STORY = ("story.txt", "text/plain", "\n\n".join(CHAPTERS).encode())
MANUAL = ("manual.pdf", "application/pdf", pdf("Dig with care.", "Never under a birch."))
PHOTO = ("photo of the oak.png", "image/png", b"\x89PNG\r\n\x1a\n" + bytes(30))
BROKEN = (
    "a scan with quite a long name that somebody gave it once.pdf",
    "application/pdf",
    b"%PDF-1.7\nno more",
)
QUESTION = "Where is the treasure, under which oak?"


@state("whole (", ".chips")
def files_in_the_composer(stage: Stage) -> Iterator[None]:
    stage.new_chat()
    _attach(stage, NOTES, STORY, MANUAL, PHOTO, BROKEN)
    stage.test_id("composer").fill(QUESTION)
    chips = stage.test_id("file-chip")
    expect(chips.filter(has_text="story.txt")).to_contain_text("passages")
    expect(stage.page.locator("[data-testid=file-chip][data-state=refused]")).to_have_count(2)
    yield
    stage.test_id("composer").fill("")
    _detach(stage)


@state("Put it into the message instead", ".chips")
def pasted_text(stage: Stage) -> Iterator[None]:
    stage.new_chat()
    stage.paste("2026-11-30 04:00:01 INFO block 611 stored, parent 610\n" * 60)
    yield
    _detach(stage)


@state("Drop files to attach them", "[data-testid=drop]")
def files_over_the_page(stage: Stage) -> Iterator[None]:
    stage.new_chat()
    main = "document.querySelector('#pc .main')"
    event = "new DragEvent('{}', {{ dataTransfer: Object.assign(new DataTransfer(), {{}}), bubbles: true }})"
    stage.page.evaluate(
        f"() => {{ const event = {event.format('dragenter')};"
        f" event.dataTransfer.items.add(new File(['a'], 'a.txt')); {main}.dispatchEvent(event); }}"
    )
    yield
    stage.page.evaluate("dispatchEvent(new DragEvent('dragend'))")


@state("[1]", "[data-testid=message] .md")
def reply_that_names_passages(stage: Stage) -> Iterator[None]:
    _quoted(stage)
    yield


@state("The treasure lies under the old oak.", "[data-testid=passage]", phone="anew")
def opened_passage(stage: Stage) -> Iterator[None]:
    _quoted(stage)
    stage.test_id("cite").first.click()
    yield


@state("The oak by the gate", "[data-testid=document-text]")
def opened_file(stage: Stage) -> Iterator[None]:
    _quoted(stage)
    stage.test_id("file").filter(has_text="notes").click()
    yield


def _attach(stage: Stage, *files: tuple[str, str, bytes]) -> None:
    stage.test_id("file-input").set_input_files(
        [{"name": name, "mimeType": kind, "buffer": data} for name, kind, data in files]
    )
    expect(stage.page.locator("[data-testid=file-chip]:not([data-state=reading])")).to_have_count(len(files))


def _detach(stage: Stage) -> None:
    """An empty chat is used again: it should have no files then."""
    documents = stage.server.service.documents
    for one in stage.server.do(documents.waiting(stage.session_id)):
        stage.server.do(documents.set_removed(one["id"], True))
    expect(stage.test_id("file-chip")).to_have_count(0)


def _quoted(stage: Stage) -> None:
    """A question about a large file, and a reply that names what it read."""
    stage.new_chat()
    stage.reply("Under the old oak [1]. The notes say that it stands by the gate; an old oak hides it well [2].")
    _attach(stage, NOTES, STORY)
    stage.ask(QUESTION)
    expect(stage.test_id("cite")).to_have_count(2)
