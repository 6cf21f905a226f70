"""The tree of a long chat: folded, searched, walked by keys, and in step with what happens elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Locator, expect

from support.branched_chat import BranchedChat
from support.page_driver import PageDriver
from support.page_server import PageServer

ROWS = "[data-testid=tree-row]"


def long_chat(server: PageServer) -> tuple[BranchedChat, str]:
    """A chat of 300 turns with branches; also the id of a message in a branch of a branch."""
    chat = BranchedChat(server.folder / "sessions.db", seed=11)
    parent = hidden = None
    for turn in range(300):
        parent = chat.turn(parent)
        if turn == 40:
            other = chat.add(chat.spine[-2], "assistant", "Another answer")
            for _ in range(3):
                other = chat.turn(other, depth=3)
            question = chat.add(other, "user", "A question by the quokka")
            chat.add(question, "assistant", "One reply")
            hidden = chat.add(question, "assistant", "A reply about a quokka")
    chat.write()
    assert hidden is not None
    return chat, hidden


def row(page: PageDriver, message_id: str) -> Locator:
    return page.page.locator(f"{ROWS}[data-message='{message_id}']")


def here(page: PageDriver) -> Locator:
    return page.page.locator(f"{ROWS}[data-here=true]")


def test_a_tree_of_three_hundred_turns_is_searched_walked_and_jumped_in(
    open_page: Callable[..., PageDriver], server: PageServer
) -> None:
    chat, hidden = long_chat(server)
    page = open_page("?session=" + chat.session_id)
    page.page.get_by_role("button", name="Tree").click()
    tree, keys = page.page.get_by_role("tree"), page.page.keyboard
    expect(page.test_id("tree-facts")).to_contain_text(f"{len(chat.rows):,} messages")
    expect(row(page, chat.spine[-1])).to_have_attribute("aria-current", "true")
    assert page.page.locator(ROWS).count() < 90, "only rows in view are in the document"
    expect(page.page.locator("#pc-kv")).to_have_attribute("inert", "")

    keys.press("Home")
    expect(row(page, chat.spine[0])).to_have_attribute("data-here", "true")
    fold = page.page.locator(f"{ROWS}[data-fold=run]").first
    words = fold.get_attribute("aria-label")
    assert words and re.fullmatch(r"\d+ messages", words)
    folded = page.page.evaluate("pagedchat.page.tree.list.rows.length")
    keys.type(words[0])
    expect(here(page)).to_have_attribute("data-fold", "run")
    keys.press("ArrowRight")
    expect(here(page)).to_have_attribute("aria-expanded", "true")
    assert page.page.evaluate("pagedchat.page.tree.list.rows.length") == folded + int(words.split()[0])
    keys.press("ArrowRight")
    expect(here(page)).to_have_attribute("aria-level", "2")
    keys.press("ArrowLeft")
    keys.press("ArrowLeft")
    expect(here(page)).to_have_attribute("aria-expanded", "false")

    keys.press("/")
    keys.type("quokka")
    expect(page.test_id("tree-found")).to_have_text("1 of 2")
    keys.press("Enter")
    expect(page.test_id("tree-found")).to_have_text("2 of 2")
    expect(row(page, hidden)).to_have_attribute("data-here", "true")
    expect(row(page, hidden).locator("mark")).to_have_text("quokka")
    expect(row(page, hidden)).to_have_attribute("aria-level", re.compile("[3-9]"))
    keys.press("ArrowDown")
    expect(tree).to_be_focused()
    expect(tree).to_have_attribute("aria-activedescendant", f"pc-tree-{hidden}")
    keys.press("Enter")
    expect(page.page.locator(f"[data-testid=message][data-message-id='{hidden}']")).to_be_in_viewport()
    expect(row(page, hidden)).to_have_attribute("aria-current", "true")
    expect(tree).to_be_focused()

    box = page.test_id("tree-map").bounding_box()
    assert box is not None
    page.page.mouse.click(box["x"] + 20, box["y"] + 8)
    expect(row(page, chat.spine[0])).to_be_in_viewport()
    page.page.get_by_role("button", name="My questions").click()
    expect(page.page.locator(f"{ROWS}[data-role=assistant]")).to_have_count(0)
    page.page.get_by_role("button", name="Branch points").click()
    expect(page.page.locator(f"{ROWS}[data-role=assistant] .version").first).to_be_visible()
    keys.press("Escape")
    expect(page.page.locator("#pc-tree")).to_be_hidden()
    expect(page.page.locator("#pc-kv")).not_to_have_attribute("inert", "")


def test_a_tree_follows_what_happens_and_does_what_a_menu_does(
    same_page: PageDriver, open_page: Callable[..., PageDriver], server: PageServer
) -> None:
    chat, replies = same_page, iter("abcdefgh")
    server.client.replies = lambda request: f"reply {next(replies)}"
    chat.ask("first question")
    chat.ask("second question")
    chat.page.get_by_role("button", name="Tree").click()
    rows = chat.page.locator(ROWS)
    expect(rows.locator(".words")).to_have_text(["first question", "reply a", "second question", "reply b"])
    other = open_page("?session=" + chat.session_id)
    other.regenerate(other.messages("assistant").first, "2/2")
    chat.front()
    expect(rows.locator(".words")).to_have_text(["first question", "reply c", "1 other version, 3 messages"])
    rows.last.click()
    unfolded = ["first question", "reply c", "1 other version, 3 messages", "reply a", "second question", "reply b"]
    expect(rows.locator(".words")).to_have_text(unfolded)
    other.front().ask("third question")
    chat.front()
    expect(rows.locator(".words")).to_have_text([*unfolded, "third question", "reply d"])
    expect(rows.filter(has_text="1 other version")).to_have_attribute("aria-expanded", "true")

    reply_a = rows.filter(has_text="reply a")
    reply_a.click(button="right")
    chat.test_id("tree-compare-shown").click()
    dialog = chat.test_id("compare")
    expect(dialog).to_contain_text("The shown branch")
    expect(dialog.locator("mark.ours").first).to_have_text("c")
    chat.page.keyboard.press("Escape")
    reply_a.click()
    expect(chat.page.locator("[data-testid=message] .body").nth(1)).to_have_text("reply a")
    expect(rows.first).to_contain_text("first question")
    chat.page.keyboard.press("Delete")
    expect(rows.filter(has_text="reply a")).to_have_count(0)
    chat.undo()
    expect(rows.filter(has_text="reply a")).to_have_count(1)
    chat.page.get_by_role("button", name="Close the tree").click()
    expect(chat.page.locator("#pc-tree")).to_be_hidden()


def test_on_a_phone_the_tree_is_over_the_chat_and_goes_when_a_message_is_chosen(
    same_page: PageDriver, server: PageServer
) -> None:
    chat = same_page
    chat.ask("on a phone")
    chat.page.set_viewport_size({"width": 390, "height": 844})
    chat.page.get_by_role("button", name="Tree").click()
    tree = chat.page.locator("#pc-tree")
    expect(tree).to_be_visible()
    box = tree.bounding_box()
    assert box is not None and box["width"] == 390
    chat.page.locator(ROWS).first.click()
    expect(tree).to_be_hidden()
    expect(chat.messages("user")).to_be_in_viewport()
    chat.page.set_viewport_size({"width": 1480, "height": 920})


GAPS = """() => import('/ui/static/compare_cells.js').then(({ paragraphRow }) => {
    const items = (words) => words.map((one) => `<li>${one}</li>`).join("\\n");
    const list = (...words) => ({ text: words.join(" "), html: `<ul>\\n${items(words)}\\n</ul>` });
    const lists = [list("One two", "Same words here"), list("One two", "three four", "five", "Same words here")];
    const { element } = paragraphRow(lists, false, [true, true]);
    return [...element.querySelectorAll("mark")].map((mark) => mark.textContent);
})"""


def test_three_versions_are_compared_and_one_of_them_is_shown(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    same = "A paragraph that all of them have."
    texts = [
        f"A {colour} boat on a lake.\n\n{same}\n\n{same}!\n\n{same}?\n\nIt sails {way}."
        for colour, way in (("red", "home"), ("blue", "home"), ("red", "away"))
    ]
    texts[2] += "\n\nFins, scales, gills: fishes!"
    replies = iter(texts)
    server.client.replies = lambda request: next(replies)
    chat.ask("Name a boat")
    for place in ("2/2", "3/3"):
        chat.regenerate(chat.messages("assistant"), place)
    chat.message_menu(chat.messages("assistant"), "compare-versions")
    dialog, said = chat.test_id("compare"), chat.test_id("compare-said")
    expect(dialog.locator("[role=columnheader]")).to_have_count(2)
    chat.test_id("compare-add").click()
    heads = dialog.locator("[role=columnheader]")
    expect(heads).to_have_count(3)
    expect(heads.first).to_contain_text("Version 1 of 3")
    expect(heads.first.get_by_test_id("compare-facts")).to_contain_text("fake-model")
    expect(heads.first.get_by_test_id("compare-facts")).to_contain_text("tokens")
    expect(dialog.locator("mark.ours")).to_have_text(["red", "home"])
    expect(dialog.locator("mark.theirs")).to_have_text(["blue", "away"])
    decoration = "(mark) => getComputedStyle(mark).textDecorationLine + getComputedStyle(mark).textDecorationStyle"
    assert dialog.locator("mark.ours").first.evaluate(decoration) == "underlinedotted"
    assert dialog.locator("mark.theirs").first.evaluate(decoration) == "underlinesolid"
    expect(dialog.locator("[data-apart]")).to_have_text(re.compile("^≠.*Fins"))
    expect(said).to_have_text("3 differences")
    chat.page.keyboard.press("n")
    chat.page.keyboard.press("n")
    expect(said).to_contain_text("2 of 3")
    expect(said).to_contain_text("Column 3: away")
    expect(dialog.locator("mark.now")).to_have_text(["home", "away"])
    expect(dialog).not_to_contain_text("all of them have")
    chat.test_id("compare-unfold").click()
    expect(dialog.get_by_text(same, exact=True)).to_have_count(3)
    chat.test_id("compare-plain").click()
    expect(dialog.locator("mark.theirs")).to_have_text(["blue", "away"])
    assert chat.page.evaluate(GAPS) == ["three four", "five"], "between two items of a list nothing is marked"
    heads.nth(1).get_by_test_id("compare-select").click()
    expect(dialog).to_have_count(0)
    expect(chat.messages("assistant").get_by_test_id("sibling-label")).to_have_text("2/3")
