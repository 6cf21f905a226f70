"""What the KV panel costs: the real server, a real pool of 50,000 blocks, eight replies that stream, a real Chromium.

The panel is off, on, and on with colours that tell ages (`LEGS`) by turns, so that what is told for it is the
difference within one run. CPU times are of threads and processes, not of the wall, and each leg lasts until so many
tokens were given, not so many seconds: other work on the machine changes them little. What is told is for `PER_SECOND`
tokens: what eight replies give in a second when nothing holds them up. One JSON object a line.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession

from support.filled_pool import fill
from support.long_chat import add_long_chat
from support.page_driver import PageDriver
from support.page_server import PageServer
from trials.paced_engine import TOKENS_PER_S, PacedEngine
from trials.page import chromium

NUM_BLOCKS = 50_000
USED_BLOCKS = 44_000
REPLIES = 8
TURNS = 4
LEGS = ("off", "owner", "age")
LEG_TOKENS = 8_000
SETTLE_S = 2.0
PER_SECOND = REPLIES * TOKENS_PER_S
WATCH = """() => {
    const kv = (window.kv = { bytes: 0, frames: 0, kinds: {}, asked: 0, first: null });
    window.pagedchat.page.socket.socket.addEventListener("message", ({ data }) => {
        const kind = /^{"ev":"(kv[a-z-]*)"/.exec(data.slice(0, 40))?.[1];
        if (!kind) return;
        kv.bytes += data.length;
        kv.frames += 1;
        kv.kinds[kind] = (kv.kinds[kind] ?? 0) + data.length;
        if (kind === "kv-snapshot") kv.first = { bytes: data.length, at: performance.now() };
    });
}"""
SWITCH = """(leg) => {
    const { panel } = window.pagedchat.page;
    Object.assign(window.kv, { asked: performance.now(), first: null });
    if (leg !== "off") panel.modes.choose(leg);
    panel.setOpen(leg !== "off");
}"""
FIRST = """async () => {
    while (!window.kv.first) await new Promise((done) => setTimeout(done, 5));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const { asked, first: { bytes, at } } = window.kv;
    return { bytes, ms: at - asked, drawn_ms: performance.now() - asked };
}"""
AGES = """async () => {
    while (!window.pagedchat.page.panel.ages.loaded) await new Promise((done) => setTimeout(done, 5));
    return { ms: performance.now() - window.kv.asked };
}"""


@dataclass
class Meter:
    """Seconds of CPU and bytes since the start; subtract two for what was used between them."""

    wall: float
    main_thread: float
    script: float
    browser: float
    server: float
    tokens: int
    kinds: dict[str, int]

    def __sub__(self, other: Meter) -> Meter:
        kinds = {name: size - other.kinds.get(name, 0) for name, size in self.kinds.items()}
        pairs = [(getattr(self, name), getattr(other, name)) for name in list(vars(self))[:-1]]
        return Meter(*(now - then for now, then in pairs), kinds)  # type: ignore[arg-type]

    def __add__(self, other: Meter) -> Meter:
        kinds = {name: self.kinds.get(name, 0) + other.kinds.get(name, 0) for name in {*self.kinds, *other.kinds}}
        pairs = [(getattr(self, name), getattr(other, name)) for name in list(vars(self))[:-1]]
        return Meter(*(one + two for one, two in pairs), kinds)  # type: ignore[arg-type]


def measure(say: Callable[[str], None] = print) -> None:
    """Measure all and tell it."""

    def tell(what: str, **figures: Any) -> None:
        rounded = {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}
        say(json.dumps({"what": what, **rounded}))

    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder, engine = Path(name), PacedEngine(NUM_BLOCKS)
        fill(engine, USED_BLOCKS)
        chats = [add_long_chat(folder / "sessions.db", 10, f"Chat {number}", seed=number) for number in range(REPLIES)]
        with PageServer(folder, engine) as server:
            for session in chats:
                server.do(server.service.update_settings(session, params={"max_tokens": 25_000}))
            page = browser.new_page(viewport={"width": 1480, "height": 920})
            driver = PageDriver(page, server.url).goto("?session=" + chats[0])
            page.evaluate(WATCH)
            page.evaluate(SWITCH, "off")
            stream(server, engine, chats)
            probe = Probe(driver, browser, engine)
            compare(turns(driver, probe, tell), tell)
            tell("errors of the page", count=len(driver.errors))
            for one in engine.requests:
                server.do(engine.cancel(one.request_id))


def stream(server: PageServer, engine: PacedEngine, chats: list[str]) -> None:
    """Begin a reply in every chat, and wait until all have given a few tokens."""
    before = len(engine.given_at)
    engine.replies = lambda request: letters(len(engine.requests))
    for session in chats:
        opened = server.do(server.service.open(session))
        server.do(server.service.send(session, opened["messages"][-1]["id"], "Go on"))
    while len(engine.given_at) < before + len(chats) or min(map(len, engine.given_at.values())) < 20:
        time.sleep(0.05)


def letters(seed: int) -> list[str]:
    """A reply in short paragraphs of which each step is one token, unlike that of any other chat."""
    chance = random.Random(seed)
    return ["\n" if at % 300 < 2 else chance.choice("aeiou nrst ") for at in range(24_000)]


class Probe:
    """Reads all meters of a run."""

    def __init__(self, driver: PageDriver, browser: Browser, engine: PacedEngine) -> None:
        self._page, self._engine = driver.page, engine
        self._browser: CDPSession = browser.new_browser_cdp_session()
        self._cdp: CDPSession = driver.page.context.new_cdp_session(driver.page)
        self._cdp.send("Performance.enable", {"timeDomain": "threadTicks"})

    def read(self) -> Meter:
        """The meters of now."""
        found = {one["name"]: one["value"] for one in self._cdp.send("Performance.getMetrics")["metrics"]}
        processes = self._browser.send("SystemInfo.getProcessInfo")["processInfo"]
        return Meter(
            time.monotonic(),
            found["TaskDuration"],
            found["ScriptDuration"],
            sum(one["cpuTime"] for one in processes),
            time.process_time(),
            sum(map(len, self._engine.given_at.values())),
            self._page.evaluate("({ ...window.kv.kinds, frames: window.kv.frames })"),
        )


def turns(driver: PageDriver, probe: Probe, tell: Callable[..., None]) -> dict[str, Meter]:
    """Use the panel by turns; what was used in each of the `LEGS`."""
    used: dict[str, Meter] = {}
    for turn in range(TURNS):
        there = turn % 2 == 0
        for leg in LEGS if there else reversed(LEGS):  # what grows with time falls on all alike
            driver.page.evaluate(SWITCH, leg)
            if leg == "owner" and there:  # else it is on already
                tell(f"first snapshot, turn {turn + 1}", **driver.page.evaluate(FIRST))
            if leg == "age" and there:
                tell(f"first ages, turn {turn + 1}", **driver.page.evaluate(AGES))
            driver.page.wait_for_timeout(SETTLE_S * 1e3)
            before = spent = probe.read()
            while spent is before or spent.tokens < LEG_TOKENS:
                driver.page.wait_for_timeout(200)
                spent = probe.read() - before
            used[leg] = used[leg] + spent if leg in used else spent
    return used


def compare(used: dict[str, Meter], tell: Callable[..., None]) -> None:
    """What the panel adds, and what with ages: CPU as shares of a core, and bytes a minute."""
    for name in ("main_thread", "script", "browser", "server"):
        off, owner, age = (100 * getattr(used[leg], name) * PER_SECOND / used[leg].tokens for leg in LEGS)
        tell(f"percent of a core, {name}", off=off, on=owner, panel=owner - off, with_ages=age - off)
    for leg, meter in used.items():
        kinds = dict(meter.kinds)
        frames = kinds.pop("frames", 0) / meter.wall
        rates = {name: size * PER_SECOND / meter.tokens * 60 / 1e6 for name, size in sorted(kinds.items())}
        tell(f"MB a minute of kv frames, {leg}", all=sum(rates.values()), frames_per_s=frames, **rates)
        speed = meter.tokens / meter.wall
        tell(f"tokens a second, {leg}", rate=speed, tokens=meter.tokens, seconds=meter.wall)
