"""The tree of prefixes and the line that says why something is not cached: what is shown is what the engine says."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Locator, expect

from support.page_driver import PageDriver
from support.page_server import PageServer

LONG = "A question that is long enough to fill a few blocks of the pool, whatever comes after it."


def numbered(server: PageServer) -> None:
    """Each reply is another one."""
    client = server.client
    client.replies = lambda request: f"{len(client.requests)} is the number of this reply, and it is long enough."


def rows(chat: PageDriver) -> Locator:
    return chat.test_id("kv-prefix-tree").get_by_role("treeitem")


def branches(server: PageServer, session_id: str) -> list[list[int | None]]:
    """The block table of each branch of a chat, from the engine."""
    outline = server.do(server.service.outline.outline(session_id))
    leaves = [one for at, one in enumerate(outline["ids"]) if at not in outline["parents"]]
    tables = []
    for leaf in leaves:
        ids = server.do(server.service.branch_tokens(session_id, leaf))
        found = server.do(server.client.branch(ids, server.service.salt(session_id)))
        tables.append([row["block"] for row in found])
    return tables


def drawn(chat: PageDriver) -> list[list[int | None]]:
    """The block table of each branch, read from the tree on the page: from each end up to the beginning."""
    found = rows(chat).evaluate_all(
        "(all) => all.map((one) => [one.dataset.blocks, Number(one.getAttribute('aria-level'))])"
    )
    tables, path = [], []
    for at, (blocks, level) in enumerate(found):
        path = [*path[: level - 1], [int(one) if one else None for one in blocks.split(" ")]]
        if at + 1 == len(found) or found[at + 1][1] <= level:
            tables.append([block for part in path for block in part])
    return tables


def settle(chat: PageDriver, server: PageServer, count: int) -> list[list[int | None]]:
    """Wait until the tree has so many rows and is as the engine's blocks are now; the tables of all branches."""
    chat.panel_tab("prefixes")
    expect(rows(chat)).to_have_count(count)
    tables = branches(server, chat.session_id)
    chat.page.wait_for_function(
        "(seq) => window.pagedchat.page.panel.prefixes.tree.asked?.endsWith(` ${seq}`)",
        arg=server.do(server.client.snapshot())["seq"],
    )
    assert sorted(drawn(chat), key=str) == sorted(tables, key=str)
    return tables


def fact(chat: PageDriver, term: str) -> Locator:
    return chat.test_id("kv-prefix-facts").locator(f"dt:text-is('{term}') + dd")


def run_of(message: dict[str, Any]) -> dict[str, Any]:
    return message["generation"]


def test_two_replies_show_what_they_share_and_what_the_fork_cost(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    numbered(server)
    chat.ask(LONG)
    chat.regenerate(chat.messages("assistant").last, "2/2")
    first, second = settle(chat, server, 3)
    shared = sum(one == other for one, other in zip(first, second, strict=False))
    expect(rows(chat).first).to_contain_text(f"you 1{shared} blocks · 2 branches")
    expect(rows(chat).nth(1)).to_contain_text(f"reply 1 (1/2){len(first) - shared} blocks · own")
    expect(rows(chat).nth(2)).to_have_class(re.compile("shown"))
    expect(rows(chat).nth(1)).not_to_have_class(re.compile("shown"))
    reply = server.do(server.service.open(chat.session_id))["messages"][-1]
    made = run_of(reply)
    computed = made["prompt_tokens"] - made["cached_tokens"]
    new, copied, reused = (made[f"blocks_{kind}"] for kind in ("new", "copied", "shared"))
    told = (
        rf"^{new} new blocks?, {copied} copied on write, {reused} shared; {computed} of {made['prompt_tokens']} prompt"
    )
    expect(fact(chat, "The fork cost")).to_have_text(re.compile(told))
    expect(fact(chat, "Shares")).to_contain_text(
        f"{shared} blocks with reply 1 (1/2): logical 0–{shared - 1}, physical"
    )
    chat.action(chat.messages("assistant").last, "sibling-prev")
    expect(rows(chat).nth(1)).to_have_class(re.compile("shown"))


def test_three_levels_fold_and_are_gone_through_by_keys(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    numbered(server)
    chat.ask(LONG)
    chat.ask("Level two of this chat")
    chat.action(chat.messages("assistant").last, "regenerate")
    expect(chat.test_id("sibling-label")).to_have_text("2/2")
    chat.wait_done()
    chat.ask("Level three")
    chat.action(chat.messages("assistant").last, "regenerate")
    expect(chat.test_id("sibling-label").last).to_have_text("2/2")
    chat.wait_done()
    tables = settle(chat, server, 5)
    assert len(tables) == 3
    tree = rows(chat)
    tree.first.click()
    keys = chat.page.keyboard
    keys.press("ArrowDown")
    expect(tree.nth(1)).to_be_focused()
    expect(tree.nth(1)).to_have_attribute("aria-selected", "true")
    keys.press("End")
    expect(tree.last).to_be_focused()
    keys.press("ArrowLeft")
    expect(tree.nth(2)).to_be_focused()
    keys.press("ArrowLeft")
    expect(tree).to_have_count(3)
    expect(tree.nth(2)).to_have_attribute("aria-expanded", "false")
    keys.press("ArrowRight")
    expect(tree).to_have_count(5)
    last = tree.last.get_attribute("data-blocks") or ""
    tree.last.click()
    marked = chat.page.evaluate("[...window.pagedchat.page.panel.grid.marked].join(' ')")
    assert marked == last and last
    chat.page.get_by_role("button", name="Go to message").first.click()
    expect(chat.messages("assistant").last).to_be_in_viewport()


def test_a_picked_block_marks_its_run_and_a_cell_picks_its_block(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    numbered(server)
    chat.ask(LONG)
    chat.regenerate(chat.messages("assistant").last, "2/2")
    first, second = settle(chat, server, 3)
    block = second[-1]
    chat.page.evaluate("(block) => window.pagedchat.page.panel.pick(block)", block)
    expect(chat.page.locator(".prefix.picked")).to_have_count(1)
    expect(rows(chat).nth(2)).to_have_class(re.compile("picked"))
    rows(chat).first.locator(".bar").click(position={"x": 3, "y": 4})
    assert chat.page.evaluate("window.pagedchat.page.panel.picked") == first[0]
    expect(rows(chat).first).to_have_class(re.compile("picked"))
    chat.page.evaluate("() => window.pagedchat.page.panel.pick(null)")


def test_why_a_branch_is_not_cached_is_said_and_its_lost_blocks_are_outlined(
    same_page: PageDriver, server: PageServer
) -> None:
    chat = same_page
    numbered(server)
    chat.ask("No other chat begins like this one, and it has more than one block of tokens")
    why = chat.page.locator("#pc-kv-table [data-testid=kv-why]")
    chat.panel_tab("table")
    expect(why).to_contain_text("its last token was written, but is only computed when something follows")
    server.do(server.client.forget(chat.session_id))
    said = server.do(server.service.prefixes.why(chat.session_id))
    expect(why).to_contain_text(said["sentence"])
    assert "in your message 1, is not: it was never computed here" in said["sentence"]
    chat.test_id("composer").fill("Another message")
    expect(why).to_contain_text(re.compile("If you send this now: .* in your message 1, is not: it was never computed"))
    chat.test_id("composer").fill("")
    expect(why).not_to_contain_text("If you send this now")
    (table,) = settle(chat, server, 1)
    assert table.count(None) >= len(table) - 1, "the first block may still be there for another chat's header"
    expect(rows(chat)).to_contain_text(f"{table.count(None)} not in the pool")
    expect(rows(chat).locator(".bar i").last).to_have_class("missing")


def test_a_temporary_chat_has_a_tree_of_its_own(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    numbered(server)
    chat.ask(LONG)
    (kept,) = settle(chat, server, 1)
    chat.page.evaluate("window.pagedchat.page.create({ temporary: true })")
    chat.page.wait_for_function("window.pagedchat.page.session?.temporary")
    chat.ask(LONG)
    (table,) = settle(chat, server, 1)
    assert None not in table and not set(table) & set(kept), "nothing is shared with another chat"
    expect(rows(chat)).to_contain_text("you 1, reply 1")
    chat.page.keyboard.press("Control+k")
    chat.test_id("confirm").click()
    expect(rows(chat)).to_have_count(0)


def test_nothing_is_asked_while_the_tab_is_hidden(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    chat.panel_tab("events")
    chat.page.evaluate(
        """() => { const { act } = window.pagedchat.page.panel, { call } = act; window.asked = [];
        act.call = (op, args) => { window.asked.push(op); return call(op, args); };
        const { tree, why } = window.pagedchat.page.panel.prefixes;
        for (const one of [tree, why]) one.act.call = act.call; }"""
    )
    chat.ask(LONG)
    chat.page.wait_for_function("window.pagedchat.page.panel.model.counts[1] > 0")
    assert not {"kv_tree", "kv_why"} & set(chat.page.evaluate("window.asked"))
    chat.panel_tab("prefixes")
    expect(rows(chat)).to_have_count(1)
    assert "kv_tree" in chat.page.evaluate("window.asked")
