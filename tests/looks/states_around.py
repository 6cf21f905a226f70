"""States of what stands around the chat: the list, menus, dialogs, the panel."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import expect

from looks.stage import PHONE, TITLES, WIDE, ZOOMED, Stage
from looks.table import state

MANY = """() => {
    const { sidebar } = window.pagedchat.page;
    const now = Date.now();
    pagedchat.kept = [[...sidebar.shelf.sessions.values()], [...sidebar.shelf.folders]];
    const chat = (at) => ({ id: `c${at}`, title: `Chat number ${at} about paging`, hue: at % 6, version: 1,
        updated_at: new Date(now - at * 3.6e6).toISOString() });
    sidebar.load(Array.from({ length: 5000 }, (_, at) => chat(at)), [...sidebar.shelf.folders]);
}"""


@state("Chat number 0 about paging", ".list [data-testid=session-item]:first-of-type, .list", phone="list")
def five_thousand_chats(stage: Stage) -> Iterator[None]:
    stage.show(None)
    stage.page.evaluate(MANY)
    yield
    stage.page.evaluate("pagedchat.page.sidebar.load(...pagedchat.kept)")


@state("contiguous", ".hit mark, .hit", phone="list")
def search_results(stage: Stage) -> Iterator[None]:
    stage.asked("Is it contiguous?", "Yes, contiguous:\n\n```python\nkeys[contiguous, head]\n```\n")
    stage.test_id("search").fill("contiguous")
    expect(stage.test_id("search-hit").first).to_be_visible()
    yield
    stage.test_id("search").fill("")


@state("Nothing found", ".list", phone="list")
def nothing_found(stage: Stage) -> Iterator[None]:
    stage.test_id("search").fill("zzzyzx")
    yield
    stage.test_id("search").fill("")


@state("Delete", "[data-testid=menu]", phone="anew")
def chat_menu(stage: Stage) -> Iterator[None]:
    stage.show_list()
    row = stage.row(stage.chats[TITLES[1]])
    row.hover()
    row.get_by_test_id("chat-menu").click()
    yield


@state("2 chosen", "[data-testid=chosen]", phone="list")
def several_chats_chosen(stage: Stage) -> Iterator[None]:
    for title in TITLES[1:3]:
        stage.row(stage.chats[title]).locator("a").click(modifiers=["ControlOrMeta"])
    yield
    stage.page.evaluate("pagedchat.page.sidebar.selection.clear()")


@state("Nothing is archived.", ".list", phone="list")
def empty_archive(stage: Stage) -> Iterator[None]:
    stage.test_id("show-archive").click()
    yield
    stage.test_id("show-archive").click()


@state("A chat in the trash", ".list", phone="list")
def trash(stage: Stage) -> Iterator[None]:
    stage.asked("A chat in the trash")
    stage.server.do(stage.server.service.delete(stage.session_id))
    stage.show(None)
    stage.test_id("show-trash").click()
    yield
    stage.test_id("show-trash").click()


@state("3 differences", "[data-testid=compare-said]")
def compare(stage: Stage) -> Iterator[None]:
    stage.asked("Names for a small boat?", "Osier, Pintail and Wren.")
    stage.reply("Dabchick, Osier and Lark.")
    stage.regenerate(stage.messages("assistant"), "2/2")
    stage.message_menu(stage.messages("assistant"), "compare-versions")
    yield


@state("Write a message", "[data-testid=shortcuts]")
def shortcuts(stage: Stage) -> Iterator[None]:
    stage.page.keyboard.press("Control+/")
    yield


@state("What the model is told", "#pc-settings")
def settings(stage: Stage) -> Iterator[None]:
    stage.page.locator("#pc-top").get_by_role("button", name="Settings").click()
    yield
    stage.page.keyboard.press("Escape")
    expect(stage.page.locator("#pc-settings")).to_be_hidden()


@state("A preset is what a new chat begins with.", "[data-testid=presets]")
def no_presets(stage: Stage) -> Iterator[None]:
    library = stage.server.service.library
    for preset in stage.server.do(library.presets()):
        stage.server.do(library.delete_preset(preset["id"]))
    stage.test_id("more-menu").click()
    stage.test_id("menu").get_by_test_id("presets").click()
    yield


@state("contiguous", "[data-testid=message]")
def zoom_of_200_percent(stage: Stage) -> Iterator[None]:
    stage.asked("Is it contiguous?", "Yes, contiguous inside of a block.")
    stage.page.set_viewport_size(ZOOMED)  # type: ignore[arg-type]
    yield
    stage.page.set_viewport_size(WIDE)  # type: ignore[arg-type]


@state("New chat", "#pc-side")
def chats_on_a_phone(stage: Stage) -> Iterator[None]:
    stage.page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    stage.page.get_by_role("button", name="Show chats").click()
    yield
    stage.page.keyboard.press("Escape")
    stage.page.set_viewport_size(WIDE)  # type: ignore[arg-type]


@state("KV blocks", "#pc-kv h2")
def blocks_on_a_phone(stage: Stage) -> Iterator[None]:
    stage.page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    stage.page.locator("#pc-blocks").click()
    yield
    stage.page.keyboard.press("Escape")
    stage.page.set_viewport_size(WIDE)  # type: ignore[arg-type]
