"""Short ways to use the page in a browser test, by what a user sees."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import ConsoleMessage, Locator, Page, expect

CHROMIUM = "/usr/bin/chromium"
CHROMIUM_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PASTE = """(text) => {
  const data = new DataTransfer();
  data.setData('text/plain', text);
  const field = document.getElementById('pc-composer');
  field.focus();
  field.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
}"""
LAST_QUESTION = (
    "() => [...document.querySelectorAll('[data-testid=message][data-role=user]')].at(-1)?.dataset.messageId ?? null"
)


class PageDriver:
    """One open page."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.errors: list[str] = []
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._console)

    def _console(self, message: ConsoleMessage) -> None:
        """Warnings and errors count as errors, but for those about a server that a test has ended."""
        if message.type in ("error", "warning") and "ERR_CONNECTION_REFUSED" not in message.text:
            self.errors.append(message.text)

    def goto(self, query: str = "") -> PageDriver:
        self.page.goto(self.url + "/" + query)
        expect(self.test_id("composer")).to_be_visible()
        self.page.wait_for_function("window.pagedchat?.page?.entered")
        return self

    def front(self) -> PageDriver:
        """Show this page before the others: a hidden one draws once a second at most."""
        self.page.bring_to_front()
        return self

    def test_id(self, name: str) -> Locator:
        return self.page.get_by_test_id(name)

    def new_chat(self) -> str:
        """A new chat; returns its id."""
        self.page.keyboard.press("Control+k")
        self.page.wait_for_function(
            "() => { const { session, chat, switching } = window.pagedchat.page;"
            " return session && !chat.ids.length && !switching; }"
        )
        return self.session_id

    @property
    def session_id(self) -> str:
        return self.page.url.partition("session=")[2]

    def send(self, text: str) -> None:
        """Send, and wait until it is in the chat."""
        before = self.page.evaluate(LAST_QUESTION)
        self.test_id("composer").fill(text)
        self.test_id("send").click()
        self.page.wait_for_function(f"(before) => ({LAST_QUESTION})() !== before", arg=before)

    def paste(self, text: str) -> None:
        """Paste into the composer."""
        self.page.evaluate(PASTE, text)

    def ask(self, text: str) -> Locator:
        """Send and wait for the whole reply."""
        self.send(text)
        self.wait_done()
        return self.messages("assistant").last

    def wait_done(self) -> None:
        """Wait until no reply is being written in the shown chat."""
        expect(self.page.locator("[data-testid=message][data-status=streaming]")).to_have_count(0)
        expect(self.test_id("stop")).to_have_count(0)

    def messages(self, role: str | None = None) -> Locator:
        return self.page.locator("[data-testid=message]" + (f"[data-role={role}]" if role else ""))

    def texts(self) -> list[str]:
        """What the shown branch says."""
        return [one.strip() for one in self.page.locator("[data-testid=message] .body").all_inner_texts()]

    def action(self, message: Locator, name: str) -> None:
        message.hover()
        message.get_by_test_id(name).click()

    def open_chat(self, session_id: str) -> None:
        self.page.locator(f"[data-session-id='{session_id}'] a").click()
        self.page.wait_for_function("(id) => window.pagedchat.page.session?.id === id", arg=session_id)

    def row(self, session_id: str) -> Locator:
        """A chat's line in the list."""
        return self.page.locator(f"[data-session-id='{session_id}']")

    def chat_menu(self, session_id: str, *choices: str) -> None:
        """Open a chat's menu and choose, one after the other, by the choices' test ids or words."""
        self.row(session_id).hover()
        self.row(session_id).get_by_test_id("chat-menu").click()
        self._choose(choices)

    def message_menu(self, message: Locator, *choices: str) -> None:
        """Open a message's menu and choose."""
        self.action(message, "message-menu")
        self._choose(choices)

    def _choose(self, choices: tuple[str, ...]) -> None:
        menu = self.test_id("menu")
        for choice in choices:
            item = menu.get_by_test_id(choice)
            (item if item.count() else menu.get_by_text(choice, exact=True)).click()

    def undo(self) -> None:
        """Take back what the newest notice tells of."""
        self.page.locator(".toast").last.get_by_role("button", name="Undo").click()

    def regenerate(self, message: Locator, place: str) -> None:
        """Another reply; ``place`` is its label among its siblings. Waits for its end."""
        self.action(message, "regenerate")
        expect(self.page.get_by_text(place, exact=True)).to_be_visible()
        self.wait_done()

    def panel_tab(self, name: str) -> Locator:
        """Choose a part of the KV panel; its element."""
        self.test_id(f"kv-tab-{name}").click()
        return self.page.locator(f"#pc-kv-{name}")

    def grid(self) -> dict[str, int]:
        """The numbers of what is drawn."""
        data: Any = self.test_id("kv-grid").evaluate("(element) => ({...element.dataset})")
        return {name: int(data[name]) for name in ("free", "cached", "active", "shared", "seq")}
