"""Light and dark, wide and narrow, by keyboard, for screen readers, and long chats."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from support.page_driver import PageDriver
from support.page_server import PageServer


def overflow(chat: PageDriver) -> int:
    """How far anything sticks out of the page to the right, in pixels."""
    return chat.page.evaluate(
        """() => Math.max(0, ...[...document.querySelectorAll('.pc .main, .pc .main *')]
            .filter((one) => one.getClientRects().length && !one.closest('pre, .table-holder, math'))
            .map((one) => one.getBoundingClientRect().right - innerWidth))"""
    )


@pytest.mark.parametrize("width", [320, 390, 768, 1024, 1366])
def test_nothing_sticks_out_at_any_width(width: int, chromium: Browser, server: PageServer) -> None:
    server.client.replies = (
        "A word" * 60 + "\n\n```\n" + "x" * 300 + "\n```\n\n| a | b |\n|---|---|\n| " + "y" * 90 + " | z |",
    )
    context = chromium.new_context(viewport={"width": width, "height": 800})
    try:
        chat = PageDriver(context.new_page(), server.url).goto()
        chat.new_chat()
        chat.send("w" * 200)
        chat.wait_done()
        assert overflow(chat) <= 0
        assert chat.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        expect(chat.test_id("send")).to_be_in_viewport()
    finally:
        context.close()


FIRST_SEEN = """() => {
    const cover = getComputedStyle(document.body, '::before');
    return [cover.content, cover.backgroundColor, getComputedStyle(document.documentElement).colorScheme];
}"""


def test_on_a_phone_chats_and_panel_are_drawers(chromium: Browser, server: PageServer) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    try:
        chat = PageDriver(context.new_page(), server.url).goto()
        expect(chat.test_id("new-session")).not_to_be_in_viewport()
        chat.page.get_by_role("button", name="Show chats").click()
        expect(chat.test_id("new-session")).to_be_in_viewport()
        chat.test_id("new-session").click()
        expect(chat.test_id("new-session")).not_to_be_in_viewport()
        expect(chat.test_id("kv-panel")).not_to_be_in_viewport()
        chat.page.locator("#pc-blocks").click()
        expect(chat.test_id("kv-grid")).to_be_in_viewport()
        chat.page.keyboard.press("Escape")
        expect(chat.test_id("kv-panel")).not_to_be_in_viewport()
    finally:
        context.close()


def test_dark_follows_the_system_until_it_is_chosen(chromium: Browser, server: PageServer) -> None:
    context = chromium.new_context(color_scheme="dark")
    try:
        chat = PageDriver(context.new_page(), server.url)
        chat.page.route("**/ui/static/main.js", lambda _: None)  # never answered
        chat.page.goto(server.url, wait_until="domcontentloaded")
        assert chat.page.evaluate(FIRST_SEEN) == ['"Opening pagedchat…"', "rgb(23, 22, 20)", "dark"]
        chat.page.unroute("**/ui/static/main.js")
        chat.goto()
        assert chat.page.evaluate(FIRST_SEEN)[0] == "none"
        root = chat.page.locator("html")
        expect(root).to_have_attribute("data-theme", "dark")
        chat.page.get_by_role("button", name="Light theme").click()
        expect(root).to_have_attribute("data-theme", "light")
        chat.page.reload()
        expect(root).to_have_attribute("data-theme", "light")
    finally:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(scheme: str, chromium: Browser, server: PageServer) -> None:
    context = chromium.new_context(color_scheme=scheme, viewport={"width": 1480, "height": 920})  # type: ignore[arg-type]
    try:
        chat = PageDriver(context.new_page(), server.url).goto()
        chat.new_chat()
        server.client.replies = (
            "Some `code` and [a link](https://example.org).\n\n```python\n# why\nx = f(1, 'a')\n```",
        )
        chat.ask("Contrast?")
        assert chat.page.evaluate(CONTRAST) == []
    finally:
        context.close()


CONTRAST = """() => {
    const parts = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
    const shine = ([r, g, b]) => {
        const line = (value) => {
            const share = value / 255;
            return share <= .03928 ? share / 12.92 : ((share + .055) / 1.055) ** 2.4;
        };
        return .2126 * line(r) + .7152 * line(g) + .0722 * line(b);
    };
    const ground = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = parts(getComputedStyle(at).backgroundColor);
            if (colour.length && colour[3] !== 0) return colour;
        }
        return [255, 255, 255];
    };
    const poor = [];
    for (const element of document.querySelectorAll('.pc *')) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!own || !element.getClientRects().length || element.closest(':disabled, .toast')) continue;
        const pair = [parts(getComputedStyle(element).color), ground(element)];
        const [more, less] = pair.map(shine).sort((a, b) => b - a);
        const ratio = (more + .05) / (less + .05);
        const name = `${element.className || element.tagName}: ${element.textContent.slice(0, 30)}`;
        if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${name}`);
    }
    return [...new Set(poor)];
}"""


def test_every_control_has_a_name(chat: PageDriver) -> None:
    chat.ask("Names, please")
    nameless = chat.page.evaluate(
        """() => [...document.querySelectorAll('.pc button, .pc input, .pc textarea, .pc a')].filter((one) =>
            one.getClientRects().length && !(one.getAttribute('aria-label') || one.textContent.trim()))
            .map((one) => one.outerHTML.slice(0, 120))"""
    )
    assert nameless == []
    expect(chat.page.get_by_role("log")).to_have_count(1)
    expect(chat.messages("assistant").last).to_have_attribute("aria-busy", "false")


def test_the_whole_way_works_by_keyboard(chat: PageDriver) -> None:
    page = chat.page
    page.keyboard.press("Control+k")
    expect(chat.test_id("composer")).to_be_focused()
    page.keyboard.type("Typed blind")
    page.keyboard.press("Enter")
    chat.wait_done()
    expect(chat.messages("assistant")).to_contain_text("Hello!")
    page.keyboard.press("ArrowUp")
    field = chat.messages("user").last.locator("textarea")
    expect(field).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.type(" and changed")
    page.keyboard.press("Control+Enter")
    expect(chat.test_id("sibling-label")).to_have_text("2/2")
    expect(chat.messages("user").last).to_contain_text("Typed blind and changed")


def test_a_long_chat_opens_quickly_and_streams_with_small_frames(
    open_page: Callable[..., PageDriver], server: PageServer
) -> None:
    client = server.client
    client.replies = ("Some **reply** with `code`.\n\n- a\n- b\n",)

    async def build() -> str:
        session = (await server.service.create_session())["id"]
        parent = None
        for number in range(150):
            sent = await server.service.send(session, parent, f"Question {number}")
            parent = sent["reply"]["id"]
            job = server.service.core.jobs.get(parent)
            if job is not None:
                await job.done.wait()
        return session

    session = server.do(build())
    page = open_page()
    begun = time.monotonic()
    page.open_chat(session)
    expect(page.messages("user").last).to_contain_text("Question 149")
    assert time.monotonic() - begun < 5
    page.page.evaluate(
        """() => { window.bytes = []; window.pagedchat.page.socket.socket.addEventListener('message', (message) => {
            const frame = JSON.parse(message.data);
            if (frame.ev === 'patch') window.bytes.push(message.data.length);
            if (frame.ev === 'path') window.paths = (window.paths ?? 0) + frame.messages.length;
        }); }"""
    )
    client.replies, client.delay_s = ("Plain words that go on. " * 20,), 0.004
    page.send("One more")
    page.wait_done()
    sizes = page.page.evaluate("window.bytes")
    assert sizes and max(sizes) < 1_000
    assert page.page.evaluate("window.paths") <= 4, "a new turn must not send the old ones again"


def test_the_eye_stays_where_it_reads_while_a_reply_grows(chat: PageDriver, server: PageServer) -> None:
    server.client.replies = ("line\n\n" * 60,)
    chat.ask("Fill the screen")
    server.client.delay_s = 0.003
    chat.send("And more")
    log = chat.page.locator("#pc-log")
    log.hover()
    chat.page.mouse.wheel(0, -600)
    chat.page.wait_for_timeout(150)
    at = log.evaluate("(element) => element.scrollTop")
    chat.page.wait_for_timeout(400)
    assert log.evaluate("(element) => element.scrollTop") == at
    chat.page.get_by_role("button", name="Jump to the end").click()
    chat.wait_done()
    chat.page.wait_for_timeout(100)
    assert log.evaluate("(element) => element.scrollHeight - element.scrollTop - element.clientHeight") < 3


def test_the_arrow_to_the_end_goes_when_there_is_nothing_left_to_scroll(chat: PageDriver, server: PageServer) -> None:
    server.client.replies = ("line\n\n" * 60,)
    chat.ask("Fill the screen")
    jump = chat.page.get_by_role("button", name="Jump to the end")
    chat.page.locator("#pc-log").hover()
    chat.page.mouse.wheel(0, -5_000)
    expect(jump).to_be_visible()
    chat.page.evaluate("window.pagedchat.page.composer.complain('It cannot be sent. '.repeat(60))")
    above, composer = jump.bounding_box(), chat.page.locator("#pc-foot").bounding_box()
    assert above and composer and above["y"] + above["height"] <= composer["y"]
    server.client.replies = ("Short.",)
    chat.action(chat.messages("user").first, "edit")
    chat.test_id("edit-field").fill("Something short")
    chat.test_id("edit-save").click()
    expect(chat.messages("assistant").last).to_contain_text("Short.")
    expect(jump).to_be_hidden()


def test_on_a_phone_the_help_of_every_setting_has_room(chromium: Browser, server: PageServer) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    try:
        chat = PageDriver(context.new_page(), server.url).goto()
        chat.page.get_by_role("button", name="Settings", exact=True).click()
        chat.page.locator("#pc-settings [data-section=chat]").click()
        chat.page.get_by_role("button", name="More sampling").click()
        helps = chat.page.locator("#pc-settings .info-text")
        expect(helps).to_have_count(15)
        assert min(helps.evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().width)")) > 110
    finally:
        context.close()
