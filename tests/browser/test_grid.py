"""The grid of a large pool: what it draws, colours and lists is what the engine's snapshot of the same moment says."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from pagedchat.ui.kv_feed import page_event
from pagedchat.ui.kv_packing import pack_events
from support.filled_pool import fill
from support.page_driver import PageDriver
from support.page_server import PageServer
from support.paged_client import PagedFakeClient

NUM_BLOCKS = 5_000
STATES = "fcas"
MODEL = """() => { const { state, refs, pins } = window.pagedchat.page.panel.model;
    return { states: [...state], refs: [...refs], pins: [...pins].sort((a, b) => a - b) }; }"""
DRAWN = """() => {
    const { grid } = window.pagedchat.page.panel;
    grid.draw();
    const { canvas, from, to, columns, size, top, ratio, model } = grid;
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data, width } = copy.getImageData(0, 0, canvas.width, canvas.height);
    const cells = [];
    for (let block = from; block < to; block++) {
        const x = (block % columns + 0.45) * size, y = (Math.floor(block / columns) + 0.45) * size - top;
        const pixel = Math.floor(y * ratio) * width + Math.floor(x * ratio);
        if (y > 0 && y < grid.viewHeight) cells.push([block, data[4 * pixel + 3] > 0]);
    }
    return cells;
}"""
SCROLL = """(block) => { const { box, columns, size } = window.pagedchat.page.panel.grid;
    box.scrollTop = Math.floor(block / columns) * size; }"""
AGES = """() => { const { ages } = window.pagedchat.page.panel;
    return { seq: ages.seq, born: [...ages.born], reuses: [...ages.reuses] }; }"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    client = PagedFakeClient(num_blocks=NUM_BLOCKS)
    fill(client, NUM_BLOCKS // 2, longest=120)
    history = client.kv_manager.pool.history
    for block in range(NUM_BLOCKS):
        history.born[block] -= 7_200 * (block % 4)
    with PageServer(tmp_path_factory.mktemp("grid"), client) as server:
        yield server


@pytest.fixture(scope="module")
def shown(chromium: Browser, large: PageServer) -> Iterator[PageDriver]:
    context = chromium.new_context(viewport={"width": 1480, "height": 920})
    driver = PageDriver(context.new_page(), large.url).goto()
    yield driver
    assert driver.errors == []
    context.close()


@pytest.fixture
def chat(shown: PageDriver, large: PageServer) -> Iterator[PageDriver]:
    """A page with a new chat, its grid as it was at first."""
    large.client.replies, large.client.gate = ("Hello, this is a reply.",), None
    if shown.page.evaluate("window.pagedchat.page.chat.ids.length"):
        shown.new_chat()
    yield shown
    shown.test_id("kv-mode-owner").click()
    shown.page.evaluate("() => { const { grid } = window.pagedchat.page.panel; grid.chosen = null; grid.draw(); }")


def settle(chat: PageDriver, server: PageServer) -> dict[str, Any]:
    """The engine's snapshot, once the page has drawn that moment."""
    snapshot = server.do(server.client.snapshot())
    expect(chat.test_id("kv-grid")).to_have_attribute("data-seq", str(snapshot["seq"]))
    return snapshot


def legend(chat: PageDriver) -> dict[str, int]:
    """The numbers of the legend, by its words."""
    rows: list[list[str]] = chat.test_id("kv-mode-legend").evaluate(
        "(list) => [...list.children].map((row) => [row.children[1].textContent, row.children[2].textContent])"
    )
    return {words: int(number.replace(",", "")) for words, number in rows}


def test_all_figures_of_a_large_pool_are_those_of_the_snapshot(chat: PageDriver, large: PageServer) -> None:
    client = large.client
    client.replies, client.gate = (lambda request: "y" * 400), asyncio.Event()
    others = [large.do(large.service.create_session())["id"] for _ in range(3)]
    chat.send("Four chats that ask the same, long enough to share some of their blocks: what is a block?")
    for one in others:
        large.do(
            large.service.send(one, None, "Four chats that ask the same, long enough to share some of their blocks")
        )
    expect(chat.test_id("kv-grid")).not_to_have_attribute("data-shared", "0")
    large.call(client.kv_manager.set_pinned, [3, 4, 5], True)
    large.call(client._forward)
    snapshot = settle(chat, large)
    rows = snapshot["blocks"]
    assert snapshot["cached"] > NUM_BLOCKS // 3 and snapshot["shared"] and snapshot["free"]
    assert chat.grid() == {name: snapshot[name] for name in chat.grid()}
    model = chat.page.evaluate(MODEL)
    assert "".join(STATES[one] for one in model["states"]) == "".join(row["state"][0] for row in rows)
    assert model["refs"] == [row["ref_count"] for row in rows]
    assert model["pins"] == [3, 4, 5]
    owners = Counter(owner for row in rows for owner in row["owners"])
    told = legend(chat)
    assert len(owners) == 4 and Counter(told.values()) <= Counter(owners.values())
    assert told["this chat"] == owners[chat.session_id]
    sharing = sum(row["ref_count"] for row in rows) / snapshot["active"]
    expect(chat.page.locator(".gauges")).to_contain_text(f"{sharing:.1f}×")
    large.call(client.gate.set)
    chat.wait_done()
    large.call(client.kv_manager.set_pinned, [3, 4, 5], False)
    large.call(client._forward)


def test_scrolled_or_not_the_cells_in_view_are_the_right_ones(chat: PageDriver, large: PageServer) -> None:
    def assert_drawn() -> list[int]:
        cells: list[list[Any]] = chat.page.evaluate(DRAWN)
        rows = settle(chat, large)["blocks"]
        assert cells and [has for _, has in cells] == [rows[block]["state"] != "free" for block, _ in cells]
        return [block for block, _ in cells]

    whole = assert_drawn()
    assert whole[0] == 0 and len(whole) > NUM_BLOCKS // 2, "where all that is used fits, all is seen"
    for _ in range(5):
        chat.test_id("kv-grid-larger").click()
    chat.page.wait_for_function("() => window.pagedchat.page.panel.grid.size > 8")
    few = assert_drawn()
    assert len(few) < len(whole)
    chat.page.evaluate(SCROLL, few[-1] + 1)
    chat.page.wait_for_function("(block) => window.pagedchat.page.panel.grid.from > block", arg=few[0])
    later = assert_drawn()
    assert later[0] > few[0] and abs(few[-1] + 1 - later[0]) < 100, "what was below is on top now"
    point = "() => { const { grid } = window.pagedchat.page.panel; return [grid.blockAt(3, 3), grid.from]; }"
    found, first = chat.page.evaluate(point)
    assert found == first
    chat.page.evaluate("window.pagedchat.page.panel.pick(0)")
    chat.page.wait_for_function("() => window.pagedchat.page.panel.grid.from === 0")
    chat.page.evaluate("window.pagedchat.page.panel.pick(null)")


def test_ages_and_reuse_are_followed_from_event_to_event(chat: PageDriver, large: PageServer) -> None:
    chat.test_id("kv-mode-age").click()
    expect(chat.test_id("kv-mode-age")).to_have_attribute("aria-checked", "true")
    chat.page.wait_for_function("() => window.pagedchat.page.panel.ages.loaded")
    chat.ask("A question whose beginning is asked again, so that its blocks are found and taken again.")
    chat.regenerate(chat.messages("assistant").last, "2/2")
    chat.ask("And one more turn, which begins with all that was said before.")
    snapshot = settle(chat, large)
    ages = chat.page.evaluate(AGES)
    assert ages["seq"] == snapshot["seq"]
    held = [row for row in snapshot["blocks"] if row["state"] != "free"]
    assert [ages["reuses"][row["id"]] for row in held] == [row["reuses"] for row in held]
    assert max(row["reuses"] for row in held) >= 2
    now = chat.page.evaluate("Date.now() / 1000")
    assert [now - ages["born"][row["id"]] for row in held] == pytest.approx([row["born_s"] for row in held], abs=60)
    old = sum(row["born_s"] >= 3_600 for row in held)
    assert old > 1_000 and legend(chat)["1 h or more"] == old and sum(legend(chat).values()) == len(held)
    chat.test_id("kv-mode-age").press("ArrowRight")
    expect(chat.test_id("kv-mode-reuse")).to_be_focused()
    expect(chat.test_id("kv-mode-legend")).to_contain_text("10 or more")
    times = [row["reuses"] for row in held]
    told = {"never": 0, "once": 1, "2 or 3": 3, "4 to 9": 9}
    assert [legend(chat)[words] for words in list(told)[:2]] == [times.count(0), times.count(1)]
    assert legend(chat)["2 or 3"] == sum(one in (2, 3) for one in times)
    block = next(row["id"] for row in held if row["reuses"] >= 2)
    said = chat.page.evaluate("(block) => window.pagedchat.page.panel.grid.wordsOf(block)", block)
    assert re.search(r"\d \w+ old · taken again \d+ times", said), said


def test_what_is_held_long_for_little_is_listed_and_can_be_picked(chat: PageDriver, large: PageServer) -> None:
    chat.panel_tab("block")
    rows = large.do(large.client.idle(20))
    buttons = chat.test_id("idle-list").get_by_role("button")
    expect(buttons).to_have_count(20)
    assert [int(one) for one in buttons.evaluate_all("(all) => all.map((one) => one.dataset.block)")] == [
        row["id"] for row in rows
    ]
    first = buttons.first
    expect(first).to_contain_text(f"Block {rows[0]['id']}")
    expect(first).to_contain_text(re.compile(r"held [5-6] h \d+ min"))
    expect(first).to_contain_text("never reused" if not rows[0]["reuses"] else "reused")
    first.click()
    assert chat.page.evaluate("window.pagedchat.page.panel.picked") == rows[0]["id"]
    chat.page.evaluate("window.pagedchat.page.panel.pick(null)")
    chat.panel_tab("table")


def test_frames_of_events_are_unpacked_to_what_was_packed(chat: PageDriver) -> None:
    chance, seq, events = random.Random(4), 100, []
    for _ in range(300):
        blocks = chance.choice([[7], [1, 2], [5, 3, 9], list(range(40, 90)), list(range(90, 60, -1)), []])
        alike = chance.random() < 0.5
        seq += 1 if chance.random() < 0.98 else 5
        events.append(
            page_event(
                {
                    "seq": seq,
                    "time": 1_700_000_000 + chance.random() * 5,
                    "type": chance.choice(["allocated", "stored", "released", "evicted", "reset"]),
                    "blocks": blocks,
                    "ref_counts": [1 if alike else chance.randrange(3) for _ in blocks],
                    "states": "".join("a" if alike else chance.choice(STATES) for _ in blocks),
                    "num_tokens": chance.choice([None, 16]),
                    "labels": chance.choice([{}, {"session": "one"}, {"session": "two"}]),
                    "request_id": chance.choice([None, "r"]),
                }
            )
        )
    unpack = """async (frame) => { const { unpackedEvents } = await import("/ui/static/kv_unpacking.js");
        return unpackedEvents(JSON.parse(JSON.stringify(frame))); }"""
    for some in (events, events[:1], [events[0]]):
        assert chat.page.evaluate(unpack, pack_events(some)) == some
