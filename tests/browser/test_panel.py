"""Every number in the KV panel equals the engine's own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from support.page_driver import PageDriver
from support.page_server import PageServer


def settle(chat: PageDriver, server: PageServer) -> dict[str, Any]:
    """The engine's snapshot, once the page has drawn that moment."""
    snapshot = server.do(server.client.snapshot())
    expect(chat.test_id("kv-grid")).to_have_attribute("data-seq", str(snapshot["seq"]))
    return snapshot


def assert_equal(chat: PageDriver, snapshot: dict[str, Any]) -> None:
    """Counts, states and references on the page are those of the snapshot."""
    drawn = chat.grid()
    assert drawn == {name: snapshot[name] for name in drawn}
    model = chat.page.evaluate(
        "() => { const { state, refs } = window.pagedchat.page.panel.model; return [[...state], [...refs]]; }"
    )
    names = ["free", "cached", "active", "shared"]
    assert [names[one] for one in model[0]] == [block["state"] for block in snapshot["blocks"]]
    assert model[1] == [block["ref_count"] for block in snapshot["blocks"]]


def test_the_grid_equals_the_snapshot_before_during_and_after_replies(chat: PageDriver, server: PageServer) -> None:
    assert_equal(chat, settle(chat, server))
    client = server.client
    client.replies = lambda request: "x" * 60
    client.delay_s = 0.005
    chat.ask("The same beginning for all of these, long enough for some blocks. First.")
    client.gate = asyncio.Event()
    chat.send("Second turn")
    expect(chat.test_id("kv-grid")).not_to_have_attribute("data-active", "0")
    during = settle(chat, server)
    assert during["active"] > 0 and during["free"] + during["cached"] + during["active"] == during["num_blocks"]
    assert_equal(chat, during)
    server.call(client.gate.set)
    chat.wait_done()
    after = settle(chat, server)
    assert after["active"] == 0 and after["cached"] > 0
    assert_equal(chat, after)


def test_sharing_between_two_chats_shows_as_shared_blocks(chat: PageDriver, server: PageServer) -> None:
    client = server.client
    client.replies, client.gate = ("y" * 40,), asyncio.Event()
    question = "One long question that two chats ask at once, word by word, so that they share it"
    server.call(client.gate.set)
    chat.ask(question)
    server.call(client.gate.clear)
    first = server.do(server.service.create_session())
    second = server.do(server.service.create_session())
    for session in (first, second):
        server.do(server.service.send(session["id"], None, question))
    expect(chat.test_id("kv-grid")).not_to_have_attribute("data-shared", "0")
    server.call(client.gate.set)
    for session in (first, second):
        chat.open_chat(session["id"])
        chat.wait_done()
    assert_equal(chat, settle(chat, server))


def test_the_grid_follows_evictions(open_page: Callable[..., PageDriver], server: PageServer) -> None:
    server.client.replies = ("z",)
    chat = open_page()
    chat.new_chat()
    for number in range(7):
        chat.ask(f"{number} " * 1_000)
        chat.new_chat()
    kinds = {event["type"] for event in server.client.events}
    assert "evicted" in kinds, "this test must fill the pool"
    assert_equal(chat, settle(chat, server))


def test_the_block_table_has_one_row_a_logical_block(chat: PageDriver, server: PageServer) -> None:
    server.client.replies = ("Some reply text that fills a few blocks of the pool.",)
    chat.ask("A question for the block table")
    chat.ask("And another one")
    settle(chat, server)
    tokens = server.do(server.service.branch_tokens(chat.session_id))
    rows = server.do(server.client.branch(tokens))
    shown = chat.test_id("kv-table").locator("tbody tr")
    expect(shown).to_have_count(len(rows))
    for row, element in zip(rows, shown.all(), strict=True):
        expect(element).to_have_attribute("data-logical", str(row["logical"]))
        expect(element).to_have_attribute("data-physical", str(row["block"]))
        expect(element).to_have_attribute("data-count", str(row["ref_count"]))
        expect(element).to_have_attribute("data-tokens", str(row["num_tokens"]))


def test_the_heads_of_the_block_table_stay_while_it_scrolls(chat: PageDriver, server: PageServer) -> None:
    server.client.replies = ("Words of a long reply. " * 60,)
    chat.ask("A question with a long reply")
    settle(chat, server)
    heads = chat.test_id("kv-table").locator("th").first
    top = heads.bounding_box()
    table = chat.page.locator("#pc-kv-table .table-scroll")
    scrolled = table.evaluate("(holder) => { holder.scrollTop = 9999; return holder.scrollTop; }")
    assert scrolled > 100, "the table of this test must be longer than its window"
    assert heads.bounding_box() == top


def test_the_block_table_follows_the_shown_branch(chat: PageDriver, server: PageServer) -> None:
    server.client.replies = lambda request: f"{len(server.client.requests)} " * 30
    chat.ask("Branch twice")
    first = server.do(server.service.branch_tokens(chat.session_id))
    chat.action(chat.messages("assistant").last, "regenerate")
    expect(chat.test_id("sibling-label")).to_have_text("2/2")
    chat.wait_done()
    chat.test_id("sibling-prev").click()
    expect(chat.test_id("sibling-label")).to_have_text("1/2")
    rows = server.do(server.client.branch(first))
    blocks = [str(row["block"]) for row in rows]
    table = chat.test_id("kv-table").locator("tbody")
    expect(table.locator("tr").last).to_have_attribute("data-physical", blocks[-1])
    assert table.locator("tr").evaluate_all("(rows) => rows.map((row) => row.dataset.physical)") == blocks
    chat.ask("One more turn")
    settle(chat, server)
    whole = len(server.do(server.service.branch_tokens(chat.session_id)))
    expect(table.locator("tr")).to_have_count(-(-whole // 16))
    chat.action(chat.messages("assistant").first, "branch-here")
    expect(table.locator("tr")).to_have_count(len(blocks))  # what is set aside is not listed
    chat.page.get_by_test_id("branch-place").get_by_role("button", name="Back").click()
    expect(table.locator("tr")).to_have_count(-(-whole // 16))


def test_the_gauges_tell_hits_and_load(chat: PageDriver, server: PageServer) -> None:
    chat.ask("Hits, please")
    chat.regenerate(chat.messages("assistant").last, "2/2")
    stats = server.do(server.client.stats())
    share = 100 * stats["cached_tokens"] / stats["prompt_tokens"]
    expect(chat.page.locator(".gauges")).to_contain_text(f"{share:.1f} %")
    expect(chat.page.locator(".gauges")).to_contain_text("0 / 0")


def test_the_lamp_goes_out_when_the_books_do_not_balance(chat: PageDriver, server: PageServer) -> None:
    lamp = chat.page.locator(".lamp")
    chat.ask("All is well")
    expect(lamp).to_have_text("conserved")
    pool = server.client.kv_manager.pool

    def bend(step: int) -> None:
        pool.ref_counts[700] += step

    server.call(bend, 1)
    try:
        chat.ask("Something is wrong")
        expect(lamp).to_have_text("counts do not add up")
    finally:
        server.call(bend, -1)
    chat.ask("Mended")
    expect(lamp).to_have_text("conserved")


def test_a_closed_panel_and_a_hidden_tab_get_no_events(chat: PageDriver, server: PageServer) -> None:
    chat.page.locator("#pc-blocks").click()
    expect(chat.page.locator("#pc")).to_have_attribute("data-panel", "closed")
    chat.page.evaluate(
        """() => { window.kvFrames = 0; window.pagedchat.page.socket.socket.addEventListener('message',
            (message) => { if (JSON.parse(message.data).ev?.startsWith('kv')) window.kvFrames++; }); }"""
    )
    chat.ask("Nobody looks")
    chat.page.wait_for_timeout(900)
    assert chat.page.evaluate("window.kvFrames") == 0
    chat.page.locator("#pc-blocks").click()
    assert_equal(chat, settle(chat, server))


def test_what_sending_would_cost_is_said_before_sending(chat: PageDriver, server: PageServer) -> None:
    chat.ask("The first turn of a chat about costs")
    chat.test_id("composer").fill("The second turn")
    probe = chat.page.locator(".probe .cost")
    expect(probe).to_contain_text("If you send this now")
    said = probe.inner_text()
    chat.send("The second turn")
    chat.wait_done()
    stats = chat.messages("assistant").last.get_by_test_id("reply-stats").inner_text()
    cached = stats.split(" of ")[0]
    assert f"{cached} cached" in said, (said, stats)


def test_events_are_told_in_words(chat: PageDriver, server: PageServer) -> None:
    chat.ask("Tell me what happens")
    chat.panel_tab("events")
    settle(chat, server)
    home, title = chat.session_id, chat.page.evaluate("window.pagedchat.page.session.title")
    first = chat.page.locator(".event").first
    expect(first).to_contain_text("released")
    expect(first).to_contain_text("this chat")
    chat.new_chat()
    expect(first).to_contain_text(title)  # names are those of now
    chat.ask("Another chat")
    settle(chat, server)
    expect(first).to_contain_text("this chat")
    server.do(server.service.delete(home))
    model = "window.pagedchat.page.owners"
    chat.page.wait_for_function(f"(id) => {model}.nameOf(id).endsWith('(deleted)')", arg=home)


def test_what_a_block_is_and_whose_it_was_is_told(chat: PageDriver, server: PageServer) -> None:
    chat.ask("A question that fills some blocks of the pool")
    settle(chat, server)
    expect(chat.page.locator(".legend .mine")).to_have_text(re.compile(r"cached, this branch \d+"))
    block = chat.page.evaluate("[...window.pagedchat.page.panel.grid.branch][0]")
    point_at(chat, block)
    said, held = chat.page.locator(".grid .tip"), f"Block {block} · cached · 0 references"
    expect(said).to_contain_text(f"{held} · of this chat · 16 of 16 tokens")
    chat.new_chat()
    expect(chat.page.locator(".legend .mine")).to_be_hidden()
    point_at(chat, block)
    expect(said).to_have_text(re.compile(f"{held} · of A question"))
    expect(chat.page.locator(".lamp")).to_have_attribute("title", re.compile("free, cached and active"))


def test_on_a_phone_a_row_has_room_for_the_names_of_two_messages(chat: PageDriver) -> None:
    chat.ask("Is it short?")
    chat.page.set_viewport_size({"width": 390, "height": 844})
    chat.page.locator("#pc-blocks").click()
    holds = chat.page.locator("#pc-kv tbody .holds").first
    expect(holds).to_have_text("you 1, reply 1")
    assert holds.evaluate("(cell) => cell.clientWidth && cell.scrollWidth <= cell.clientWidth"), "it is cut"
    ends = chat.page.locator("#pc-kv thead tr").evaluate("(row) => [row.scrollWidth, row.clientWidth]")
    assert ends[0] <= ends[1], "the heads of the columns stick out"


def point_at(chat: PageDriver, block: int) -> None:
    """Move the pointer to a block of the grid."""
    left, top = chat.page.evaluate(
        """(block) => { const { canvas, columns, size } = window.pagedchat.page.panel.grid;
        const { left, top } = canvas.getBoundingClientRect();
        return [left + (block % columns) * size + 3, top + Math.floor(block / columns) * size + 3]; }""",
        block,
    )
    chat.page.mouse.move(left, top)
