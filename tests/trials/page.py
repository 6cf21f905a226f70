"""How quick the page is: the real server, a paced engine, a real Chromium, a chat of 1,500 messages, the panel open.

What is told are figures of this machine as it is now, one JSON object a line; no line is a verdict. Times are in ms.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from support.long_chat import add_long_chat
from support.page_driver import CHROMIUM, CHROMIUM_FLAGS, PageDriver
from support.page_server import PageServer
from trials.paced_engine import TOKENS_PER_S, PacedEngine, long_reply, plain_reply

MESSAGES = 1_500
LONG_CHARACTERS = 20_000
TABS = 8
WATCH = """() => {
    const now = () => performance.timeOrigin + performance.now();
    const watch = (window.watch = { seen: [], bytes: 0, kinds: {}, frames: 0, slowest: 0 });
    const { socket } = window.pagedchat.page.socket;
    socket.addEventListener("message", ({ data }) => {
        watch.bytes += data.length;
        const kind = /"ev":"([a-z-]+)"/.exec(data.slice(0, 40))?.[1] ?? "answer";
        watch.kinds[kind] = (watch.kinds[kind] ?? 0) + data.length;
    });
    const replies = () => [...document.querySelectorAll("article.assistant")];
    const before = replies().at(-1)?.dataset.messageId; // what is watched is the reply that comes after it
    let shown = -1;
    let last = performance.now();
    const look = () => {
        const reply = replies().at(-1);
        const found = reply?.dataset.messageId === before ? null : reply.textContent.match(/w\\d+/g)?.at(-1);
        const number = found ? Number(found.slice(1)) : -1;
        const frame = performance.now();
        watch.slowest = Math.max(watch.slowest, frame - last);
        last = frame;
        watch.frames += 1;
        if (number > shown) {
            shown = number;
            const { port1, port2 } = new MessageChannel();
            port1.onmessage = () => watch.seen.push([number, now()]);
            port2.postMessage(0); // comes after this frame is painted
        }
        watch.asked = requestAnimationFrame(look);
    };
    look();
}"""
STOPPED = """async () => {
    const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const reply = [...document.querySelectorAll("article.assistant")].at(-1);
    const begun = performance.now();
    document.querySelector("[data-testid=stop]").click();
    while (reply.isConnected && reply.dataset.status === "streaming") await painted();
    return performance.now() - begun;
}"""
LAST_SHOWN = """async () => {
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const reply = [...document.querySelectorAll("article.assistant")].at(-1);
    return Number(reply.textContent.match(/w\\d+/g)?.at(-1).slice(1) ?? 0);
}"""
OPENED = """async (id) => {
    const { page } = window.pagedchat;
    const begun = performance.now();
    await page.open(id);
    while (page.session?.id !== id || page.switching) await new Promise((done) => setTimeout(done));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - begun;
}"""
SCROLLED = """async () => {
    const { chat } = window.pagedchat.page;
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const begun = performance.now();
    let [jump, slowest] = [0, 0];
    while (chat.earlier) {
        const first = chat.items.get(chat.ids[0]).element;
        chat.log.scrollTop = 300;
        await frame();
        const [count, top, asked] = [chat.ids.length, first.getBoundingClientRect().top, performance.now()];
        while (chat.ids.length === count && chat.earlier) await frame();
        slowest = Math.max(slowest, performance.now() - asked);
        jump = Math.max(jump, Math.abs(first.getBoundingClientRect().top - top));
    }
    return { messages: chat.ids.length, all: performance.now() - begun, slowest_part: slowest, jump_px: jump };
}"""


def measure(say: Callable[[str], None] = print) -> None:
    """Measure all and tell it."""

    def tell(what: str, **figures: Any) -> None:
        say(json.dumps({"what": what, **{name: _round(value) for name, value in figures.items()}}))

    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder, engine = Path(name), PacedEngine()
        very_long = add_long_chat(folder / "sessions.db", MESSAGES)
        short = add_long_chat(folder / "sessions.db", 10, "Short", seed=1)
        with PageServer(folder, engine) as server:
            for session in (very_long, short):
                server.do(server.service.update_settings(session, params={"max_tokens": 25_000}))
            page = browser.new_page(viewport={"width": 1480, "height": 920})
            begun = time.monotonic()
            driver = PageDriver(page, server.url).goto("?session=" + short)
            tell("first page load", ms=(time.monotonic() - begun) * 1e3)
            tell("open 1,500 messages", first=page.evaluate(OPENED, very_long), **_again(page, short, very_long))
            for words, session, reply in (
                ("reply in a chat of 10", short, plain_reply(600)),
                ("reply in a chat of 1,500", very_long, plain_reply(600)),
                (f"reply of {LONG_CHARACTERS:,} characters in a chat of 1,500", very_long, long_reply(LONG_CHARACTERS)),
            ):
                page.evaluate(OPENED, session)
                tell(words, **stream(driver, engine, reply))
            tell("scroll up through all", **page.evaluate(SCROLLED))
            tell("reply with all 1,500 shown", **stream(driver, engine, plain_reply(600)))
            for deaf in (False, True):
                tell("stop" + (" while the engine hears nothing" if deaf else ""), ms=stop(driver, engine, deaf))
            page.close()
            tell(f"in front of {TABS} tabs", **tabs(browser, folder, server, engine))
        tell("errors of the page", count=len(driver.errors))


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser for as long as it is needed."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


def stream(driver: PageDriver, engine: PacedEngine, reply: list[str]) -> dict[str, Any]:
    """Send a question and see when each token of its reply is painted."""
    begin(driver, engine, reply)
    wait_done(driver.page, len(reply) / TOKENS_PER_S + 60)
    return lag(driver.page, engine, reply)


def begin(driver: PageDriver, engine: PacedEngine, reply: list[str]) -> None:
    """Send a question and wait for the first token."""
    engine.replies = lambda request: reply
    driver.page.evaluate("cancelAnimationFrame(window.watch?.asked)")
    driver.page.evaluate(WATCH)
    driver.send("Go on")


def wait_done(page: Page, seconds: float) -> None:
    """Wait for the end of the reply that is shown."""
    page.wait_for_function("!window.pagedchat.page.chat.running", timeout=seconds * 1e3)
    page.wait_for_timeout(300)


def lag(page: Page, engine: PacedEngine, reply: list[str], given: list[float] | None = None) -> dict[str, Any]:
    """Lag of the painted text behind the engine over all tokens, and bytes over the socket for each."""
    watch: dict[str, Any] = page.evaluate("window.watch")
    given = given if given is not None else next(reversed(engine.given_at.values()))
    numbers = [re.findall(r"w(\d+)", token) for token in reply]
    at = {int(found[-1]): given[index] for index, found in enumerate(numbers) if found and index < len(given)}
    lags, seen = [], iter(watch["seen"])
    shown, painted = next(seen, (-1, 0.0))
    for number, when in sorted(at.items()):
        while shown < number and (later := next(seen, None)) is not None:
            shown, painted = later
        if shown >= number:
            lags.append(painted - when * 1e3)
    lags.sort()
    tokens = len(given)
    seconds = given[-1] - given[0]
    return {
        "tokens": tokens,
        "tokens_per_s": tokens / seconds if seconds else 0.0,
        **{f"lag_p{share}": lags[min(len(lags) - 1, len(lags) * share // 100)] for share in (50, 95) if lags},
        "lag_max": lags[-1] if lags else None,
        "slowest_frame": watch["slowest"],
        "bytes_per_token": watch["bytes"] / tokens,
        "patch_bytes_per_token": watch["kinds"].get("patch", 0) / tokens,
    }


def stop(driver: PageDriver, engine: PacedEngine, deaf: bool) -> float:
    """Milliseconds from a click on Stop until the page shows that the reply has ended."""
    begin(driver, engine, plain_reply(2_000))
    driver.page.wait_for_timeout(700)
    engine.deaf = deaf
    took = driver.page.evaluate(STOPPED)
    engine.deaf = False
    return took


def tabs(browser: Browser, folder: Path, server: PageServer, engine: PacedEngine) -> dict[str, Any]:
    """Tabs of one browser that stream at once: lag of the one in front, and how soon each other shows all it has.

    A browser gives tabs behind the front one a frame a second at most, so lag says nothing of them.
    """
    context = browser.new_context(viewport={"width": 1480, "height": 920})
    reply, drivers = plain_reply(3_000), list[PageDriver]()
    engine.replies = lambda request: reply
    for number in range(TABS):
        session = add_long_chat(folder / "sessions.db", 10, f"Tab {number}", seed=number)
        server.do(server.service.update_settings(session, params={"max_tokens": 25_000}))
        drivers.append(PageDriver(context.new_page(), server.url).goto("?session=" + session))
    for driver in drivers[:-1]:
        driver.front().send("Go on")
    front = drivers[-1].front()
    begin(front, engine, plain_reply(1_200))
    running = sum(driver.page.evaluate("window.pagedchat.page.chat.running !== null") for driver in drivers)
    wait_done(front.page, 60)
    given = {one.labels["session"]: engine.given_at[one.request_id] for one in engine.requests[-TABS:]}
    behind = []
    for driver in drivers[:-1]:
        driver.page.bring_to_front()
        shown, now = driver.page.evaluate(LAST_SHOWN), time.time()
        behind.append(max([now - when for when in given[driver.session_id][shown + 1 :]], default=0.0) * 1e3)
    figures = lag(front.page, engine, reply, given[front.session_id])
    context.close()
    return {"running": running, **figures, "others_behind_max": max(behind)}


def _again(page: Page, other: str, session: str) -> dict[str, float]:
    times = []
    for _ in range(3):
        page.evaluate(OPENED, other)
        times.append(page.evaluate(OPENED, session))
    return {"again": sorted(times)[1]}


def _round(value: Any) -> Any:
    return round(value, 1) if isinstance(value, float) else value
