"""The guided tour of the KV panel: every number that it tells is the engine's own."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from playwright.sync_api import Locator, expect

from pagedchat.ui.tour_calls import NEXT_MESSAGE, stamped_messages
from pagedchat.ui.tour_trial import MOST_REPLIES, REPLY_TOKENS
from support.page_driver import PageDriver
from support.page_server import PageServer


def begin(chat: PageDriver, stop: str = "table") -> Locator:
    """The tour's box at a stop."""
    chat.test_id("kv-menu").click()
    chat.test_id("kv-tour").click()
    box = chat.test_id("tour")
    for _ in range(6):
        if box.get_attribute("data-stop") == stop:
            return box
        chat.test_id("tour-next").click()
    raise AssertionError(f"there is no stop {stop}")


def told(box: Locator, **facts: Any) -> None:
    """The box tells these numbers, as data and, those that are not 0, in its words."""
    for name, value in facts.items():
        expect(box).to_have_attribute(f"data-fact-{name.replace('_', '-')}", str(value))


def said(chat: PageDriver, *numbers: int) -> None:
    for number in numbers:
        expect(chat.test_id("tour-words")).to_contain_text(f"{number:,}")


def question(chat: PageDriver, server: PageServer) -> dict[str, Any]:
    """The next prompt of the shown chat, as arguments of a probe."""
    last = chat.messages().last.get_attribute("data-message-id")
    return server.do(server.service.question(chat.session_id, last, NEXT_MESSAGE))


def test_each_stop_of_the_tour_tells_numbers_of_the_engine(same_page: PageDriver, server: PageServer) -> None:
    chat, client = same_page, server.client
    client.replies = lambda request: f"Reply number {len(client.requests)}, another one than all before it."
    chat.ask("What is a block table, and what does it hold?")
    chat.ask("And then?")
    chat.regenerate(chat.messages("assistant").last, "2/2")
    box = begin(chat)

    rows = server.do(client.branch(server.do(server.service.branch_tokens(chat.session_id))))
    blocks = [row["block"] for row in rows]
    steps = list(pairwise(blocks))
    jumps = sum(here != before + 1 for before, here in steps)
    told(box, logical=len(rows), physical=len(set(blocks)), steps=len(steps), jumps=jumps)
    said(chat, len(rows), jumps)
    assert jumps > 0, "the second version lies after the first one"

    chat.test_id("tour-next").click()
    snapshot = server.do(client.snapshot())
    told(box, active=snapshot["active"], blocks=snapshot["num_blocks"])
    generated = len(client.requests)
    chat.test_id("tour-ask").click()
    expect(chat.test_id("tour-ask")).to_have_text("Measure again")
    tried = client.requests[generated:]
    assert len(tried) == 2 * MOST_REPLIES and all(one.params.max_tokens == REPLY_TOKENS for one in tried)
    told(box, replies=MOST_REPLIES, tokens=REPLY_TOKENS * len(tried))
    alone, together = (int(box.get_attribute(f"data-fact-{name}") or 0) for name in ("alone", "together"))
    assert len(rows) <= alone < together, "several at once use more blocks than one"
    said(chat, alone, together)

    chat.test_id("tour-next").click()
    told(box, replies=MOST_REPLIES, running=0)
    for name in ("each", "beside", "total"):
        assert float(box.get_attribute(f"data-fact-{name}") or 0) > 0

    chat.test_id("tour-next").click()
    asked = question(chat, server)
    plain = server.do(client.probe(**asked))
    said(chat, plain["cached_tokens"], plain["prompt_tokens"])
    told(box, cached=plain["cached_tokens"], prompt=plain["prompt_tokens"])
    stamped = int(box.get_attribute("data-fact-stamped-cached") or 0)
    assert stamped < client.block_size, "at most the first tokens of all prompts"
    line = chat.test_id("tour-words").inner_text().split("“")[1].split("”")[0]
    usual = client.status.info.get("default_system_prompt") or ""
    stamped = {**asked, "messages": stamped_messages(asked["messages"], line, usual)}
    told(box, stamped_prompt=server.do(client.probe(**stamped))["prompt_tokens"])
    assert plain["cached_tokens"] > plain["prompt_tokens"] // 2

    chat.test_id("tour-next").click()
    snapshot = server.do(client.snapshot())
    size = snapshot["num_blocks"] * snapshot["block_size"]
    told(box, blocks=snapshot["num_blocks"], tokens=size, cached=snapshot["cached"], preemptions=0)
    said(chat, snapshot["num_blocks"], size, snapshot["cached"])

    chat.test_id("tour-next").click()
    last = chat.messages("assistant").last.get_attribute("data-message-id")
    run = server.do(server.service.facts.details(last))["runs"][0]
    told(box, new=run["blocks_new"], shared=run["blocks_shared"], copied=run["blocks_copied"])
    assert run["blocks_shared"] > 0 and run["blocks_copied"] == 1
    chat.test_id("tour-next").click()
    expect(box).to_have_count(0)


def test_a_chat_without_versions_gets_one_to_show_what_a_fork_costs(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    chat.ask("Only one reply so far")
    box = begin(chat, "fork")
    expect(chat.test_id("tour-words")).to_contain_text("No reply of this branch has a second version")
    chat.test_id("tour-ask").click()
    expect(chat.test_id("sibling-label")).to_have_text("2/2")
    chat.wait_done()
    last = chat.messages("assistant").last.get_attribute("data-message-id")
    run = server.do(server.service.facts.details(last))["runs"][0]
    told(box, new=run["blocks_new"], shared=run["blocks_shared"], copied=run["blocks_copied"])
    said(chat, run["blocks_shared"])
    chat.test_id("tour").press("Escape")


def test_an_edited_question_is_a_fork_too(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    chat.ask("A question that gets another version, long enough for a block of its own")
    chat.ask("And one more")
    chat.action(chat.messages("user").last, "edit")
    chat.messages("user").last.locator("textarea").fill("And another one")
    chat.test_id("edit-save").click()
    expect(chat.messages("user").last.get_by_test_id("sibling-label")).to_have_text("2/2")
    chat.wait_done()
    box = begin(chat, "fork")
    expect(chat.test_id("tour-words")).to_contain_text("The reply to version 2 of the question shares")
    last = chat.messages("assistant").last.get_attribute("data-message-id")
    run = server.do(server.service.facts.details(last))["runs"][0]
    told(box, new=run["blocks_new"], shared=run["blocks_shared"], copied=run["blocks_copied"])
    box.press("Escape")


def test_a_stop_that_is_reached_while_another_measures_gets_its_numbers(
    same_page: PageDriver, server: PageServer
) -> None:
    chat, client = same_page, server.client
    chat.ask("Something to measure with")
    box = begin(chat, "speed")
    client.delay_s = 0.05
    chat.test_id("tour-ask").click()
    chat.test_id("tour-next").click()
    expect(box).to_have_attribute("data-stop", "prefix")
    expect(box).to_have_attribute("data-fact-cached", re.compile("[0-9]+"))
    expect(chat.test_id("tour-words")).to_contain_text("would be found in the cache")
    box.press("Escape")


def test_the_tour_that_is_started_in_the_past_speaks_of_now(same_page: PageDriver) -> None:
    chat = same_page
    chat.ask("Something to go back to")
    bar = chat.test_id("kv-time")
    chat.test_id("kv-step-back").click()
    expect(bar).to_have_attribute("data-state", "past")
    box = begin(chat)
    expect(bar).to_have_attribute("data-state", "live")
    expect(chat.page.locator("#pc-kv .lamp")).to_have_text("conserved")
    box.press("Escape")


def test_the_tour_is_walked_by_keyboard_left_by_escape_and_remembered(
    same_page: PageDriver, server: PageServer
) -> None:
    chat, page = same_page, same_page.page
    page.evaluate("localStorage.removeItem('pagedchat.tour')")
    chat.goto("?session=")
    expect(chat.test_id("tour-offer")).to_be_visible()
    chat.test_id("tour-offer").press("Enter")
    box = chat.test_id("tour")
    expect(box).to_have_attribute("data-stop", "table")
    expect(chat.test_id("tour-words")).to_contain_text("no blocks yet")
    expect(chat.test_id("tour-next")).to_be_focused()
    page.keyboard.press("Enter")
    expect(box).to_have_attribute("data-stop", "scheduling")
    expect(chat.test_id("tour-next")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(chat.test_id("tour-back")).to_be_focused()
    page.keyboard.press("Enter")
    expect(box).to_have_attribute("data-stop", "table")
    page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    expect(chat.test_id("kv-menu")).to_be_focused()
    expect(chat.page.locator(".tour-target")).to_have_count(0)
    expect(chat.test_id("tour-offer")).to_be_hidden()
    chat.goto("?session=")
    expect(chat.test_id("kv-menu")).to_be_visible()
    expect(chat.test_id("tour-offer")).to_be_hidden()
