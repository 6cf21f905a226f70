"""States that come from the engine, the connection and the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from playwright.sync_api import expect

from looks.stage import Stage
from looks.table import state
from pagedchat.engine.errors import RequestError
from pagedchat.sessions.errors import StoreError, StoreProblem

BANNER = "#pc-banner"
NOTE = "[data-testid=message] .note"
WORDS = "A block is still contiguous inside: sixteen tokens of keys for one head are read in one run. "


@state("Fetching the model · 43 %", BANNER)
def fetching(stage: Stage) -> Iterator[None]:
    stage.show(None)
    stage.status("fetching", 0.43, "43 of 98 MB.")
    yield


@state("Loading the model", BANNER)
def loading(stage: Stage) -> Iterator[None]:
    stage.status("loading", None, "Loading the model.")
    yield


@state("The engine could not start.", BANNER)
def failed(stage: Stage) -> Iterator[None]:
    stage.status("failed", None, "The model file is cut after 40 of 98 MB; `pagedchat models pull` fetches it again.")
    yield


@state("Starts when the model is ready", ".waits")
def asked_while_loading(stage: Stage) -> Iterator[None]:
    stage.new_chat()
    stage.status("loading", None, "Loading the model.")
    stage.send("If the cache is scattered, why is attention not slower?")
    yield
    stage.status("ready")
    stage.wait_done()


@state("Reading the prompt, 4,096 of 12,310 tokens", ".waits")
def prompt_being_read(stage: Stage) -> Iterator[None]:
    told = {"state": "running", "num_computed": 4096, "num_tokens": 12310}
    yield from _held(stage, "Summarize the 40 pages below.", told)


@state("Waits for its turn, 2 before it", ".waits")
def waiting_for_its_turn(stage: Stage) -> Iterator[None]:
    others = [{"state": "waiting"}, {"state": "waiting"}]
    yield from _held(stage, "Who is first?", {"state": "waiting"}, others)


@state("Stop", "[data-testid=stop]")
def streaming(stage: Stage) -> Iterator[None]:
    stage.new_chat()
    stage.reply(WORDS * 40, 0.012)
    stage.send("If the cache is scattered, why is attention not slower?")
    expect(stage.messages("assistant")).to_contain_text("one run. A block")
    yield
    stage.page.get_by_test_id("stop").click()
    stage.wait_done()


@state("Thinking …", ".thinking summary")
def thinking(stage: Stage) -> Iterator[None]:
    stage.client.marks_thinking = True
    stage.new_chat()
    stage.reply("<think>The reader asks about memory. " + WORDS * 30, 0.012)
    stage.send("Why is it not slower?")
    expect(stage.page.locator(".thinking")).to_contain_text("one run.")
    yield
    stage.page.get_by_test_id("stop").click()
    stage.wait_done()


@state("Stopped.", NOTE)
def stopped(stage: Stage) -> Iterator[None]:
    _cut(stage, lambda: stage.page.get_by_test_id("stop").click())
    yield


@state("out of memory", NOTE)
def interrupted(stage: Stage) -> Iterator[None]:
    _cut(stage, lambda: stage.server.call(stage.client.die, "The engine stopped: it ran out of memory."))
    yield


@state("Starting the engine again", BANNER)
def restarting(stage: Stage) -> Iterator[None]:
    stage.status("restarting", None, "The engine stopped: it ran out of memory.")
    yield


@state("The prompt has 9,999 tokens", NOTE)
def refused(stage: Stage) -> Iterator[None]:
    stage.new_chat()
    stage.client.refuse = RequestError("The prompt has 9,999 tokens, but the context holds 8,192 with the reply.")
    stage.send("Much too long")
    expect(stage.messages("assistant")).to_have_attribute("data-status", "error")
    yield


@state("Not saved yet:", NOTE)
def unsaved(stage: Stage) -> Iterator[None]:
    stage.asked("Before the disk is full")
    error = StoreError("The disk that holds sessions.db is full; free some space.", "full")
    undo = _break(stage.server.service.store, error, "save_partial", "finish_reply")
    stage.send("While it is full")
    yield
    undo()
    expect(stage.page.locator(NOTE).last).to_be_hidden()


@state("The database is read-only", ".box .problem")
def database_read_only(stage: Stage) -> Iterator[None]:
    yield from _refusing(stage, "The database is read-only; give yourself the right to write it.", "readonly")


@state("was written by a newer pagedchat", ".box .problem")
def database_newer(stage: Stage) -> Iterator[None]:
    words = "The chat database was written by a newer pagedchat; it was left untouched: update pagedchat."
    yield from _refusing(stage, words, "newer")


@state("No connection to pagedchat.", BANNER)
def offline(stage: Stage) -> Iterator[None]:
    stage.asked("Before the connection is lost")
    stage.page.evaluate(
        "() => { const { socket } = pagedchat.page; socket.connect = () => {}; socket.socket.close(); }"
    )
    yield
    stage.page.evaluate("() => { const { socket } = pagedchat.page; delete socket.connect; socket.connect(); }")
    expect(stage.page.locator(BANNER)).to_be_hidden()


def _held(stage: Stage, text: str, told: dict[str, Any], others: Sequence[dict[str, Any]] = ()) -> Iterator[None]:
    """A question whose reply has no token yet; ``told`` is what the engine says of it, ``others`` are before it."""

    async def shut() -> None:
        stage.client.gate = asyncio.Event()

    async def requests() -> list[dict[str, Any]]:
        return [*others, {"labels": {"session": stage.session_id, "message": reply}, **told}]

    stage.new_chat()
    stage.server.do(shut())
    stage.send(text)
    reply = stage.messages("assistant").get_attribute("data-message-id")
    stage.client.list_requests = requests
    yield
    del stage.client.list_requests
    stage.server.call(stage.client.gate.set)
    stage.wait_done()


def _cut(stage: Stage, end: Callable[[], object]) -> None:
    """A reply that does not come to its end."""
    stage.new_chat()
    stage.reply(WORDS * 20, 0.005)
    stage.send("If the cache is scattered, why is attention not slower?")
    expect(stage.messages("assistant")).to_contain_text("one run. A block")
    end()
    expect(stage.page.locator("[data-status=streaming]")).to_have_count(0)


def _break(owner: object, error: Exception, *names: str, later: bool = False) -> Callable[[], None]:
    """Let methods of ``owner`` fail, coroutines with ``later``; returns what mends them."""

    def fail(*_: object, **__: object) -> None:
        raise error

    async def fail_later(*_: object, **__: object) -> None:
        raise error

    for name in names:
        setattr(owner, name, fail_later if later else fail)

    def mend() -> None:
        for name in names:
            delattr(owner, name)

    return mend


def _refusing(stage: Stage, words: str, problem: StoreProblem) -> Iterator[None]:
    """A send that the store refuses."""
    stage.asked("Before that")
    undo = _break(stage.server.service, StoreError(words, problem), "send", later=True)
    stage.test_id("composer").fill("A question that nobody may lose")
    stage.test_id("send").click()
    yield
    undo()
    stage.test_id("composer").fill("")
