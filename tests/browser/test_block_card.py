"""A block that is picked: the panel, the table and the chat tell of it what the engine tells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from pagedchat.ui.block_text import AWAY
from support.page_driver import PageDriver
from support.page_server import SAMPLE, PageServer

PANEL = "window.pagedchat.page.panel"
QUESTION = "Which words of a question lie in which block of the pool?"


@pytest.fixture
def asked(same_page: PageDriver, server: PageServer) -> Iterator[PageDriver]:
    """A chat with one turn, its table told in full."""
    server.client.replies = (SAMPLE,)
    same_page.ask(QUESTION)
    settle(same_page, server)
    yield same_page
    same_page.page.evaluate(f"() => {{ {PANEL}.pick(null); {PANEL}.tabs.choose('table'); }}")


def settle(chat: PageDriver, server: PageServer) -> list[int]:
    """The blocks of the shown branch, once the page has them and knows what they hold."""
    snapshot = server.do(server.client.snapshot())
    expect(chat.test_id("kv-grid")).to_have_attribute("data-seq", str(snapshot["seq"]))
    tokens = server.do(server.service.branch_tokens(chat.session_id))
    blocks = [row["block"] for row in server.do(server.client.branch(tokens))]
    chat.page.wait_for_function(
        f"(blocks) => {PANEL}.branch.table.physical.join() === blocks && {PANEL}.branch.table.parts.at(-1)?.message"
        " === window.pagedchat.page.chat.ids.at(-1)",
        arg=",".join(map(str, blocks)),
    )
    return blocks


def pick(chat: PageDriver, block: int) -> dict[str, Any]:
    """Pick a block; what the page has been told of it."""
    chat.page.evaluate(f"(block) => {PANEL}.pick(block)", block)
    chat.page.wait_for_function(f"(block) => {PANEL}.look.detail?.id === block", arg=block)
    return chat.page.evaluate(f"{PANEL}.look.detail")


def place_of(chat: PageDriver, block: int) -> tuple[float, float]:
    """Where a block is drawn."""
    left, top = chat.page.evaluate(
        f"""(block) => {{ const {{ canvas, columns, size, top }} = {PANEL}.grid;
        {PANEL}.grid.reveal(block);
        const box = canvas.getBoundingClientRect();
        const row = Math.floor(block / columns);
        return [box.left + (block % columns) * size + 3, box.top + row * size - (top ?? 0) + 3]; }}""",
        block,
    )
    return left, top


def cells(chat: PageDriver, part: str) -> list[int]:
    return (
        chat.test_id(f"block-{part}")
        .locator(".block-cell")
        .evaluate_all("(all) => all.map((one) => +one.dataset.block)")
    )


def test_a_click_shows_what_the_engine_knows_of_a_block(asked: PageDriver, server: PageServer) -> None:
    chat, blocks = asked, settle(asked, server)
    block = blocks[4]
    chat.page.mouse.click(*place_of(chat, block))
    card = chat.page.locator("#pc-kv-block")
    expect(card).to_be_visible()
    expect(card.get_by_test_id("block-title")).to_have_text(f"Block {block}")
    known = server.do(server.client.block(block))
    expect(card.get_by_test_id("block-says")).to_contain_text(
        f"tokens {4 * 16 + 1} to {5 * 16} of this branch: row 4 of its block table"
    )
    expect(card.locator(".chip")).to_have_text(
        [bytes([one]).decode().replace("\n", "↵") for one in known["token_ids"]], use_inner_text=False
    )
    assert cells(chat, "chain") == [*known["chain"], block] == blocks[:5]
    assert cells(chat, "after") == known["children"] == blocks[5:6]
    expect(card.locator(".block-who")).to_have_text("this chat: used before")
    expect(card.locator(".block-events li")).to_have_count(len(known["events"]))
    expect(card.locator(".block-events b")).to_have_text([event["type"] for event in known["events"]][::-1])
    row = chat.test_id("kv-table").locator("tr.picked")
    expect(row).to_have_attribute("data-physical", str(block))
    card.locator(".block-cell").first.click()
    expect(card.get_by_test_id("block-title")).to_have_text(f"Block {blocks[0]}")
    expect(chat.test_id("block-messages")).to_contain_text("you 1")
    card.get_by_role("button", name="Let go of the block").click()
    expect(card.get_by_test_id("block-title")).to_have_text("Block")
    expect(row).to_have_count(0)


def test_the_words_of_each_block_are_marked_in_the_chat(asked: PageDriver, server: PageServer) -> None:
    chat, marked = asked, ""
    question, reply = chat.page.evaluate("window.pagedchat.page.chat.ids")
    for row, block in enumerate(settle(chat, server)):
        told = pick(chat, block)
        assert told["row"] == row
        ranges = chat.page.evaluate(
            f"() => {PANEL}.inChat.ranges.map(({{ message, range }}) => [message.id, range.toString()])"
        )
        held = {place["message"]: place["text"] for place in told["places"]}
        for message, words in ranges:
            assert (message == question and words == held[question]) or message == reply
            marked += words if message == reply else ""
            plain = re.sub(r"[^\w]", "", held[message])
            assert re.sub(r"[^\w]", "", words) in plain or plain in re.sub(r"[^\w]", "", words), (words, held[message])
    shown = chat.page.evaluate(f"() => window.pagedchat.page.chat.items.get('{reply}').text.textContent")
    letters = re.sub(r"\W", "", shown)
    assert len(re.sub(r"\W", "", marked)) > 0.9 * len(letters), "next to every word belongs to a block"
    assert chat.page.evaluate("CSS.highlights.get('pc-block')?.size") >= 1
    chat.page.evaluate("window.pagedchat.page.chat.log.scrollTop = 0")
    chat.panel_tab("block").get_by_test_id("block-in-chat").click()
    chat.page.wait_for_function(
        f"""() => {{ const box = window.pagedchat.page.chat.log.getBoundingClientRect();
        const place = {PANEL}.inChat.ranges[0].range.getBoundingClientRect();
        return place.top >= box.top && place.bottom <= box.bottom; }}"""
    )
    chat.page.evaluate(f"{PANEL}.pick(null)")
    assert chat.page.evaluate("CSS.highlights.has('pc-block')") is False


def test_the_grid_and_the_table_are_picked_from_by_keyboard(asked: PageDriver, server: PageServer) -> None:
    chat, blocks = asked, settle(asked, server)
    canvas = chat.test_id("kv-grid-cells")
    canvas.focus()
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft"):
        chat.page.keyboard.press(key)
    assert chat.page.evaluate(f"{PANEL}.picked") == 1
    expect(canvas).to_have_attribute("aria-valuenow", "1")
    expect(canvas).to_have_attribute("aria-valuetext", re.compile(r"^Block 1 · (cached|free)"))
    chat.page.keyboard.press("Escape")
    assert chat.page.evaluate(f"{PANEL}.picked") is None
    chat.panel_tab("table")
    table = chat.test_id("kv-table")
    table.focus()
    chat.page.keyboard.press("End")
    chat.page.keyboard.press("ArrowUp")
    expect(table.locator("tr.at")).to_have_attribute("data-logical", str(len(blocks) - 2))
    expect(table).to_have_attribute("aria-activedescendant", "pc-kv-row")
    chat.page.keyboard.press("Enter")
    assert chat.page.evaluate(f"{PANEL}.picked") == blocks[-2]
    expect(table.locator("tr.picked")).to_have_attribute("data-physical", str(blocks[-2]))
    chat.page.keyboard.press("Escape")
    expect(table.locator("tr.picked")).to_have_count(0)


def test_rows_say_which_message_they_hold_and_a_message_shows_its_blocks(asked: PageDriver, server: PageServer) -> None:
    chat = asked
    server.client.replies = ("A second reply, of a few blocks, to be found again.",)
    chat.ask("And another question")
    blocks = settle(chat, server)
    parts = server.do(server.service.blocks.parts(chat.session_id))
    names = [
        ", ".join(one["name"] for one in parts if one["first"] < 16 * row + 16 and one["end"] > 16 * row)
        for row in range(len(blocks))
    ]
    chat.panel_tab("table")
    table = chat.test_id("kv-table")
    expect(table.locator("tbody tr").first.locator(".holds")).to_have_text(names[0])
    table.focus()
    chat.page.keyboard.press("End")
    expect(table.locator("tbody tr").last.locator(".holds")).to_have_text(names[-1])
    chat.page.evaluate("window.pagedchat.page.layout.togglePanel()")
    chat.message_menu(chat.messages("assistant").last, "show-blocks")  # opens the panel, too
    held = [blocks[row] for row, name in enumerate(names) if "reply 2" in name]
    expect(table.locator("tr.picked")).to_have_attribute("data-physical", str(held[0]))
    assert table.locator("tr.of-run").evaluate_all("(all) => all.map((one) => +one.dataset.physical)") == held
    assert chat.page.evaluate(f"[...{PANEL}.grid.marked]") == held


def test_the_tip_of_the_grid_tells_the_first_words(asked: PageDriver, server: PageServer) -> None:
    chat, blocks = asked, settle(asked, server)
    chat.page.mouse.move(*place_of(chat, blocks[1]))
    expect(chat.page.locator(".grid .tip .words")).to_have_text(f"“{QUESTION[15:31].strip()}”")
    assert chat.page.evaluate(f"[...{PANEL}.gridWords.known.keys()]") == [blocks[1]]


def test_away_from_this_computer_the_panel_tells_no_text_of_any_chat(
    context: BrowserContext, server: PageServer, same_page: PageDriver
) -> None:
    secret = "violet marmalade beneath the lighthouse"
    server.client.replies = (f"The answer is {secret}, and nobody else may read that.",)
    other = server.do(server.service.create_session())["id"]
    sent = server.do(server.service.send(other, None, "Where is it?"))
    server.do(server.service.core.jobs[sent["reply"]["id"]].done.wait())
    rows = server.do(server.client.branch(server.do(server.service.branch_tokens(other))))
    here = same_page
    assert secret[:6] in "".join(one["text"] for row in rows for one in pick(here, row["block"])["pieces"])
    away = PageDriver(context.new_page(), f"http://away.localhost:{server.port}")
    frames: list[str] = []
    away.page.on("websocket", lambda socket: socket.on("framereceived", lambda data: frames.append(str(data))))
    away.goto("?session=")
    away.page.wait_for_function(f"{PANEL}.model.loaded")
    for row in rows:
        told = pick(away, row["block"])
        assert told["pieces"] is None and told["why"] == AWAY and told["places"] == []
        assert (
            away.page.evaluate("(block) => window.pagedchat.page.socket.call('kv_words', { block })", row["block"])
            == ""
        )
    away.panel_tab("block")
    expect(away.test_id("block-why")).to_have_text(AWAY)
    assert away.errors == [] and frames
    heard = json.dumps(frames)
    assert not any(word in heard for word in ("violet", "marmalade", "lighthouse"))
    for host, wanted in ((f"away.localhost:{server.port}", False), (f"127.0.0.1:{server.port}", True)):
        answer = here.page.request.get(
            f"{server.url}/api/kv/block?id={rows[1]['block']}", headers={"host": host}
        ).json()
        assert ("text" in answer, "token_ids" in answer, "why" in answer) == (wanted, wanted, not wanted)
