"""A chat of a whole story: what its page shows, beside what the engine and the file of the chats say of it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psutil
from playwright.sync_api import BrowserContext, Locator, expect

from pagedchat.sessions.rows import unpack
from support.page_driver import PageDriver
from support.page_socket import Page
from support.running_app import RunningApp

REUSED = re.compile(r"([\d,]+) of ([\d,]+) tokens reused")
ROWS = "SELECT id, parent_id, role, kind, status, content FROM messages WHERE session_id = ?"
FEW_WORDS = """() => {
    const reply = [...document.querySelectorAll("[data-testid=message][data-role=assistant]")].at(-1);
    return /\\w+ \\w+/.test(reply?.querySelector(".body > .md")?.textContent ?? "");
}"""
IDS = "SELECT header_tokens, token_ids FROM message_tokens WHERE message_id = ?"
SYSTEM = "SELECT token_ids FROM system_tokens WHERE session_id = ?"


class WholeStory:
    """One chat in one page of a server with a real model. The ``calls`` of a second page without a browser set what
    a reader would in a dialog."""

    def __init__(self, app: RunningApp, context: BrowserContext, query: str = "") -> None:
        self.app = app
        self.context = context
        self.page = PageDriver(context.new_page(), app.url).goto(query)
        self.calls = Page(app)
        self.calls.call("hello")
        self.session = self.page.session_id
        self.most_rows = 0

    # -- what is done -------------------------------------------------------------------------------------------------

    def begun(self, tokens: int) -> None:
        """The shown chat is the one of the story from now on."""
        self.session = self.page.session_id
        self.limit(tokens)

    def limit(self, tokens: int, stop: str | None = None) -> None:
        """How long the replies of the chat may get from now on, and what ends them; each is the likeliest one."""
        change = {"max_tokens": tokens, "temperature": 0.0, "stop": stop and [stop]}
        self.calls.call("settings", session=self.session, change=change)
        told = "(most) => window.pagedchat.page.session.params.max_tokens === most"
        self.page.page.wait_for_function(told, arg=tokens)

    def engine(self) -> psutil.Process:
        """The process that holds the model."""
        children = psutil.Process(self.app.process.pid).children(recursive=True)
        return max(children, key=lambda one: one.memory_info().rss)

    @contextmanager
    def engine_stands_still(self) -> Iterator[None]:
        """What is in here happens in the middle of a reply, however fast the model is."""
        engine = self.engine()
        engine.suspend()
        yield
        engine.resume()

    def send(self, text: str) -> None:
        """Send, from wherever the chat goes on; wait until it is its last message but the reply."""
        self.page.test_id("composer").fill(text)
        self.page.test_id("send").click()
        expect(self.page.messages("user").last.locator(".typed")).to_have_text(text)

    def ask(self, text: str) -> None:
        """Send and wait for the whole reply."""
        self.send(text)
        self.page.wait_done()

    def begin(self, text: str) -> Locator:
        """Send, and wait until a few words of the reply are there."""
        self.send(text)
        reply = self.last
        self.page.page.wait_for_function(FEW_WORDS)
        expect(reply).to_have_attribute("data-status", "streaming")
        return reply

    # -- what is told -------------------------------------------------------------------------------------------------

    @property
    def last(self) -> Locator:
        return self.page.messages("assistant").last

    def id_of(self, message: Locator) -> str:
        return message.get_attribute("data-message-id") or ""

    def made(self, message: Locator) -> dict[str, Any]:
        """How a reply came to be; what its footer says of reuse must be the same."""
        code = "(id) => window.pagedchat.page.chat.items.get(id).view.generation"
        facts = self.page.page.evaluate(code, self.id_of(message))
        stats = message.get_by_test_id("reply-stats")
        expect(stats).to_contain_text(REUSED)
        found = REUSED.search(stats.inner_text())
        assert found
        shown = [int(one.replace(",", "")) for one in found.groups()]
        assert shown == [facts["cached_tokens"], facts["prompt_tokens"]]
        assert facts["computed_tokens"] == facts["prompt_tokens"] - facts["cached_tokens"]
        return facts

    def details(self, message: Locator) -> dict[str, Any]:
        """The last run of a message, as its details tell it."""
        return self.calls.call("details", message=self.id_of(message))["runs"][-1]

    def computed(self, message: Locator) -> tuple[int, int]:
        """Tokens that were computed of a reply's prompt, and all of it."""
        facts = self.made(message)
        return facts["computed_tokens"], facts["prompt_tokens"]

    def in_cache(self, message: str = "") -> int:
        """Tokens of the shown branch, or up to a message of it, but for the last one, which was sampled and never fed.

        All blocks of them must be held.
        """
        found = self.app.get_json(f"/api/kv/branch?session={self.session}&message={message}")[1]
        return found["num_tokens"] - 1

    def rows(self, session: str | None = None) -> dict[str, dict[str, Any]]:
        """All messages of a chat, by id, as they are on disk; of the chat of the story there are never fewer."""
        rows = {row["id"]: dict(row) for row in self._read(ROWS, [session or self.session])}
        if session is None:
            assert len(rows) >= self.most_rows, "a message is gone"
            self.most_rows = len(rows)
        return rows

    def ids(self, message_id: str, *, generated: bool = False) -> list[int]:
        """The ids of a message in a prompt; ``generated``: of a reply, without those that asked for it."""
        (found,) = self._read(IDS, [message_id])
        return unpack(found["token_ids"])[found["header_tokens"] if generated else 0 :]

    def system_tokens(self) -> int:
        """Tokens of the chat's system turn."""
        (found,) = self._read(SYSTEM, [self.session])
        return len(unpack(found["token_ids"]))

    def _read(self, query: str, values: list[str]) -> list[sqlite3.Row]:
        path = self.app.data_dir / "sessions.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return connection.execute(query, values).fetchall()


def common(one: list[int], other: list[int]) -> int:
    """Length of the beginning that both have."""
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length


def texts_of_branches(rows: dict[str, dict[str, Any]]) -> list[list[str]]:
    """What each leaf and all above it say, in order: equal for two trees that are the same but for ids."""
    leaves = rows.keys() - {row["parent_id"] for row in rows.values()}
    found = []
    for leaf in leaves:
        texts, row = [], rows.get(leaf)
        while row is not None:
            texts.insert(0, f"{row['role']} {row['kind']} {row['content']}")
            row = rows.get(row["parent_id"])
        found.append(texts)
    return sorted(found)
