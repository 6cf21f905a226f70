"""Every key of the table does what it says; nothing of it gets in the way of writing."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from support.page_driver import PageDriver
from support.page_server import PageServer

KEYS = "() => import('/ui/static/keys.js').then(({ KEYS }) => KEYS.map(({ id, keys }) => [id, keys]))"


OTHERS = """() => import('/ui/static/message_keys.js').then(({ MESSAGE_KEYS }) => MESSAGE_KEYS.length + 4 + 6)"""


def blur(page: Page) -> None:
    page.evaluate("document.activeElement.blur()")


def pressed(key: str) -> str:
    """The table's name of a key as Playwright presses it."""
    return key.replace("mod+", "Control+").replace("shift+", "Shift+").replace("escape", "Escape")


def test_every_key_of_the_table_does_what_it_says(chat: PageDriver, server: PageServer) -> None:
    page = chat.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.ask("First chat")
    chat.new_chat()
    words = iter(("One.", "Two.", "Three."))
    server.client.replies = lambda request: next(words)
    chat.ask("Second chat")
    chat.regenerate(chat.messages("assistant").last, "2/2")
    home = chat.session_id

    def last(text: str) -> Callable[[], object]:
        return lambda: expect(chat.messages("assistant").last).to_contain_text(text)

    def focused(test_id: str) -> Callable[[], object]:
        return lambda: expect(chat.test_id(test_id)).to_be_focused()

    def shown(selector: str) -> Callable[[], object]:
        return lambda: expect(page.locator(selector)).to_be_visible()

    def other_chat() -> None:
        page.wait_for_function("(home) => window.pagedchat.page.session?.id !== home", arg=home)

    def is_temporary() -> None:
        expect(page.locator("#pc-notice")).to_contain_text("Temporary chat")

    def copied() -> None:
        page.wait_for_function("() => navigator.clipboard.readText().then((text) => text.startsWith('T'))")

    done: dict[str, Callable[[], object]] = {
        "new": other_chat,
        "temporary": is_temporary,
        "search": lambda: expect(page.get_by_role("searchbox")).to_be_focused(),
        "previous-chat": lambda: page.wait_for_function("(id) => window.pagedchat.page.session?.id === id", arg=home),
        "next-chat": other_chat,
        "write": focused("composer"),
        "stop": lambda: expect(page.get_by_role("log")).to_be_focused(),
        "regenerate": lambda: expect(page.get_by_text("3/3", exact=True)).to_be_visible(),
        "edit": focused("edit-field"),
        "copy": copied,
        "previous-version": last("One."),
        "next-version": last("Two."),
        "tree": lambda: expect(page.locator("#pc-tree-tool")).to_have_attribute("aria-expanded", "true"),
        "blocks": shown("#pc[data-panel=closed]"),
        "sidebar": shown("#pc[data-sidebar=closed]"),
        "settings": shown("#pc-settings"),
        "theme": shown(":root[data-theme=dark]"),
        "shortcuts": shown("dialog[open][data-testid=shortcuts]"),
    }
    table = page.evaluate(KEYS)
    assert {one for one, _ in table} == set(done), "each key has a check of what it does, and each check a key"
    for name, keys in table:
        for key in keys:
            prepare(chat, home, name)
            page.keyboard.press(pressed(key))
            done[name]()
            restore(chat, name)
    page.evaluate("document.querySelector('[data-testid=composer]').focus()")
    page.keyboard.type("nothing of bcdemnoprst,.<>? happens here/")
    assert chat.test_id("composer").input_value() == "nothing of bcdemnoprst,.<>? happens here/"


def test_the_sheet_lists_all_keys_and_letters_can_be_turned_off(same_page: PageDriver, server: PageServer) -> None:
    chat, page = same_page, same_page.page
    chat.ask("Letters")
    reply = chat.messages("assistant").last
    blur(page)
    page.keyboard.press("?")
    sheet = chat.test_id("shortcuts")
    expect(sheet.locator("kbd").filter(has_text="Ctrl K")).to_be_visible()
    expect(sheet.locator("kbd")).to_have_count(
        sum(len(keys) for _, keys in page.evaluate(KEYS)) + page.evaluate(OTHERS)
    )
    expect(sheet.locator(".scope")).to_contain_text("Esc, then ↑, goes to a message")
    sheet.get_by_test_id("letters").uncheck()
    page.keyboard.press("Escape")
    expect(sheet).to_have_count(0)
    blur(page)
    page.keyboard.press("?")
    page.keyboard.press("Control+/")
    expect(sheet).to_have_count(1)
    page.keyboard.press("Escape")
    expect(sheet).to_have_count(0)
    reply.focus()
    page.keyboard.press("b")  # nor do the letters of a message
    page.keyboard.press("k")
    expect(reply).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(chat.messages("user").last).to_be_focused()
    page.keyboard.press("Control+/")
    sheet.get_by_test_id("letters").check()
    page.keyboard.press("Escape")
    expect(sheet).to_have_count(0)
    reply.focus()
    page.keyboard.press("k")
    expect(chat.messages("user").last).to_be_focused()


def test_the_menu_beside_the_title_has_what_a_chat_can_do(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    chat.ask("Rename me at the top")
    chat.test_id("top-menu").click()
    names = chat.test_id("menu").locator("button, a").all_inner_texts()
    assert {"Rename", "Pin", "Export", "Save as preset…", "Tree of branches", "New temporary chat", "Delete"} <= set(
        names
    )
    chat.test_id("menu").get_by_text("Rename", exact=True).click()
    chat.page.get_by_label("Name of the chat").fill("Renamed at the top")
    chat.test_id("confirm").click()
    expect(chat.page.locator("#pc-title")).to_have_text("Renamed at the top")
    chat.test_id("top-menu").click()
    chat.test_id("top-preset").click()
    expect(chat.test_id("preset-form").get_by_label("Name")).to_have_value("Renamed at the top")
    chat.page.keyboard.press("Escape")


def order_below(chat: PageDriver, home: str) -> str:
    rows = chat.page.evaluate(
        "window.pagedchat.page.sidebar.window.rows.filter((row) => row.chat).map((row) => row.key)"
    )
    return rows[rows.index(home) + 1]


def prepare(chat: PageDriver, home: str, name: str) -> None:
    """Home again, or below it, with nothing focused but where the key is about the field."""
    page = chat.page
    begin = order_below(chat, home) if name == "previous-chat" else home
    page.evaluate("(id) => window.pagedchat.page.current === id || window.pagedchat.page.open(id)", begin)
    page.wait_for_function("(id) => window.pagedchat.page.session?.id === id", arg=begin)
    chat.test_id("composer").focus() if name == "stop" else blur(page)


def restore(chat: PageDriver, name: str) -> None:
    page = chat.page
    if name in ("blocks", "sidebar", "theme", "tree"):
        key = dict(page.evaluate(KEYS))[name][0]  # the same key takes it back
        blur(page)
        page.keyboard.press(pressed(key))
    elif name == "settings":
        page.keyboard.press("Escape")
        expect(page.locator("#pc-settings")).not_to_be_visible()
    elif name in ("edit", "shortcuts"):
        page.keyboard.press("Escape")
        expect(page.locator("dialog[open]")).to_have_count(0)
    elif name == "regenerate":
        chat.wait_done()
        page.evaluate("window.pagedchat.page.turns.step(window.pagedchat.page.chat.last, -1)")
        expect(page.get_by_text("2/3", exact=True)).to_be_visible()
