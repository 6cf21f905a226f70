"""States of branches and of what waits: versions side by side, the tree, replies at once, messages that wait."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import expect

from looks.stage import Stage
from looks.table import state

REPLY = "Osier, Pintail and Wren. "


@state("Your message goes under this reply.", "[data-testid=branch-place]")
def branch_from_here(stage: Stage) -> Iterator[None]:
    stage.asked("Names for a small boat?", REPLY)
    stage.ask("And for a large one?")
    stage.messages("assistant").first.get_by_test_id("branch-here").click()
    yield
    stage.test_id("branch-place").get_by_role("button", name="Back").click()


@state("Sent when this reply has ended", "[data-testid=queued]")
def message_that_waits(stage: Stage) -> Iterator[None]:
    stage.new_chat()
    stage.reply(REPLY * 60, 0.012)
    stage.send("Names for a small boat?")
    expect(stage.messages("assistant")).to_contain_text("Wren. Osier")
    stage.test_id("composer").fill("And for a large one?")
    stage.page.keyboard.press("Enter")
    yield
    stage.test_id("queued-remove").click()
    stage.test_id("stop").click()
    stage.wait_done()


@state("Writing 3 at once", "[data-testid=parallel]")
def several_replies_at_once(stage: Stage) -> Iterator[None]:
    stage.asked("Names for a small boat?", REPLY)
    stage.reply(REPLY * 60, 0.012)
    stage.server.do(stage.server.service.update_settings(stage.session_id, params={"temperature": 1.0}))
    stage.message_menu(stage.messages("assistant"), "regenerate-several", "regenerate-3")
    expect(stage.test_id("parallel-reply").first).to_be_visible()
    yield
    stage.page.keyboard.press("Escape")
    stage.test_id("stop-all").click()
    stage.wait_done()


@state("Names for a small boat?", "[data-testid=tree]")
def tree(stage: Stage) -> Iterator[None]:
    stage.asked("Names for a small boat?", REPLY)
    stage.reply("Dabchick and Lark.")
    stage.regenerate(stage.messages("assistant"), "2/2")
    stage.ask("Another one?")
    stage.page.locator("#pc-top").get_by_role("button", name="Tree").click()
    yield
    stage.page.keyboard.press("Escape")
    expect(stage.test_id("tree")).to_be_hidden()


@state("Seed", "[data-testid=details]")
def details(stage: Stage) -> Iterator[None]:
    stage.asked("Names for a small boat?", REPLY)
    stage.message_menu(stage.messages("assistant"), "show-details")
    yield


@state("Begin a new chat", "[data-testid=commands]")
def commands(stage: Stage) -> Iterator[None]:
    stage.new_chat()
    stage.test_id("composer").fill("/")
    yield
    stage.test_id("composer").fill("")
