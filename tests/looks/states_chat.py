"""States of a chat and of what it says."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import expect

from looks.stage import LONG_CHAT, Stage
from looks.table import state
from support.page_server import SAMPLE

LONG_TITLE = "A title that somebody pasted by accident, with a whole paragraph of text in it and no end " * 2
SCRIPTS = (
    "السطر الأول بالعربية ثم `kv_cache` في الوسط.\n\n"
    "日本語と中文の混ざった長い段落です。分頁式注意力把鍵和值放進固定大小的區塊，所以前綴可以在許多分支之間共用。\n\n"
    "שורה בעברית עם English בתוכה."
)
HUGE = "```sql\nSELECT " + ", ".join(f"column_{number}" for number in range(60)) + " FROM t;\n```\n\n"
TABLE = "|" + "|".join(f" heading {number} " for number in range(14)) + "|\n" + "|---" * 14 + "|\n"
TABLE += ("|" + "|".join(f" cell of {number} " for number in range(14)) + "|\n") * 3


@state("What would you like to know?", ".empty")
def empty(stage: Stage) -> Iterator[None]:
    stage.show(None)
    yield


@state("reused", "[data-testid=reply-stats]")
def whole_reply(stage: Stage) -> Iterator[None]:
    stage.asked("Show me the lookup.", SAMPLE)
    yield


@state("2/2", "[data-testid=sibling-label]")
def versions(stage: Stage) -> Iterator[None]:
    stage.asked("Names for a small boat?", "Osier, Pintail and Wren.")
    stage.reply("Dabchick, Osier and Lark.")
    stage.regenerate(stage.messages("assistant"), "2/2")
    stage.messages("user").hover()
    yield


@state("the old one stays", ".editor .hint")
def editing(stage: Stage) -> Iterator[None]:
    stage.asked("Names for a small boat?", "Osier, Pintail and Wren.")
    stage.action(stage.messages("user"), "edit")
    yield
    stage.page.keyboard.press("Escape")


@state("The reply limit was reached.", "[data-testid=message] .note")
def limit_reached(stage: Stage) -> Iterator[None]:
    stage.new_chat()
    session = stage.session_id
    stage.server.do(stage.server.service.update_settings(session, params={"max_tokens": 24}))
    stage.reply("Because a block is contiguous inside.")
    stage.ask("Why is it not slower?")
    yield


@state("Temporary chat.", "#pc-notice")
def temporary(stage: Stage) -> Iterator[None]:
    stage.test_id("new-temporary").click()
    expect(stage.test_id("notice")).to_be_visible()
    yield
    stage.page.get_by_test_id("end-temporary").click()
    expect(stage.test_id("notice")).to_be_hidden()


@state("This chat was deleted in another window.", "#pc-notice")
def deleted_elsewhere(stage: Stage) -> Iterator[None]:
    stage.asked("Soon deleted")
    session = stage.session_id
    stage.server.do(stage.server.service.delete(session))
    yield
    stage.page.get_by_test_id("restore-here").click()
    expect(stage.page.locator("#pc-notice")).to_be_hidden()


@state("Deleted “", ".toast")
def deleted_with_undo(stage: Stage) -> Iterator[None]:
    stage.asked("A question for the trash")
    stage.chat_menu(stage.session_id, "delete")
    yield
    stage.page.locator(".toast").last.get_by_role("button", name="Dismiss").click()


@state("SELECT", "pre.code")
def long_lines_and_a_wide_table(stage: Stage) -> Iterator[None]:
    stage.asked("A very wide table, please, and all columns in one line", HUGE + TABLE)
    yield


@state("日本語", ".msg.assistant .md")
def other_scripts(stage: Stage) -> Iterator[None]:
    stage.asked("مرحبا، 你好, שלום — كيف تعمل الذاكرة؟", SCRIPTS)
    yield


@state("Show all", "[data-testid=unfold]")
def very_long_message(stage: Stage) -> Iterator[None]:
    stage.asked("Read this log:\n" + "2026-11-30 04:00:01 INFO block 611 stored, parent 610\n" * 120, "It is all fine.")
    stage.page.locator("#pc-log").evaluate("(log) => log.scrollTo(0, 0)")
    yield


@state("A title that somebody pasted", "#pc-title")
def very_long_title(stage: Stage) -> Iterator[None]:
    stage.asked("A title")
    stage.server.do(stage.server.service.rename(stage.session_id, LONG_TITLE[:200]))
    yield
    stage.server.do(stage.server.service.rename(stage.session_id, "A title"))


@state("Show earlier messages", ".older")
def very_long_chat(stage: Stage) -> Iterator[None]:
    stage.show(stage.chats[LONG_CHAT])
    stage.page.locator("#pc-log").evaluate("(log) => log.scrollTo(0, 0)")
    yield
