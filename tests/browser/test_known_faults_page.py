"""Ways in which pages went wrong elsewhere: chats that wait for others, settings without meaning, markup that runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Locator, expect

from pagedchat.engine.errors import RequestError
from support.page_driver import PageDriver
from support.page_server import PageServer


def open_settings(chat: PageDriver) -> Locator:
    chat.page.get_by_role("button", name="Settings", exact=True).first.click()
    dialog = chat.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


def test_b54_five_tabs_stream_at_once_and_neither_stop_nor_the_list_waits_for_them(
    open_page: Callable[..., PageDriver], server: PageServer
) -> None:
    server.client.replies = lambda request: ((request.messages or [])[-1]["content"] + " ") * 50
    server.client.delay_s = 0.3  # a reply takes a minute and a half: nothing here may wait for the end of one
    tabs = [open_page() for _ in range(6)]
    for index, tab in enumerate(tabs[:5]):
        tab.page.bring_to_front()
        tab.new_chat()
        tab.send(f"tab {index}")
    running = server.do(server.client.stats())["running"]
    for tab in tabs[:5]:
        expect(tab.messages("assistant").last).to_contain_text("tab")
    assert running == 5
    sessions = [tab.session_id for tab in tabs[:5]]
    tabs[4].page.bring_to_front()
    begun = time.monotonic()
    tabs[4].test_id("stop").click()
    expect(tabs[4].messages("assistant").last).to_have_attribute("data-status", "stopped")
    assert time.monotonic() - begun < 5
    assert server.do(server.client.stats())["running"] == 4
    tabs[5].page.bring_to_front()
    begun = time.monotonic()
    tabs[5].page.reload()
    expect(tabs[5].page.locator(f"[data-session-id='{sessions[0]}'] .live")).to_be_visible()
    opened = time.monotonic() - begun
    begun = time.monotonic()
    tabs[5].open_chat(sessions[0])
    expect(tabs[5].messages("assistant").last).to_contain_text("tab 0")
    assert time.monotonic() - begun < 5
    assert opened < 15, "a whole page load"
    server.client.delay_s = 0.0
    for index, tab in enumerate(tabs[:4]):
        tab.page.bring_to_front()
        tab.wait_done()
        assert tab.texts() == [f"tab {index}", (f"tab {index} " * 50).strip()]


def test_a_message_larger_than_the_pool_stays_in_the_composer_and_holds_nobody_up(
    open_page: Callable[..., PageDriver], server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(server.client._info, "capacity", 160)
    chat, other, too_long = open_page(), open_page(), "x" * 161
    chat.page.bring_to_front()
    chat.new_chat()
    chat.test_id("composer").fill(too_long)
    begun = time.monotonic()
    chat.test_id("send").click()
    problem = chat.page.locator(".box .problem")
    expect(problem).to_contain_text("160")
    assert time.monotonic() - begun < 5 and "164" in problem.inner_text()
    assert chat.test_id("composer").input_value() == too_long and chat.texts() == []
    other.page.bring_to_front()
    other.new_chat()
    expect(other.ask("Short")).to_have_attribute("data-status", "done")


def test_a_reply_whose_tab_was_closed_goes_on_and_one_click_in_the_next_tab_ends_it(
    open_page: Callable[..., PageDriver], server: PageServer
) -> None:
    """Replies belong to chats, not to tabs: what a closed tab asked for is there when the chat is opened again."""
    server.client.replies, server.client.delay_s = ("word " * 2000,), 0.02
    tab = open_page()
    tab.new_chat()
    tab.send("Go on")
    expect(tab.messages("assistant").last).to_contain_text("word")
    session = tab.session_id
    tab.page.close()
    assert server.do(server.client.stats())["running"] == 1
    tab = open_page(f"?session={session}")
    reply = tab.messages("assistant").last
    expect(reply).to_have_attribute("data-status", "streaming")
    tab.test_id("stop").click()
    expect(reply).to_have_attribute("data-status", "stopped")
    stats = server.do(server.client.stats())
    assert (stats["running"], stats["waiting"]) == (0, 0)
    server.client.replies, server.client.delay_s = ("Next.",), 0.0
    begun = time.monotonic()
    tab.ask("Next?")
    assert time.monotonic() - begun < 5


def test_the_settings_say_how_many_replies_run_at_once_and_on_what(chat: PageDriver, server: PageServer) -> None:
    words = open_settings(chat).locator(".set-engine")
    expect(words).to_contain_text("32 replies at once")
    expect(words).to_contain_text("2,048 tokens for prompt and reply")
    expect(words).to_contain_text("800 blocks of 16, 12,800 tokens, 1 MiB")
    expect(words).to_contain_text("2 threads")
    expect(words).to_contain_text("float32 on cpu")
    expect(words).to_contain_text("reference kernels: a test")


@pytest.mark.parametrize("typed", ["-1", "7", "1e-9", "1e99", "--", ""])
def test_a_temperature_without_meaning_never_reaches_the_model(
    chat: PageDriver, server: PageServer, typed: str
) -> None:
    dialog = open_settings(chat)
    box = dialog.get_by_role("spinbutton", name="Temperature")
    slider = dialog.get_by_role("slider", name="Temperature")
    assert (slider.get_attribute("min"), slider.get_attribute("max")) == ("0", "2")
    box.click()
    box.press("Control+a")
    box.press_sequentially(typed) if typed else box.press("Delete")
    box.press("Tab")
    chat.page.wait_for_timeout(600)
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).not_to_be_visible()
    reply = chat.ask("Go on")
    expect(reply).to_have_attribute("data-status", "done")
    assert 0 <= server.client.requests[-1].params.temperature <= 2


@pytest.mark.parametrize(
    ("wrong", "spelled"),
    [(-1, "-1"), (101, "101"), ("0", "'0'"), (True, "true"), (float("nan"), "NaN"), (float("inf"), "Infinity")],
)
def test_a_page_that_sends_such_a_temperature_is_told_so_and_the_chat_stays_as_it_was(
    chat: PageDriver, server: PageServer, wrong: object, spelled: str
) -> None:
    chat.ask("Before")
    told = chat.page.evaluate(
        f"""() => window.pagedchat.page.socket.call("settings", {{
            session: window.pagedchat.page.current, change: {{temperature: {spelled}}} }})
            .then((session) => "taken: " + JSON.stringify(session.own_params), (error) => error.message)"""
    )
    if spelled in ("NaN", "Infinity"):
        assert told == "taken: {}", "JSON has neither; what comes is null, the model's own"
    else:
        assert told.startswith("temperature ")
    with pytest.raises(RequestError, match=r"^temperature "):
        server.do(server.service.update_settings(chat.session_id, params={"temperature": wrong}))
    assert server.do(server.service.open(chat.session_id))["session"]["own_params"] == {}
    chat.ask("After")
    assert server.client.requests[-1].params.temperature == 0.2


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x onerror=\"window.hit='img'\">",
        "<style>body{display:none!important}</style>",
        "<svg onload=\"window.hit='svg'\"></svg>",
        "[click](javascript:window.hit='link')",
    ],
)
def test_b50_markup_in_the_models_name_in_errors_and_in_the_panel_runs_nowhere(
    context: BrowserContext, chat: PageDriver, server: PageServer, text: str
) -> None:
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    kept = {name: server.client._info[name] for name in ("model", "reason", "warnings")}
    server.client._info.update(model=text, reason=text, warnings=[text])
    try:
        server.call(server.client.set_status, "loading")
        server.call(server.client.set_status, "ready")
        chat.page.reload()
        server.client.refuse = RequestError(text)
        chat.send("Fails")
        expect(chat.messages("assistant").last).to_contain_text(text[:12])
        server.call(server.client.set_failed, text)
        expect(chat.page.locator("#pc-banner")).to_contain_text(text[:12])
        server.call(server.client.set_status, "ready")
        chat.new_chat()
        chat.ask(text)
        server.do(server.service.rename(chat.session_id, text))
        expect(chat.page.locator("#pc-title")).to_have_text(text)
        for cell in chat.test_id("kv-table").locator("tr, [data-logical]").all()[:3]:
            cell.hover()
        grid = chat.test_id("kv-grid")
        grid.hover(position={"x": 6, "y": 6})
        chat.page.wait_for_timeout(300)
        expect(open_settings(chat).locator(".set-engine")).to_contain_text(text)
        chat.page.keyboard.press("Escape")
        chat.page.evaluate("(text) => import('/ui/static/toasts.js').then((one) => one.toast(text))", text)
        chat.page.wait_for_timeout(200)
        assert chat.page.evaluate("window.hit ?? null") is None
        assert chat.page.evaluate("getComputedStyle(document.body).display") != "none"
        assert [url for url in asked if not url.startswith((server.url, "data:", "blob:"))] == []
        assert chat.page.locator("img[onerror], svg[onload], a[href^=javascript]").count() == 0
    finally:
        server.client._info.update(kept)
        server.call(server.client.set_status, "loading")
        server.call(server.client.set_status, "ready")


OCCUPIED = """() => {
    const { grid } = window.pagedchat.page.panel, { model, size, columns } = grid;
    const block = [...model.state.keys()].find((one) => model.ownersOf(one).length);
    if (block === undefined) return null;
    return { x: (block % columns + 0.5) * size, y: (Math.floor(block / columns) + 0.5) * size };
}"""


def test_b50_the_title_of_another_chat_is_text_in_the_tooltip_of_its_blocks(
    same_page: PageDriver, server: PageServer
) -> None:
    chat, gate = same_page, asyncio.Event()
    title = "<img src=x onerror=\"window.hit='img'\"><style>body{display:none!important}</style>"
    server.client.gate = gate
    chat.send("Occupy a block")
    server.do(server.service.rename(chat.session_id, title))
    chat.new_chat()
    place = chat.page.wait_for_function(OCCUPIED).json_value()
    chat.test_id("kv-grid-cells").hover(position=place)
    expect(chat.page.locator("#pc-kv .tip")).to_contain_text(title)
    server.call(gate.set)
    assert chat.page.locator("#pc-kv img, #pc-kv style").count() == 0
    assert chat.page.evaluate("window.hit ?? null") is None
    assert chat.page.evaluate("getComputedStyle(document.body).display") != "none"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("template", "chat template rewrites"),
        ("evicted", "made room"),
        ("caching_off", "caching is off"),
        ("new", None),
    ],
)
def test_why_a_chat_is_computed_again_is_said_before_it_is_sent(
    chat: PageDriver, server: PageServer, monkeypatch: pytest.MonkeyPatch, reason: str, words: str | None
) -> None:
    chat.ask("Before")

    async def probe(**_: object) -> dict[str, object]:
        return {"prompt_tokens": 90, "cached_tokens": 12, "to_compute": 78, "first_difference": 12, "reason": reason}

    monkeypatch.setattr(server.client, "probe", probe)
    chat.test_id("composer").fill("After")
    cost = chat.page.locator(".probe .cost")
    expect(cost).to_contain_text("12 cached, 78 to compute")
    expect(cost).to_contain_text(words or "tokens left")
    assert (words is None) == (cost.inner_text().strip().endswith("tokens left"))
