"""For people who listen, who need large type, more contrast or no motion. What axe can find is in ``test_looks``."""

from __future__ import annotations

from playwright.sync_api import expect

from support.page_driver import PageDriver
from support.page_server import PageServer

SENTENCES = "Blocks are contiguous inside. A table names them. So a step reads the same bytes. "
SPACED = """#pc * { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important; }
    #pc p { margin-bottom: 2em !important; }"""
STICKS_OUT = """() => Math.max(0, ...[...document.querySelectorAll('.pc .main *, .pc .side *')]
    .filter((one) => one.checkVisibility() && !one.closest('pre, .table-holder, math, [inert], .unseen'))
    .map((one) => one.getBoundingClientRect().right - innerWidth))"""
MOVES = """() => document.getAnimations().filter((one) => one.playState === 'running' &&
    one.effect.getComputedTiming().duration > 20).map((one) => one.animationName ?? one.transitionProperty)"""


def test_a_reply_is_read_aloud_by_sentences_and_its_end_is_said(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    said = chat.test_id("said").locator("p")
    before = said.count()
    assert chat.page.get_by_role("log").get_attribute("aria-live") == "off", "else every token is read"
    server.client.replies, server.client.delay_s = (SENTENCES * 3 + "\n\n```python\nx = 1\n```\n",), 0.01
    chat.send("Aloud, please")
    chat.wait_done()
    expect(said.last).to_have_text("End of the reply.")
    told = said.all_inner_texts()[min(before, 12) :] if before < 12 else said.all_inner_texts()
    assert 2 <= len(told) <= 6, told
    whole = " ".join(told)
    assert whole.count("A table names them.") == 3, "each sentence once"
    assert "Code in python." in whole and "x = 1" not in whole
    assert all(one[-1] in ".!?" for one in told)


def test_half_a_word_of_a_fence_or_half_a_number_is_not_read_aloud(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    client = server.client
    client.replies = (SENTENCES + "Pi is 3.14 here.\n\n```python\nx = 1\n```\n\nThe end of it.",)
    client.rests = (("Blocks", 2.5), ("is 3.", 2.5), ("```py", 2.5))
    chat.send("Aloud in pieces, please")
    chat.wait_done()
    said = chat.test_id("said").locator("p")
    expect(said.last).to_have_text("End of the reply.")
    told = " ".join(said.all_inner_texts()).rsplit("The reply begins.", 1)[1]
    assert " ".join(told.split()) == f"{SENTENCES}Pi is 3.14 here. Code in python. The end of it. End of the reply."


def test_large_type_wide_spacing_no_motion_and_the_systems_colours_are_respected(
    same_page: PageDriver, server: PageServer
) -> None:
    chat, page = same_page, same_page.page
    server.client.replies = ("A word and `code`.\n\n- one\n- two\n",)
    chat.ask("Spaced")
    style = page.add_style_tag(content=SPACED)
    for width, height in ((1480, 920), (640, 400), (320, 256)):
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate(STICKS_OUT) <= 1, (width, height)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        expect(chat.test_id("composer")).to_be_in_viewport()
    style.evaluate("(element) => element.remove()")
    page.set_viewport_size({"width": 1480, "height": 920})
    page.emulate_media(reduced_motion="reduce")
    server.call(server.client.set_status, "loading", None, "Loading the model.")
    expect(page.locator("#pc-banner")).to_be_visible()
    assert page.evaluate(MOVES) == []
    server.call(server.client.set_status, "ready")
    page.emulate_media(reduced_motion="no-preference", forced_colors="active")
    current = page.locator(".item.on")
    assert current.evaluate("(row) => getComputedStyle(row).outlineStyle") == "solid"
    page.emulate_media(forced_colors="none", contrast="more")
    line = "getComputedStyle(document.documentElement).getPropertyValue('--pc-line')"
    assert page.evaluate(line).strip() == "#8c857a"
    page.emulate_media(contrast="no-preference")
