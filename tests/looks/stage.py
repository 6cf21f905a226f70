"""Where states of the page are put on: one page, a server with a scripted engine, and chats as people have them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect

from support.page_driver import PageDriver
from support.page_server import PageServer
from support.paged_client import PagedFakeClient
from support.stored_chats import add_chats

INFO = {
    "model": "SmolLM2-135M-Instruct.Q4_1",
    "dtype": "bfloat16",
    "num_blocks": 820,
    "max_model_len": 8192,
    "default_system_prompt": "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
    "sampling_defaults": {"temperature": 0.2, "top_p": 0.9},
}
WIDE = {"width": 1480, "height": 920}
PHONE = {"width": 390, "height": 844}
ZOOMED = {"width": 640, "height": 400}
"""A window of 1280 × 800 at 200 %."""
LONG_CHAT = "A chat of 400 messages"
SHOWN = "(id) => { const { session, switching } = pagedchat.page; return !switching && (session?.id ?? null) === id; }"
TITLES = (
    "Regex for ISO dates",
    "Trip to Brno, packing list",
    "Explain RoPE with a clock, a ruler and two pieces of string",
    "Names for a small boat",
    "SQL for weekly retention",
)


class Stage(PageDriver):
    """A page whose server and engine a state may change; each state puts back what it changed.

    Attributes:
        server, client: the server of the page and its scripted engine.
        chats: ids of the chats in the list by title.
    """

    def __init__(self, page: Any, server: PageServer) -> None:
        super().__init__(page, server.url)
        self.server = server
        self.client: Any = server.client
        self.chats: dict[str, str] = {}

    def show(self, session: str | None) -> None:
        """Show a chat, or with None the page that becomes one with the first message. Nothing is loaded again."""
        self.page.evaluate("(id) => pagedchat.page.open(id)", session)
        self.page.wait_for_function(SHOWN, arg=session)

    def reply(self, text: str, delay_s: float = 0.0) -> None:
        """What the engine answers from now on, and the pause before each character."""
        self.client.replies, self.client.delay_s = (text,), delay_s

    def status(self, state: str, progress: float | None = None, message: str = "") -> None:
        """Script the engine's state."""
        self.server.call(self.client.set_status, state, progress, message)

    def asked(self, text: str, reply: str = "Sixteen tokens of keys for one head lie in one run.") -> None:
        """A new chat with one turn."""
        self.reply(reply)
        self.new_chat()
        self.ask(text)

    def show_list(self) -> None:
        """The list of chats, which a phone shows only when it is asked for."""
        self.page.evaluate("pagedchat.page.layout.showSidebar()")

    def show_panel(self) -> None:
        """The KV panel, which a narrow window shows only when it is asked for."""
        self.page.evaluate("pagedchat.page.layout.togglePanel()")

    def begin_again(self) -> None:
        """A state did not come to its end: the next one finds the page as it was in the beginning."""
        self.page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        self.page.emulate_media(color_scheme="light")
        self.put_back()
        self.goto("?session=")

    def put_back(self) -> None:
        """The engine answers again as it does, and no dialog stands in the way."""
        self.client.gate, self.client.marks_thinking = None, False
        self.reply("Hello!")
        if self.client.status.state != "ready":
            self.status("ready")
        for _ in range(3):
            if not self.page.locator("#pc dialog[open], #pc .menu-box").count():
                break
            self.page.keyboard.press("Escape")
        expect(self.page.locator("[data-status=streaming]")).to_have_count(0)


@contextmanager
def open_stage(browser: Browser, folder: Path) -> Iterator[Stage]:
    """A stage with its chats; ends with them."""
    add_chats(folder / "sessions.db", 1, 400)
    with closing(sqlite3.connect(folder / "sessions.db")) as connection, connection:
        connection.execute("UPDATE sessions SET title = ?", [LONG_CHAT])
    client = PagedFakeClient(num_blocks=INFO["num_blocks"], info=INFO)
    with PageServer(folder, client) as server:
        context = browser.new_context(viewport=WIDE)  # type: ignore[arg-type]
        stage = Stage(context.new_page(), server)
        stage.chats = server.do(_chats(server))
        stage.goto("?session=")
        yield stage
        context.close()


async def _chats(server: PageServer) -> dict[str, str]:
    service = server.service
    (long,) = await service.list_sessions()
    made = {LONG_CHAT: long["id"]}
    for title in TITLES:
        made[title] = (await service.create_session())["id"]
        await service.rename(made[title], title)
    folder = await service.library.add_folder("Work")
    await service.library.move(made[TITLES[-1]], folder["id"])
    await service.library.pin(made[TITLES[0]], True)
    return made
