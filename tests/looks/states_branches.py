"""States of branches: versions side by side, the tree, replies at once, a branch at a token."""

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


@state("of 4", "[data-testid=tree-found]")
def tree_search(stage: Stage) -> Iterator[None]:
    stage.asked("Names for a small boat?", REPLY)
    stage.reply("Dabchick, Wren and Lark.")
    stage.regenerate(stage.messages("assistant"), "2/2")
    stage.ask("Is a wren larger than a lark?")
    stage.page.locator("#pc-top").get_by_role("button", name="Tree").click()
    stage.test_id("tree-search").fill("wren")
    yield
    stage.page.keyboard.press("Escape")
    stage.page.keyboard.press("Escape")
    expect(stage.test_id("tree")).to_be_hidden()


@state("chosen", "[data-testid=token-choices]")
def token_alternatives(stage: Stage) -> Iterator[None]:
    _tokens(stage)
    stage.test_id("token").nth(16).click()
    expect(stage.test_id("token-choice").first).to_be_visible()
    yield
    stage.page.keyboard.press("Escape")
    expect(stage.test_id("token-choices")).to_have_count(0)


@state("Branched from version 1 at token 8", "[data-testid=origin]")
def branched_at_a_token(stage: Stage) -> Iterator[None]:
    _tokens(stage)
    stage.client.replies = (" and Pintail.",)
    stage.test_id("token").nth(7).click()
    stage.page.locator("[data-testid=token-choice]:not([data-taken])").first.click()
    expect(stage.test_id("origin")).to_be_visible()
    stage.wait_done()
    yield


@state("They hold for this reply alone", "[data-testid=regenerate-with]")
def regenerate_with(stage: Stage) -> Iterator[None]:
    stage.asked("Names for a small boat?", REPLY)
    stage.message_menu(stage.messages("assistant"), "regenerate-with")
    stage.test_id("regenerate-with").get_by_label("Temperature").fill("1.5")
    yield


@state("Branch at a token", "[data-testid=menu]", phone="anew")
def message_menu(stage: Stage) -> Iterator[None]:
    stage.asked("Names for a small boat?", REPLY)
    stage.action(stage.messages("assistant"), "message-menu")
    yield


@state("**Wren**", "[data-testid=raw]")
def raw_text(stage: Stage) -> Iterator[None]:
    stage.asked("Names for a small boat?", "Osier, Pintail and **Wren**.")
    stage.message_menu(stage.messages("assistant"), "show-raw")
    yield


def _tokens(stage: Stage) -> None:
    """A reply, token by token."""
    stage.asked("Names for a small boat?", REPLY * 6 + "\n\nAll of them are birds, or nearly so. " * 3)
    stage.message_menu(stage.messages("assistant"), "branch-token")
    expect(stage.test_id("token").first).to_be_focused()
