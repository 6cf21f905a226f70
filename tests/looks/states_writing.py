"""States of writing: messages that wait, what they would cost, and what a chat goes on from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import expect

from looks.stage import Stage
from looks.table import state

REPLY = "Osier, Pintail and Wren. "
SAVED = """() => {
    const { composer } = pagedchat.page;
    const draft = composer.drafts.known.get(composer.session);
    return draft.version > 0 && !draft.dirty && draft.saving === null;
}"""
NOTES = "- The reader looks for names of boats.\n- Osier, Pintail and Wren were offered; **Wren** is liked best."


@state("Sent when this reply has ended", "[data-testid=waiting]")
def messages_that_wait(stage: Stage) -> Iterator[None]:
    with _running(stage):
        _queue(stage, "And for a large one?", "Which of them is a bird that lives by the sea, and which by a river?")
        yield


@state("Held. The reply above was stopped.", "[data-testid=waiting]")
def message_that_is_held(stage: Stage) -> Iterator[None]:
    with _running(stage):
        _queue(stage, "And for a large one?")
        stage.test_id("stop").click()
        yield


@state("Sent when this reply has ended", "[data-testid=waiting]")
def waiting_message_taken_back(stage: Stage) -> Iterator[None]:
    with _running(stage):
        _queue(stage, "And for a large one?", "And for a raft?")
        stage.test_id("queued-edit").last.click()
        expect(stage.test_id("composer")).to_have_value("And for a raft?")
        yield
        stage.test_id("composer").fill("")


@state("Begin a new chat", "[data-testid=commands]")
def commands(stage: Stage) -> Iterator[None]:
    stage.new_chat()
    stage.test_id("composer").fill("/")
    yield
    stage.test_id("composer").fill("")


@state("tokens left", "#pc-context")
def context_nearly_full(stage: Stage) -> Iterator[None]:
    with _short_context(stage, 700):
        stage.test_id("composer").fill("Which one is shortest, and why? " * 14)
        expect(stage.page.locator(".context[data-near=true]")).to_be_visible()
        yield


@state("will not be sent", ".compact-offer")
def context_overfull(stage: Stage) -> Iterator[None]:
    with _short_context(stage, 400, turns=3):
        stage.test_id("composer").fill("Which one is shortest, and why? " * 8)
        yield


@state("Your message has", "#pc-context")
def message_longer_than_the_context(stage: Stage) -> Iterator[None]:
    with _short_context(stage, 400, turns=0):
        stage.test_id("composer").fill("Which one is shortest, and why? " * 20)
        yield


@state("being written", "[data-testid=summary-head]")
def summary_being_written(stage: Stage) -> Iterator[None]:
    _chat(stage)
    stage.reply(NOTES * 20, 0.012)
    stage.chat_menu(stage.session_id, "compact-chat")
    expect(stage.messages().last).to_contain_text("Wren")
    yield
    stage.test_id("stop").click()
    stage.wait_done()


@state("tokens before,", "[data-testid=summary-head]")
def summary(stage: Stage) -> Iterator[None]:
    _summed_up(stage)
    yield


@state("tokens before,", "[data-testid=summary-head]")
def summary_folded(stage: Stage) -> Iterator[None]:
    _summed_up(stage)
    stage.ask("Which one is shortest?")
    stage.test_id("summary-fold").click()
    expect(stage.page.locator(".msg.summary .body")).to_be_hidden()
    yield


@state("Another window has a different draft here", "[data-testid=other-draft]")
def draft_from_another_window(stage: Stage) -> Iterator[None]:
    stage.asked("Names for a small boat?", REPLY)
    stage.test_id("composer").fill("And for a large one?")
    stage.page.wait_for_function(SAVED)
    stage.server.do(stage.server.service.library.save_draft(stage.session_id, "And for a raft that carries eight?"))
    yield
    stage.test_id("composer").fill("")


@contextmanager
def _running(stage: Stage) -> Iterator[None]:
    """A chat with a reply that is being written; it ends with the state."""
    stage.new_chat()
    stage.reply(REPLY * 60, 0.012)
    stage.send("Names for a small boat?")
    expect(stage.messages("assistant")).to_contain_text("Wren. Osier")
    yield
    while stage.test_id("queued-remove").count():
        left = stage.test_id("queued").count()
        stage.test_id("queued-remove").last.click()
        expect(stage.test_id("queued")).to_have_count(left - 1)
    if stage.test_id("stop").count():
        stage.test_id("stop").click()
    stage.wait_done()


@contextmanager
def _short_context(stage: Stage, tokens: int, turns: int = 1) -> Iterator[None]:
    usual = stage.client._info["max_model_len"]
    stage.client._info["max_model_len"] = tokens
    try:
        stage.new_chat()
        stage.server.do(stage.server.service.update_settings(stage.session_id, params={"max_tokens": 150}))
        stage.reply(REPLY * 2)
        for number in range(turns):
            stage.ask(f"Names for a small boat, please: {number + 1}")
        yield
        stage.test_id("composer").fill("")
    finally:
        stage.client._info["max_model_len"] = usual


def _queue(stage: Stage, *texts: str) -> None:
    for number, text in enumerate(texts, 1):
        stage.test_id("composer").fill(text)
        stage.page.keyboard.press("Enter")
        expect(stage.test_id("queued")).to_have_count(number)
        expect(stage.test_id("composer")).to_have_value("")


def _chat(stage: Stage) -> None:
    stage.asked("Names for a small boat?", REPLY)
    stage.reply("Wren has four letters.")
    stage.ask("Which one is shortest?")


def _summed_up(stage: Stage) -> None:
    _chat(stage)
    stage.reply(NOTES)
    stage.chat_menu(stage.session_id, "compact-chat")
    expect(stage.test_id("summary-head")).to_contain_text("tokens before,")
    stage.wait_done()
