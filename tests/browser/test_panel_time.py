"""The time bar, the list of events and the marks in the grid: any moment is shown as it was."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from support.page_driver import PageDriver
from support.page_server import PageServer
from support.pool_scripts import PoolWatch, pin, preempt
from support.pool_story import PoolReference, moment_of

DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
EVENT = """async () => { const { replay, grid } = window.pagedchat.page.panel;
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())));
  return { ...replay.event, from: grid.element.dataset.from, to: grid.element.dataset.to }; }"""
STATES = "() => { const { state, refs } = window.pagedchat.page.panel.grid.model; return [[...state], [...refs]]; }"
BASE = "() => window.pagedchat.page.panel.replay.recorder.base.seq"


@pytest.fixture
def watch(server: PageServer) -> Iterator[PoolWatch]:
    with PoolWatch(server.client) as watch:
        yield watch


@pytest.fixture
def page(same_page: PageDriver) -> Iterator[PageDriver]:
    """The page, its record begun anew, at now."""
    same_page.page.evaluate("() => { const p = pagedchat.page.panel; p.replay.recorder.begin(p.model, 1); }")
    same_page.page.evaluate(
        "() => { const { replay } = pagedchat.page.panel; replay.setOnlyChat(false); replay.close(); }"
    )
    yield same_page
    same_page.page.evaluate("() => pagedchat.page.panel.replay.close()")


def settled(page: PageDriver, server: PageServer) -> int:
    """Wait until the page has drawn the engine's last event; its number."""
    seq = server.do(server.client.books())["seq"]
    expect(page.test_id("kv-grid")).to_have_attribute("data-seq", str(seq))
    return seq


def ask_elsewhere(server: PageServer, text: str) -> None:
    """A question in another new chat; returns when its reply has given its blocks back."""

    async def ask() -> None:
        session = (await server.service.create_session())["id"]
        await server.service.send(session, None, text)
        while not any(one["labels"].get("session") == session for one in released()):
            await asyncio.sleep(0.002)

    def released() -> list[dict[str, Any]]:
        return [one for one in server.client.events[-50:] if one["type"] == "released"]

    server.do(ask())


def reference_at(page: PageDriver, server: PageServer, watch: PoolWatch, seq: int) -> PoolReference:
    """The pool at a moment, by a snapshot that the test took and the engine's own events after it."""
    begin = max(one for one in watch.snapshots if one <= seq)
    reference = PoolReference(watch.snapshots[begin])
    for event in server.client.kv_manager.events.since(begin) or []:
        if event["seq"] <= seq:
            reference.apply(event)
    return reference


def assert_shown(page: PageDriver, reference: PoolReference) -> None:
    """What is drawn and said is that moment."""
    expect(page.test_id("kv-grid")).to_have_attribute("data-seq", str(reference.seq))
    assert page.grid() == reference.totals()
    states, refs = page.page.evaluate(STATES)
    assert ("".join("fcas"[one] for one in states), refs) == ("".join(reference.states), reference.refs)
    legend = page.page.locator("#pc-kv .legend")
    for name in ("active", "shared", "cached", "free"):
        expect(legend.locator(f".{name} b")).to_have_text(f"{reference.totals()[name]:,}")


def look_at(page: PageDriver, kind: str) -> dict[str, Any]:
    """Click on the newest event of a kind in the list; what the page says of it."""
    page.test_id("kv-event-type").select_option(kind)
    page.page.locator(f".event.{kind}").first.click()
    page.test_id("kv-event-type").select_option("")
    found = page.page.evaluate(EVENT)
    assert found["type"] == kind
    return found


def words(page: PageDriver) -> str:
    page.page.evaluate(DRAWN)
    return page.test_id("kv-moment-words").inner_text()


def test_a_fork_its_first_write_and_its_copy_are_seen_step_by_step(
    page: PageDriver, server: PageServer, watch: PoolWatch
) -> None:
    client = server.client
    client.replies = lambda request: f"{len(client.requests)} words of a reply, other than those before. "
    page.ask("A question whose blocks are shared by two replies to it")
    page.regenerate(page.messages("assistant").last, "2/2")
    now = settled(page, server)
    page.panel_tab("events")
    copied = look_at(page, "copied")
    told = next(one for one in reversed(client.events) if one["type"] == "copied")
    source, target = told["blocks"]
    assert (copied["from"], copied["to"]) == (str(source), str(target)) and source != target
    assert f"block {source} was copied to block {target}" in words(page)
    page.test_id("kv-step-back").click()
    shared = page.page.evaluate(EVENT)
    assert shared["type"] == "shared" and shared["to"].split() and "took block" in words(page)
    kinds = []
    for seq in range(shared["seq"], now + 1):
        assert_shown(page, reference_at(page, server, watch, seq))
        if seq in watch.snapshots:
            assert moment_of(watch.snapshots[seq])["refs"] == page.page.evaluate(STATES)[1]
        kinds.append(page.page.evaluate(EVENT)["type"])
        if seq < now:
            page.test_id("kv-step-on").click()
    at = kinds.index("copied")
    assert kinds[at : at + 2] == ["copied", "released"] and "stored" in kinds[at:], kinds
    expect(page.test_id("kv-step-on")).to_have_attribute("aria-disabled", "true")
    expect(page.page.locator("#pc-kv .lamp")).to_have_text("the past")


def test_evictions_pins_preemption_and_a_stopped_reply_are_seen(
    page: PageDriver, server: PageServer, watch: PoolWatch
) -> None:
    client = server.client
    for number in range(8):  # more than the pool holds
        ask_elsewhere(server, f"{number} " * 1_000)
    client.replies, client.gate = ("a reply that is stopped",), asyncio.Event()
    page.send("To be stopped")
    expect(page.test_id("kv-grid")).not_to_have_attribute("data-active", "0")
    server.call(preempt, client)
    page.test_id("stop").click()
    page.wait_done()
    cached = [block for block in range(800) if client.kv_manager.pool.is_evictable(block)][-2:]
    server.call(pin, client, cached, True)
    server.call(pin, client, cached, False)
    settled(page, server)
    page.panel_tab("events")
    said = {}
    for kind in ("evicted", "preempted", "restored", "pinned", "unpinned", "released"):
        event = look_at(page, kind)
        said[kind] = words(page)
        assert_shown(page, reference_at(page, server, watch, event["seq"]))
        raw = next(one for one in client.events if one["seq"] == event["seq"])
        assert event["to"] == " ".join(map(str, raw["blocks"]))
    assert "held was given up" in said["evicted"]
    assert said["preempted"].startswith("The pool is full: this chat loses its blocks")
    assert said["restored"].startswith("This chat runs again")
    assert "pinned: kept whatever else is needed" in said["pinned"] and "no longer pinned" in said["unpinned"]
    assert "This chat gave block" in said["released"]


def test_the_past_is_left_by_a_click_or_escape_and_events_go_on_meanwhile(
    page: PageDriver, server: PageServer, watch: PoolWatch
) -> None:
    page.ask("The first of two")
    seq = settled(page, server)
    leave, bar = page.test_id("kv-live"), page.test_id("kv-time")
    expect(bar).to_have_attribute("data-state", "live")
    leave.click()  # pause
    expect(bar).to_have_attribute("data-state", "past")
    expect(bar).to_contain_text(re.compile(r"\d\d:\d\d:\d\d\.\d{3}, (just now|\d+ )"))
    page.ask("The second of two")
    later = server.do(server.client.books())["seq"]
    expect(page.test_id("kv-moment")).to_have_attribute("max", re.compile(str(later - page.page.evaluate(BASE))))
    expect(page.test_id("kv-grid")).to_have_attribute("data-seq", str(seq))
    leave.click()
    expect(page.test_id("kv-grid")).to_have_attribute("data-seq", str(later))
    page.test_id("kv-step-back").click()
    assert_shown(page, reference_at(page, server, watch, later - 1))
    gauges = page.page.locator("#pc-kv .gauges b")
    expect(gauges.nth(1)).to_have_text("–")  # what was not told of this moment
    expect(gauges.nth(2)).to_have_text("0")
    page.page.keyboard.press("Escape")
    expect(bar).to_have_attribute("data-state", "live")
    assert_shown(page, reference_at(page, server, watch, later))


def test_how_long_ago_a_moment_was_is_told_anew_and_ages_of_blocks_are_of_now_only(
    page: PageDriver, server: PageServer
) -> None:
    page.ask("Something that soon was a while ago")
    settled(page, server)
    page.test_id("kv-live").click()
    page.test_id("kv-mode-age").click()
    note, legend = page.test_id("kv-grid").get_by_role("status"), page.test_id("kv-mode-legend")
    expect(note).to_have_text("Ages are known of now only.")
    expect(legend).to_be_hidden()
    page.test_id("kv-mode-reuse").click()
    expect(note).to_have_text("Reuse is known of now only.")
    ago = page.page.locator("#pc-kv .time-line .time")
    expect(ago).to_have_text(re.compile(r", (just now|\d+ s ago)$"))
    told = ago.inner_text()
    expect(ago).not_to_have_text(told)  # nothing happens meanwhile
    expect(ago).to_have_text(re.compile(r", \d+ s ago$"))
    page.test_id("kv-live").click()
    expect(note).to_be_hidden()
    expect(legend).to_contain_text("never")
    page.test_id("kv-mode-owner").click()
    expect(legend).not_to_contain_text("never")


def test_the_slider_is_a_slider_in_words_and_play_stops_at_now(page: PageDriver, server: PageServer) -> None:
    page.ask("Some events")
    settled(page, server)
    slider = page.page.get_by_role("slider", name="Moment")
    expect(slider).to_have_attribute("aria-valuetext", "now")
    slider.focus()
    page.page.keyboard.press("Home")
    expect(page.test_id("kv-moment-words")).to_have_text("The beginning of what is kept.")
    page.page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^\d\d:\d\d:\d\d\.\d{3}\. .*block.*\(1\sof\s"))
    page.page.keyboard.press("End")
    page.page.keyboard.press("ArrowLeft")
    page.test_id("kv-play").click()
    expect(page.test_id("kv-play")).to_have_attribute("aria-label", "Stop playing")
    expect(page.test_id("kv-time")).to_have_attribute("data-state", "live")
    expect(page.test_id("kv-play")).to_have_attribute("aria-label", "Play the events")


def test_steps_can_lead_from_one_event_of_this_chat_to_the_next(page: PageDriver, server: PageServer) -> None:
    page.ask("Mine, the first")
    mine = page.session_id
    ask_elsewhere(server, "Not mine, and long enough for a block of its own")
    page.ask("Mine, the second")
    settled(page, server)
    part = page.panel_tab("events")
    page.test_id("kv-only-chat").click()
    expect(page.test_id("kv-events-of-chat")).to_be_checked()
    expect(part.locator(".event").first).to_contain_text("this chat")
    for _ in range(12):
        page.test_id("kv-step-back").click()
        event = page.page.evaluate("() => pagedchat.page.panel.replay.event")
        assert event is None or event["owner"] == mine
    page.test_id("kv-events").focus()
    page.page.keyboard.press("Home")
    newest = part.locator(".event[aria-selected=true]")
    expect(newest).to_contain_text("released")
    expect(part.locator("[role=listbox]")).to_have_attribute(
        "aria-activedescendant", newest.get_attribute("id") or "missing"
    )


def test_an_event_tells_what_it_means_and_stays_in_a_low_window(page: PageDriver, server: PageServer) -> None:
    for number in range(4):
        page.ask(f"Question {number} of a chat with more events than a low window has room for. " * 2)
    settled(page, server)
    part = page.panel_tab("events")
    length = "(list) => list.scrollHeight - list.clientHeight"
    assert page.test_id("kv-events").evaluate(length) > 200, "the list of this test must be longer than its window"
    stored = part.locator(".event.stored").first
    expect(stored).to_have_attribute("title", re.compile("^Blocks? .* can be found by other requests from now on"))
    page.page.set_viewport_size({"width": 1366, "height": 768})
    try:
        page.test_id("kv-time").evaluate("(bar) => bar.scrollIntoView({ block: 'center' })")
        for _ in range(12):
            page.test_id("kv-step-back").click()
            page.page.evaluate(DRAWN)
            expect(part.locator(".event[aria-selected=true]")).to_be_in_viewport(ratio=0.9)
    finally:
        page.page.set_viewport_size({"width": 1480, "height": 920})


def test_what_was_not_seen_while_the_panel_was_closed_is_a_gap(page: PageDriver, server: PageServer) -> None:
    page.ask("Before")
    settled(page, server)
    page.page.locator("#pc-blocks").click()
    expect(page.page.locator("#pc")).to_have_attribute("data-panel", "closed")
    page.ask("Unseen")
    page.page.locator("#pc-blocks").click()
    seq = settled(page, server)
    page.ask("After")
    settled(page, server)
    page.panel_tab("events").locator(".event.gap").first.click()
    expect(page.test_id("kv-moment-words")).to_contain_text("were not seen")
    expect(page.test_id("kv-grid")).to_have_attribute("data-seq", str(seq))
    page.test_id("kv-step-back").click()
    expect(page.test_id("kv-moment-words")).to_contain_text("gave block")
