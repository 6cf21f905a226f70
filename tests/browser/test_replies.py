"""What one does with replies: several at once, other settings, raw text, details, and all of it by keyboard."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator, expect

from support.page_driver import PageDriver
from support.page_server import PageServer

LONG = "One two three four five. " * 30


def reply(page: PageDriver) -> Locator:
    return page.messages("assistant").last


def parallel(page: PageDriver) -> Locator:
    return page.test_id("parallel-reply")


def focused(page: PageDriver) -> str:
    """What a screen reader calls the element with the focus."""
    return page.page.evaluate("document.activeElement.getAttribute('aria-label')")


def to_messages(page: PageDriver) -> None:
    """By keyboard from the composer to the last message."""
    page.test_id("composer").focus()
    for _ in range(9):
        page.page.keyboard.press("Shift+Tab")
        if page.page.evaluate("document.activeElement.matches('.msg')"):
            return
    raise AssertionError("no message is reached by Tab")


def test_several_replies_run_at_once_each_with_its_state_and_its_stop(
    same_page: PageDriver, server: PageServer
) -> None:
    page, client = same_page, server.client
    page.ask("Go")
    client.replies, client.delay_s = (LONG,), 0.02
    page.message_menu(reply(page), "regenerate-several", "regenerate-4")
    expect(page.test_id("sibling-label")).to_have_text("2/5")
    expect(parallel(page)).to_have_count(4)
    expect(parallel(page).first).to_have_attribute("data-on", "true")
    expect(parallel(page).nth(2)).to_contain_text("tok/s")
    parallel(page).nth(2).get_by_role("button", name=re.compile("Show version 4 of 5")).click()
    expect(page.test_id("sibling-label")).to_have_text("4/5")
    expect(reply(page)).to_contain_text("One two")
    page.page.reload()
    expect(parallel(page)).to_have_count(4)
    parallel(page).nth(1).get_by_test_id("parallel-stop").click()
    expect(parallel(page).nth(1)).to_have_attribute("data-status", "stopped")
    expect(parallel(page).nth(0)).to_have_attribute("data-status", "streaming")
    expect(reply(page).get_by_test_id("parallel")).to_contain_text("1 of 4 ended")
    page.test_id("stop").click()  # the shown one; the others go on
    expect(parallel(page).nth(2)).to_have_attribute("data-status", "stopped")
    expect(parallel(page).nth(3)).to_have_attribute("data-status", "streaming")
    expect(page.test_id("stop-all")).to_be_visible()
    expect(page.test_id("stop-others")).to_have_text("Stop 2 others")
    page.test_id("stop-others").click()
    page.wait_done()
    expect(parallel(page)).to_have_count(0)
    expect(page.test_id("stop-others")).to_be_hidden()
    assert not server.service.core.jobs
    page.test_id("sibling-next").click()
    expect(reply(page)).to_have_attribute("data-status", "stopped")
    expect(page.test_id("sibling-label")).to_have_text("5/5")


def test_a_reply_with_other_settings_keeps_them_for_itself_and_comes_again(
    same_page: PageDriver, server: PageServer
) -> None:
    page, client = same_page, server.client
    client.replies = lambda request: f"At {request.params.temperature} with {request.params.max_tokens}"
    page.ask("Go")
    page.message_menu(reply(page), "regenerate-with")
    dialog = page.test_id("regenerate-with")
    expect(dialog.get_by_label("Model")).to_be_disabled()
    dialog.get_by_label("Temperature").fill("1.5")
    dialog.get_by_label("Reply limit").fill("50")
    dialog.get_by_label("Seed").fill("-99999999999999999999")
    dialog.get_by_text("2", exact=True).click()
    expect(page.test_id("regenerate-note")).to_contain_text("the others get seeds that follow from it")
    page.test_id("regenerate-go").click()
    expect(dialog.get_by_role("alert")).to_contain_text("seed must be a whole number")
    dialog.get_by_label("Seed").fill("7")
    page.test_id("regenerate-go").click()
    expect(dialog).to_have_count(0)
    expect(page.test_id("sibling-label")).to_have_text("2/3")
    page.wait_done()
    expect(reply(page)).to_contain_text("At 1.5 with 50")
    expect(reply(page).get_by_test_id("own-settings")).to_be_attached()
    seeds = [request.params.seed for request in client.requests[-2:]]
    assert seeds[0] == 7 and seeds[1] not in (7, None)
    page.message_menu(reply(page), "show-details")
    facts = page.test_id("details")
    for words in (
        "1.5 (for this reply alone)",
        "7 (for this reply alone)",
        "fake-model",
        "the model ended it",
        "Version",
    ):
        expect(facts).to_contain_text(words)
    facts.get_by_test_id("reproduce").click()
    expect(facts.get_by_test_id("reproduced")).to_have_text(re.compile("Reproduced: the same .* tokens"))
    said, client.delay_s = facts.get_by_test_id("reproduced"), 0.3
    facts.get_by_test_id("reproduce").click()
    expect(said).to_have_text(re.compile(r"\d+ of [\d,]+ tokens …"))
    facts.get_by_test_id("reproduce-cancel").click()
    expect(said).to_have_text("Cancelled.")
    expect(facts.get_by_test_id("reproduce-cancel")).to_be_hidden()
    facts.get_by_test_id("reproduce").click()
    expect(said).to_have_text(re.compile(r"\d+ of [\d,]+ tokens …"))
    client.delay_s = 0.0
    page.page.keyboard.press("Escape")
    page.regenerate(reply(page), "4/4")
    expect(reply(page)).not_to_contain_text("At 1.5")
    expect(reply(page).get_by_test_id("own-settings")).to_have_count(0)


def test_where_all_replies_would_be_the_same_other_settings_are_asked_for(
    same_page: PageDriver, server: PageServer
) -> None:
    page = same_page
    page.ask("Go")
    server.do(server.service.update_settings(page.session_id, params={"temperature": 0}))
    page.page.wait_for_function("window.pagedchat.page.session.params.temperature === 0")
    page.message_menu(reply(page), "regenerate-several", "regenerate-3")
    expect(page.test_id("regenerate-note")).to_have_text("At temperature 0 all of them say the same.")
    page.test_id("regenerate-with").get_by_label("Temperature").fill("0.8")
    expect(page.test_id("regenerate-note")).to_contain_text("a seed of its own")
    page.test_id("regenerate-go").click()
    expect(page.test_id("sibling-label")).to_have_text("2/4")
    page.wait_done()


def test_messages_are_reached_and_handled_by_single_keys(same_page: PageDriver, server: PageServer) -> None:
    page, keys = same_page, same_page.page.keyboard
    server.client.replies = lambda request: f"Reply {len(server.client.requests)}"
    page.ask("one")
    page.ask("two")
    to_messages(page)
    assert focused(page) == "Reply"
    for key, name in (("k", "You"), ("ArrowUp", "Reply"), ("Home", "You"), ("j", "Reply"), ("End", "Reply")):
        keys.press(key)
        assert focused(page) == name, key
    keys.press("r")
    expect(page.test_id("sibling-label")).to_have_text("2/2")
    page.wait_done()
    expect(page.test_id("told")).to_have_text("Writing another reply.")
    page.page.wait_for_function("document.activeElement.getAttribute('aria-label') === 'Reply, version 2 of 2'")
    keys.press("ArrowLeft")
    expect(page.test_id("told")).to_have_text("Version 1 of 2.")
    assert focused(page) == "Reply, version 1 of 2"
    keys.press("i")
    expect(page.test_id("details")).to_contain_text("fake-model")
    keys.press("Escape")
    assert focused(page) == "Reply, version 1 of 2"
    keys.press("v")
    expect(page.test_id("raw")).to_be_visible()
    keys.press("v")
    expect(page.test_id("raw")).to_have_count(0)
    keys.press("Enter")
    expect(page.test_id("menu")).to_be_visible()
    keys.press("Escape")
    to_messages(page)
    keys.press("Delete")
    expect(page.test_id("sibling-label")).to_have_count(0)
    assert focused(page) == "Reply"
    page.undo()
    expect(page.test_id("sibling-label")).to_have_text("1/2")
    to_messages(page)
    keys.press("e")
    expect(page.test_id("edit-field")).to_be_focused()
    keys.press("Escape")
    keys.press("b")
    expect(page.test_id("composer")).to_be_focused()
    to_messages(page)
    keys.press("Escape")
    expect(page.test_id("composer")).to_be_focused()
    to_messages(page)
    before = page.session_id
    keys.press("f")
    page.page.wait_for_function("(id) => window.pagedchat.page.session.id !== id", arg=before)
    expect(page.messages()).to_have_count(4)


def test_a_branch_begins_under_an_older_reply_when_its_first_message_is_sent(
    same_page: PageDriver, server: PageServer
) -> None:
    page, service = same_page, server.service
    for text in ("one", "two", "three"):
        page.ask(text)
    before, head = page.texts(), server.do(service.core.session(page.session_id)).head_id
    page.action(page.messages("assistant").first, "branch-here")
    place = page.test_id("branch-place")
    expect(place).to_contain_text("Your message goes under this reply. 4 messages below stay in the other branch.")
    expect(page.test_id("composer")).to_be_focused()
    expect(page.messages().locator("visible=true")).to_have_count(2)
    page.test_id("composer").fill("another way")
    page.page.keyboard.press("Escape")
    expect(place).to_have_count(0)
    expect(page.messages().locator("visible=true")).to_have_count(6)
    expect(page.test_id("composer")).to_have_value("another way")
    page.action(page.messages("assistant").first, "branch-here")
    assert server.do(service.core.session(page.session_id)).head_id == head, "nothing moves before it is sent"
    page.test_id("send").click()
    expect(page.messages()).to_have_count(4)
    page.wait_done()
    expect(place).to_have_count(0)
    assert page.texts()[2] == "another way"
    page.messages("user").last.get_by_test_id("sibling-prev").click()
    expect(page.messages()).to_have_count(6)
    assert page.texts() == before
    page.action(page.messages("assistant").first, "branch-here")
    server.do(service.delete_branch(page.messages("user").nth(1).get_attribute("data-message-id")))
    expect(page.page.get_by_text("This chat has changed; your message goes to its end now.")).to_be_visible()
    expect(place).to_have_count(0)


def test_raw_text_is_exact_and_its_control_tokens_are_seen(same_page: PageDriver, server: PageServer) -> None:
    page = same_page
    server.client.replies = ("**Bold** and `<|im_end|>`\n\n1. one",)
    page.ask("  two  spaces\nand <b>markup</b>")
    for message, text, tokens in (
        (reply(page), "**Bold** and `<|im_end|>`\n\n1. one", "<assistant>**Bold** and `<|im_end|>`\n\n1. one<end>"),
        (page.messages("user").last, "  two  spaces\nand <b>markup</b>", "<user>  two  spaces\nand <b>markup</b><end>"),
    ):
        page.message_menu(message, "show-raw")
        raw = message.get_by_test_id("raw")
        assert raw.locator("pre").first.text_content() == text
        raw.locator("summary").click()
        expect(raw.locator("summary")).to_have_text(f"In the prompt: {len(text) + 2} tokens")
        assert raw.locator("pre").last.text_content() == tokens
        assert raw.locator(".control").all_text_contents() == [tokens[: tokens.index(">") + 1], "<end>"]
        raw.get_by_role("button", name="Rendered").click()
        expect(raw).to_have_count(0)
    expect(reply(page).locator("strong")).to_have_text("Bold")


@pytest.mark.parametrize("height", [920, 420])
def test_a_message_stays_where_it_is_while_its_versions_change(
    same_page: PageDriver, server: PageServer, height: int
) -> None:
    page = same_page
    page.page.set_viewport_size({"width": 1480, "height": height})
    texts = ["Filler. " * 200, "\n\n".join(["A long one."] * 12), "Short."]
    server.client.replies = lambda request: texts[min(len(request.messages or []) // 2 + bool(again), 2)]
    again: list[int] = []
    page.ask("one")
    page.ask("two")
    again.append(1)
    page.regenerate(reply(page), "2/2")
    page.test_id("sibling-prev").click()
    expect(page.test_id("sibling-label")).to_have_text("1/2")
    place = "(element) => Math.round(element.getBoundingClientRect().top)"
    to_messages(page)
    for key, label in (("ArrowRight", "2/2"), ("ArrowLeft", "1/2"), ("ArrowRight", "2/2")):
        before = reply(page).evaluate(place)
        page.page.keyboard.press(key)
        expect(page.test_id("sibling-label")).to_have_text(label)
        expect(page.test_id("told")).to_have_text(f"Version {label[0]} of 2.")
        assert reply(page).evaluate(place) == before
    page.page.set_viewport_size({"width": 1480, "height": 920})


def test_a_reply_that_a_person_wrote_is_written_further(same_page: PageDriver, server: PageServer) -> None:
    page = same_page
    page.ask("Say hello")
    expect(reply(page).get_by_test_id("go-on")).to_have_count(0)
    page.action(reply(page), "edit")
    page.test_id("edit-field").fill("Good morn")
    page.test_id("edit-save").click()
    expect(page.test_id("sibling-label")).to_have_text("2/2")
    server.client.replies = ("ing!",)
    page.action(reply(page), "go-on")
    expect(reply(page)).to_contain_text("Good morning!")
    page.wait_done()
    expect(page.test_id("sibling-label")).to_have_text("2/2")
    expect(reply(page).get_by_test_id("go-on")).to_have_count(0)
    page.message_menu(reply(page), "show-details")
    expect(page.test_id("details")).to_contain_text("fake-model")
    page.page.keyboard.press("Escape")


def test_sixty_messages_are_gone_through_branch_by_branch_and_nothing_is_lost_or_computed_again(
    same_page: PageDriver, server: PageServer
) -> None:
    page, service, client = same_page, server.service, server.client
    client.replies = lambda request: f"reply {len(client.requests)}"
    session, first = page.session_id, server.do(_asked(service, page.session_id, None, "the first question"))
    second = server.do(_asked(service, session, first, "the second"))
    for _ in range(10):
        server.do(_ended(service, service.regenerate(second)))
    everyone = [first, second, server.do(service.edit(first, "what it should have said"))["message"]["id"]]
    question = server.do(service.open(session))["messages"][0]["id"]
    edited = server.do(service.edit(question, "the first question, edited"))
    everyone.append(server.do(_ended(service, _given(edited["reply"]))))
    while len(rows := _rows(server, session)) < 60:
        everyone.append(server.do(_asked(service, session, everyone[len(rows) % len(everyone)], f"on, {len(rows)}")))
    leaves = sorted(rows.keys() - set(rows.values()))
    seen = {leaf: _shown(page, leaf) for leaf in leaves}
    assert {leaf: _shown(page, leaf) for leaf in leaves[::-1]} == seen
    assert set().union(*seen.values()) == rows.keys() and _rows(server, session) == rows
    page.page.reload()
    expect(page.messages()).to_have_count(len(seen[leaves[0]]))
    assert [one.get_attribute("data-message-id") for one in page.messages().all()] == seen[leaves[0]]
    for leaf in (leaves[3], leaves[20]):
        _shown(page, leaf)
        fed = [one.get_attribute("data-message-id") for one in page.messages().all()]
        known = len(server.do(service.branch_tokens(session))) - 1
        page.ask(f"back at {leaf}")
        expect(reply(page).get_by_test_id("reply-stats")).to_contain_text(re.compile(rf"^{known} of \d+ tokens reused"))
        assert [one.get_attribute("data-message-id") for one in page.messages().all()][:-2] == fed
    assert _rows(server, session).items() >= rows.items()


async def _given(view: dict) -> dict:
    return view


async def _ended(service, begun) -> str:
    """Wait for a reply's end; returns its id."""
    message_id = (await begun)["id"]
    job = service.core.jobs.get(message_id)
    if job is not None:
        await job.done.wait()
    return message_id


async def _asked(service, session: str, parent: str | None, text: str) -> str:
    return await _ended(service, _given((await service.send(session, parent, text))["reply"]))


def _rows(server: PageServer, session: str) -> dict[str, str | None]:
    """Parents of all messages of a chat."""

    def read() -> dict[str, str | None]:
        with server.service.store._reader.reading() as connection:
            query = "SELECT id, parent_id FROM messages WHERE session_id = ?"
            return dict(connection.execute(query, [session]).fetchall())

    return server.call(read)


def _shown(page: PageDriver, leaf: str) -> list[str]:
    """Show the branch that ends at a message; ids of what the page has then."""
    page.page.evaluate("(id) => window.pagedchat.page.turns.select(id)", leaf)
    page.page.wait_for_function("(id) => window.pagedchat.page.chat.ids.at(-1) === id", arg=leaf)
    return json.loads(page.page.evaluate("JSON.stringify(window.pagedchat.page.chat.ids)"))
