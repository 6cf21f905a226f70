"""The page as somebody meets it: tasks counted in clicks and keys, and the main job without a mouse."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, expect

from support.page_driver import PageDriver
from support.page_server import PageServer

SHOWS_FOCUS = """() => {
    const at = document.activeElement;
    const style = getComputedStyle(at);
    const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
    return outlined || style.boxShadow !== 'none' || Boolean(at.closest('.box, .search')) || at === document.body;
}"""
MOST_TABS = 60


class Hands:
    """Counts what a reader does. Typing a text counts as one."""

    def __init__(self, chat: PageDriver) -> None:
        self.chat = chat
        self.clicks = self.keys = 0

    def click(self, what: Locator) -> None:
        self.clicks += 1
        what.click()

    def key(self, name: str) -> None:
        self.keys += 1
        self.chat.page.keyboard.press(name)

    def write(self, text: str) -> None:
        self.keys += 1
        self.chat.page.keyboard.type(text)

    def tab_to(self, name: str, key: str = "Tab") -> None:
        """Press Tab until what has this test id has the focus, which has to be seen on the way."""
        page = self.chat.page
        for _ in range(MOST_TABS):
            if page.evaluate("document.activeElement.dataset.testid") == name:
                return
            self.key(key)
            assert page.evaluate(SHOWS_FOCUS), page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        raise AssertionError(f"{MOST_TABS} Tabs do not lead to {name}")


def old_chat(chat: PageDriver, server: PageServer) -> None:
    """A chat of three turns, as if from yesterday."""
    for number, reply in enumerate(("Ants.", "Bees.", "Crabs."), 1):
        server.client.replies = (reply,)
        chat.ask(f"Question {number}")
    server.client.replies = ("Dabs.",)


def test_three_tasks_of_a_new_user_take_a_handful_of_clicks(same_page: PageDriver, server: PageServer) -> None:
    chat, hands = same_page, Hands(same_page)
    old_chat(chat, server)
    hands.click(chat.messages("assistant").last.get_by_test_id("regenerate"))
    expect(chat.messages("assistant").last).to_contain_text("Dabs.")
    chat.wait_done()
    assert (hands.clicks, hands.keys) == (1, 0), "regenerate"
    hands.click(chat.messages("assistant").last.get_by_test_id("sibling-prev"))
    expect(chat.messages("assistant").last).to_contain_text("Crabs.")
    assert (hands.clicks, hands.keys) == (2, 0), "find the earlier reply again"
    server.client.replies = ("Eels.",)
    hands.click(chat.messages("assistant").first.get_by_test_id("branch-here"))
    hands.write("Another way on")
    hands.key("Enter")
    expect(chat.messages("assistant").last).to_contain_text("Eels.")
    chat.wait_done()
    assert chat.texts() == ["Question 1", "Ants.", "Another way on", "Eels."]
    assert (hands.clicks, hands.keys) == (3, 2), "branch from an older message"
    expect(chat.messages("user").last.get_by_test_id("sibling-label")).to_have_text("2/2")


def test_the_main_job_is_done_with_tab_and_enter_alone(same_page: PageDriver, server: PageServer) -> None:
    chat, hands = same_page, Hands(same_page)
    server.client.replies = ("First.",)
    chat.page.evaluate("document.activeElement.blur()")
    hands.tab_to("new-session")
    hands.key("Enter")
    expect(chat.test_id("composer")).to_be_focused()
    hands.write("By keyboard")
    hands.key("Enter")
    expect(chat.messages("assistant")).to_contain_text("First.")
    chat.wait_done()
    server.client.replies = ("Second.",)
    hands.tab_to("regenerate", "Shift+Tab")
    hands.key("Enter")
    expect(chat.test_id("sibling-label")).to_have_text("2/2")
    again = chat.messages("assistant").last.get_by_test_id("regenerate")
    expect(again).to_be_focused()  # also while the reply is written, when it does nothing
    chat.wait_done()
    expect(again).to_be_focused()
    keys = hands.keys
    hands.tab_to("sibling-prev", "Shift+Tab")
    assert hands.keys - keys <= 4, "copy, edit and the arrow to the next version lie between"
    hands.key("Enter")
    expect(chat.messages("assistant").last).to_contain_text("First.")
    expect(chat.messages("assistant").last.get_by_test_id("sibling-prev")).to_be_focused()
    hands.tab_to("branch-here")
    hands.key("Enter")
    server.client.replies = ("Third.",)
    expect(chat.test_id("composer")).to_be_focused()
    hands.write("And on")
    hands.key("Enter")
    expect(chat.messages("assistant").last).to_contain_text("Third.")
    chat.wait_done()
    assert chat.texts() == ["By keyboard", "First.", "And on", "Third."]


def blocks_of(text: str) -> set[int]:
    """The physical blocks that a line of the panel names: "… physical 4–6, 9"."""
    named = re.findall(r"(\d+)(?:–(\d+))?", text.rpartition("physical ")[2])
    return {block for first, last in named for block in range(int(first), int(last or first) + 1)}


def test_what_two_replies_share_and_what_the_fork_cost_is_found_in_one_click(
    same_page: PageDriver, server: PageServer
) -> None:
    chat, hands = same_page, Hands(same_page)
    client = server.client
    client.replies = lambda request: f"Version {len(client.requests)} of a reply that fills a few blocks by itself."
    chat.ask("A question that fills a few blocks too, which all versions of its reply will share")
    chat.regenerate(chat.messages("assistant").last, "2/2")

    hands.click(chat.test_id("kv-tab-prefixes"))
    facts = chat.test_id("kv-prefix-facts")
    shares, cost = (facts.locator(f"dt:text-is('{term}') + dd") for term in ("Shares", "The fork cost"))
    expect(shares).to_contain_text("physical")

    versions = chat.page.evaluate("(({ items, ids }) => items.get(ids.at(-1)).siblings)(pagedchat.page.chat)")
    branches = [server.do(server.service.branch_tokens(chat.session_id, one)) for one in versions]
    tables = [{row["block"] for row in server.do(client.branch(ids))} for ids in branches]
    assert blocks_of(shares.inner_text()) == tables[0] & tables[1] != set()
    run = server.do(server.service.facts.details(versions[1]))["runs"][0]
    expect(cost).to_contain_text(f"{run['blocks_new']} new blocks, {run['blocks_copied']} copied on write")
    expect(cost).to_contain_text(f"{run['blocks_shared']} shared")
    assert (hands.clicks, hands.keys) == (1, 0)

    chat.panel_tab("table")
    hands.key("ArrowRight")
    hands.key("ArrowRight")
    expect(chat.test_id("kv-tab-prefixes")).to_be_focused()
    expect(shares).to_be_visible()
    assert hands.keys == 2, "from the first tab two arrows lead there"
