"""Text cannot become code, and the page speaks to nobody but its own server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import websockets
from playwright.sync_api import BrowserContext, expect

from support.page_driver import PageDriver
from support.page_server import PageServer

NASTY = (
    "<img src=x onerror=\"window.hit='img'\">",
    "<style>body{display:none!important}</style>",
    "<script>window.hit='script'</script>",
    "<svg onload=\"window.hit='svg'\"></svg>",
    "[click](javascript:window.hit='link')",
    "![](https://other.example/pixel.png)",
    "vector<int> a; <todo> x < y",
    "<think>hidden</think>",
)


def watch(context: BrowserContext) -> list[str]:
    """Addresses that the pages ask for."""
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    return asked


def test_the_page_asks_no_other_host(context: BrowserContext, chat: PageDriver, server: PageServer) -> None:
    asked = watch(context)
    chat.page.reload()
    chat.ask("Hello there")
    chat.page.get_by_role("button", name="Settings", exact=True).first.click()
    expect(chat.page.get_by_role("dialog")).to_be_visible()
    assert asked
    assert [url for url in asked if not url.startswith((server.url, "data:", "blob:"))] == []


def test_gradio_opens_no_stream_and_no_heartbeat(context: BrowserContext, chat: PageDriver) -> None:
    asked = watch(context)
    chat.page.reload()
    chat.ask("Hello there")
    chat.page.wait_for_timeout(500)
    assert [url for url in asked if "heartbeat" in url or "queue" in url or "gradio_api" in url] == []


def _settle(chat: PageDriver) -> None:
    """Wait until the page has drawn nothing for two seconds; a busy machine takes a while over it."""
    for _ in range(15):
        chat.page.evaluate("window.frames_asked = 0")
        chat.page.wait_for_timeout(2_000)
        if chat.page.evaluate("window.frames_asked") == 0:
            return
    raise AssertionError("the page never stops drawing")


def test_an_idle_page_is_silent(context: BrowserContext, open_page: Callable[..., PageDriver]) -> None:
    context.add_init_script(
        """window.frames_asked = 0;
        const ask = window.requestAnimationFrame;
        window.requestAnimationFrame = (work) => { window.frames_asked++; return ask(work); };"""
    )
    chat = open_page()
    chat.new_chat()
    chat.ask("Hello there")
    _settle(chat)
    frames: list[str] = []
    chat.page.on("websocket", lambda socket: frames.append("connected"))
    asked = watch(context)
    chat.page.evaluate(
        """() => {
            window.traffic = 0;
            const { socket } = window.pagedchat.page.socket;
            socket.addEventListener('message', () => window.traffic++);
            const send = socket.send.bind(socket);
            socket.send = (data) => { window.traffic++; send(data); };
            window.frames_asked = 0;
        }"""
    )
    chat.page.wait_for_timeout(4_000)
    assert (chat.page.evaluate("window.traffic"), asked, frames) == (0, [], [])
    assert chat.page.evaluate("window.frames_asked") == 0, "nothing may be drawn while nothing happens"


@pytest.mark.parametrize("text", NASTY)
def test_b50_markup_is_shown_as_typed_and_runs_nowhere(
    text: str, context: BrowserContext, chat: PageDriver, server: PageServer
) -> None:
    asked = watch(context)
    server.client.replies = (text,)
    reply = chat.ask(text)
    expect(chat.messages("user").last.locator(".typed")).to_have_text(text)
    if not text.startswith(("[", "!")):
        expect(reply.locator(".md")).to_have_text(text)
    chat.page.wait_for_timeout(150)
    assert chat.page.evaluate("window.hit ?? null") is None
    assert chat.page.evaluate("getComputedStyle(document.body).display") != "none"
    assert reply.locator("img, svg:not(.icon svg):not(.note svg), script, style").filter(visible=True).count() == 0
    assert all(url.startswith(server.url) for url in asked)
    for link in reply.locator(".md a").all():
        assert not (link.get_attribute("href") or "").startswith("javascript")
    expect(chat.page.locator("#pc-title")).to_contain_text(text[:10])


def test_b50_titles_are_text_everywhere(chat: PageDriver, server: PageServer) -> None:
    chat.ask("A title to come")
    nasty = "<img src=x onerror=\"window.hit='title'\"> & <b>bold</b>"
    server.do(server.service.rename(chat.session_id, nasty))
    expect(chat.page.locator("#pc-title")).to_have_text(nasty)
    expect(chat.page.locator(f"[data-session-id='{chat.session_id}'] .title")).to_have_text(nasty)
    chat.chat_menu(chat.session_id, "delete")
    expect(chat.page.locator(".toast")).to_contain_text("<img src=x")
    assert chat.page.evaluate("window.hit ?? null") is None


def test_b50_an_imported_file_is_text_everywhere(
    context: BrowserContext, chat: PageDriver, server: PageServer, tmp_path: Path
) -> None:
    asked, words = watch(context), " ".join(NASTY[:5])
    turns = [{"role": role, "content": f"{role}: {words}"} for role in ("system", "user", "assistant")]
    file = tmp_path / "<img src=x onerror=window.hit=1>.jsonl"
    file.write_text(json.dumps({"title": words, "messages": turns}) + "\n", "utf-8")
    chat.test_id("more-menu").click()
    with chat.page.expect_file_chooser() as chooser:
        chat.test_id("import").click()
    chooser.value.set_files(file)
    report = chat.test_id("import-report")
    expect(report).to_contain_text("<img src=x onerror")
    report.get_by_role("button", name="Show the first").click()
    expect(chat.messages("assistant")).to_contain_text("<style>body{display:none!important}</style>")
    chat.messages("assistant").hover()
    chat.page.wait_for_timeout(150)
    assert chat.page.evaluate("window.hit ?? null") is None
    assert chat.page.evaluate("getComputedStyle(document.body).display") != "none"
    assert [url for url in asked if not url.startswith((server.url, "data:", "blob:"))] == []


@pytest.mark.parametrize("text", [" ".join(NASTY[:2]), " ".join(NASTY[2:5])])
def test_a_title_and_a_system_prompt_with_markup_run_nowhere(
    text: str, context: BrowserContext, chat: PageDriver, server: PageServer, open_page: Callable[..., PageDriver]
) -> None:
    asked = watch(context)
    chat.ask("Hi")
    server.do(server.service.update_settings(chat.session_id, system_prompt=text))
    server.do(server.service.rename(chat.session_id, text))
    other = open_page(f"?session={chat.session_id}")
    for page in (chat, other):
        expect(page.page.locator("#pc-title")).to_have_text(text)
        expect(page.page.locator(f"[data-session-id='{chat.session_id}'] .title")).to_have_text(text)
        expect(page.page.locator("#pc .system span")).to_have_text(text)
        page.page.get_by_role("button", name="Settings", exact=True).first.click()
        expect(page.page.get_by_label("System prompt")).to_have_value(text)
        page.page.wait_for_timeout(200)
        assert page.page.evaluate("window.hit ?? null") is None
        assert page.page.evaluate("getComputedStyle(document.body).display") != "none"
        assert page.page.title() == f"{text} · pagedchat"
    assert all(url.startswith((server.url, "data:", "blob:")) for url in asked)


EXACT = "vector<int> a; <todo> x < y, <think>, from $5 to $7 per GB, \\(x^2\\)"


def test_b49_every_character_is_shown_and_kept_in_replies_questions_and_titles(
    same_page: PageDriver, server: PageServer
) -> None:
    chat, shown = same_page, EXACT.rpartition(", ")[0]
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    server.client.replies = (EXACT,)
    reply = chat.ask(EXACT)
    expect(reply.locator(".md")).to_contain_text(shown)
    expect(reply.locator("math msup")).to_have_count(1)
    expect(reply.locator("em, math")).to_have_count(1)
    typed = chat.messages("user")
    expect(typed.locator(".typed")).to_have_text(EXACT)
    expect(typed.locator("math, em")).to_have_count(0)
    stored = server.do(server.service.open(chat.session_id))["messages"]
    assert [one["content"] for one in stored] == [EXACT, EXACT]
    for message in (reply, typed):
        chat.action(message, "copy")
        expect(message.locator("[data-testid=copy].done")).to_be_visible()
        assert chat.page.evaluate("navigator.clipboard.readText()") == EXACT
        chat.page.evaluate("navigator.clipboard.writeText('')")
    server.do(server.service.rename(chat.session_id, EXACT))
    expect(chat.page.locator("#pc-title")).to_have_text(EXACT)
    expect(chat.row(chat.session_id).locator(".title")).to_have_text(EXACT)
    assert chat.page.title() == f"{EXACT} · pagedchat"


def test_b49_copy_gives_exactly_what_the_model_wrote(
    context: BrowserContext, chat: PageDriver, server: PageServer
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    text = "Use `vector<int>`:\n\n```cpp\nstd::vector<int> a; // <todo>\n\tint x = 1;\n```\n\nfrom $5 to $7 \\(x^2\\)"
    server.client.replies = (text,)
    reply = chat.ask("Code, please")
    chat.action(reply, "copy")
    expect(reply.locator("[data-testid=copy].done")).to_be_visible()
    assert chat.page.evaluate("navigator.clipboard.readText()") == text
    reply.get_by_role("button", name="Copy code").click()
    expect(reply.locator("[data-copy=code].done")).to_be_visible()
    code = chat.page.evaluate("navigator.clipboard.readText()")
    assert code == "std::vector<int> a; // <todo>\n\tint x = 1;"


def test_a_socket_from_another_origin_is_refused(server: PageServer) -> None:
    address = server.url.replace("http", "ws") + "/ui/ws"

    async def connect(origin: str | None) -> bool:
        try:
            async with websockets.connect(address, origin=origin):  # type: ignore[arg-type]
                return True
        except websockets.exceptions.InvalidStatus:
            return False

    assert server.do(connect(server.url))
    assert server.do(connect(None))
    assert not server.do(connect("http://other.example"))
    assert not server.do(connect(f"http://127.0.0.1:{server.port + 1}"))


def test_eight_tabs_each_get_their_own_reply(open_page: Callable[..., PageDriver], server: PageServer) -> None:
    server.client.replies = lambda request: ((request.messages or [])[-1]["content"] + " ") * 20
    server.client.delay_s = 0.01
    tabs = [open_page() for _ in range(8)]
    for index, tab in enumerate(tabs):
        tab.page.bring_to_front()
        tab.new_chat()
        tab.send(f"tab{index}")
    for index, tab in enumerate(tabs):
        tab.page.bring_to_front()
        tab.wait_done()
        assert tab.texts() == [f"tab{index}", (f"tab{index} " * 20).strip()]
