"""The panel's part about the engine's work: every figure is the engine's own of the same moment."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from pagedchat.engine.histogram import percentile
from pagedchat.engine.request import Request
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.scheduler import Scheduled
from pagedchat.engine.step_log import StepLog
from support.page_driver import PageDriver
from support.page_server import PageServer

TTFT, ITL = "time_to_first_token_seconds", "inter_token_latency_seconds"
USED_THEN = """() => { const { replay, engine: { series: { ring } } } = window.pagedchat.page.panel;
    const rows = Array.from({ length: ring.size }, (_, row) => [ring.at('time', row), ring.at('used', row)]);
    return rows.filter(([time]) => time <= replay.event.time).at(-1)[1]; }"""
LEFT = "(element) => [...element.querySelectorAll('[data-figure]')].map((one) => one.innerText.trim())"


@pytest.fixture
def chat(same_page: PageDriver) -> PageDriver:
    """A new chat, with the engine's part of the panel shown."""
    same_page.panel_tab("engine")
    return same_page


def settle(chat: PageDriver, server: PageServer, rests: bool = True) -> dict[str, Any]:
    """The engine's counters, once the page has drawn those of this moment; ``rests``: nothing more is to be told."""
    stats = server.do(server.client.stats())
    chat.page.wait_for_function(
        "({ steps, running, rests }) => { const { stats } = window.pagedchat.page.panel;"
        " return stats.steps === steps && stats.running === running && stats.recent && (stats.books || !rests); }",
        arg={**stats, "rests": rests},
    )
    chat.page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    return stats


def figures(chat: PageDriver, name: str) -> list[str]:
    return chat.test_id(f"series-{name}").evaluate(LEFT)


def milliseconds(value: float) -> str:
    """As the page says a time."""
    if value >= 0.9995:
        return f"{value:.1f} s"
    return f"{1000 * value:.1f} ms" if value < 0.01 else f"{round(1000 * value)} ms"


def steps_of(server: PageServer, first: int) -> list[dict[str, Any]]:
    return server.do(server.client.steps_since(first))


def lines(chat: PageDriver) -> Locator:
    return chat.test_id("step-list").locator("li")


def note_step(server: PageServer, number: int, owner: str, **how: Any) -> None:
    """A step as a busy engine would have it: 3 decodes and a chunk of a prompt of 1,380 tokens."""

    def request(name: str, length: int, begun: bool) -> Request:
        one = Request(name, [0] * length, SamplingParams(), 0, 0.0, 0, 9, {"session": owner})
        one.num_computed, one.first_token_at = (length - 1, 0.0) if begun else (256, None)
        return one

    plan = [Scheduled(request(f"r{at}", 9, True), 1) for at in range(3)]
    plan.append(Scheduled(request("long", 1380, False), 512))
    log = server.client.step_log
    log.begin(number)
    log.planned(plan, 2, [request("lost", 5, True)] if how.get("lost") else [])
    log.end(failed=how.get("failed", False))


def test_the_newest_figures_are_those_of_the_counters_and_metrics(chat: PageDriver, server: PageServer) -> None:
    before = server.do(server.client.metrics())
    server.client.replies = ("A reply of some words, and of some more words after them.",)
    chat.ask("A question whose figures are looked at")
    chat.regenerate(chat.messages("assistant").last, "2/2")
    stats, metrics = settle(chat, server), server.do(server.client.metrics())
    blocks = [stats[f"blocks_{name}"] for name in ("active", "cached", "free")]
    assert figures(chat, "blocks") == [f"{blocks[0]} used", f"{blocks[1]} cached", f"{blocks[2]} free"]
    assert figures(chat, "requests") == ["0 running", "0 waiting"]
    assert figures(chat, "preempted") == [f"{stats['preemptions']} so far"]
    recent = chat.page.evaluate("window.pagedchat.page.panel.stats.recent")
    for name, source in (("ttft", TTFT), ("itl", ITL)):
        counted = sum(metrics["histograms"][source]["counts"]) - sum(before["histograms"][source]["counts"])
        assert recent[name]["counted"] >= counted > 0
        assert figures(chat, name) == [f"{milliseconds(recent[name][p])} {p.upper()}" for p in ("p50", "p95")]
    share = 100 * recent["cached_tokens"] / recent["prompt_tokens"]
    assert recent["cached_tokens"] > 0 and figures(chat, "hits") == [f"{share:.1f} % of prompt tokens"]
    assert re.fullmatch(r"KV blocks: .*; between 0 and 800 in \d+ minutes?", label(chat, "blocks"))


def test_tokens_a_step_are_the_mean_of_the_steps_since_the_last_news(chat: PageDriver, server: PageServer) -> None:
    chat.ask("Steps of my own")
    settle(chat, server)
    chat.panel_tab("table")
    for tokens in (30, 11):
        server.call(server.client.counted.note_step, tokens)
    chat.panel_tab("engine")
    expect(chat.test_id("series-tokens").locator("[data-figure=tokens]")).to_have_text("20.5 on average")


def label(chat: PageDriver, name: str) -> str:
    return chat.test_id(f"series-{name}").get_by_role("img").get_attribute("aria-label") or ""


def test_percentiles_are_of_the_replies_since_the_page_looked(chat: PageDriver, server: PageServer) -> None:
    chat.page.locator("#pc-blocks").click()  # closed: what was counted before is not of the last minute
    expect(chat.page.locator("#pc")).to_have_attribute("data-panel", "closed")
    chat.page.locator("#pc-blocks").click()
    settle(chat, server, rests=False)
    expect(chat.test_id("series-ttft").locator("[data-figure=ttft50]")).to_have_text("– P50")
    before = server.do(server.client.metrics())["histograms"]
    server.call(server.client.counted.note_tokens, [0.03] * 40 + [0.3] * 4)
    chat.ask("A question")
    settle(chat, server)
    now = server.do(server.client.metrics())["histograms"]
    told = [percentile(share, now[ITL], before[ITL]) or 0.0 for share in (0.5, 0.95)]
    expect(chat.test_id("series-itl").locator("[data-figure=itl95]")).to_have_text(f"{milliseconds(told[1])} P95")
    assert figures(chat, "itl") == [f"{milliseconds(told[0])} P50", f"{milliseconds(told[1])} P95"]


def test_an_earlier_moment_is_read_by_key_and_by_pointer(chat: PageDriver, server: PageServer) -> None:
    chat.ask("First")
    settle(chat, server)
    server.client.gate = asyncio.Event()
    chat.send("Second")
    running = chat.test_id("series-requests").locator("[data-figure=running]")
    expect(running).to_have_text("1 running")
    server.call(server.client.gate.set)
    chat.wait_done()
    settle(chat, server)
    expect(running).to_have_text("0 running")
    slider = chat.test_id("series-slider")
    for _ in range(10):
        slider.press("ArrowLeft")
        if running.inner_text() == "1 running":
            break
    expect(running).to_have_text("1 running")
    assert "Requests: 1 running, 0 waiting" in (slider.get_attribute("aria-valuetext") or "")
    expect(chat.test_id("series-moment")).to_have_text(re.compile(r"^at \d\d:\d\d:\d\d$"))
    slider.press("End")
    expect(running).to_have_text("0 running")
    chart = chat.test_id("series-requests").get_by_role("img")
    chart.hover(position={"x": 1, "y": 5})
    expect(chat.test_id("series-moment")).to_have_text(re.compile("^at "))
    chat.page.mouse.move(5, 5)
    expect(chat.test_id("series-moment")).to_have_text(re.compile("^newest"))


def test_what_the_newest_steps_ran_is_said_as_the_engine_has_it(chat: PageDriver, server: PageServer) -> None:
    server.client.replies = ("ab",)
    chat.ask("Steps, please")
    stats = settle(chat, server)
    rows = steps_of(server, 0)[-5:]
    newest = rows[-1]["step"]
    expect(lines(chat).first).to_have_attribute("data-step", str(newest))
    assert len(rows) == len(lines(chat).all()) == 5 and stats["steps"] >= 5
    for row, line in zip(reversed(rows), lines(chat).all_inner_texts(), strict=True):
        assert line.startswith(f"step {row['step']:,}: ") and f"{row['tokens']:,} of 2,048 tokens" in line
        assert ("1 decode" in line) == bool(row["decodes"])
        for one in row["prefills"]:
            assert f"{one['tokens']}, to {one['total']} of {one['total']}" in line or "of this chat" in line


@pytest.fixture
def busy_steps(chat: PageDriver, server: PageServer) -> Iterator[tuple[int, str]]:
    """Three steps of a busy engine, the second with a loss, the third failed: number of the first, and their chat."""
    chat.ask("A chat that three steps are about")
    settle(chat, server)
    first, title = steps_of(server, 0)[-1]["step"] + 1, chat.page.evaluate("window.pagedchat.page.session.title")
    for at, how in enumerate(({}, {"lost": True}, {"failed": True})):
        server.call(partial(note_step, server, first + at, chat.session_id, **how))
    yield first, title
    server.client.step_log = StepLog(token_budget=2048)


def test_chunks_losses_and_failures_are_told_by_the_names_of_their_chats(
    busy_steps: tuple[int, str], chat: PageDriver
) -> None:
    first, title = busy_steps
    chat.new_chat()
    chat.panel_tab("table")
    chat.panel_tab("engine")
    expect(lines(chat).first).to_have_attribute("data-step", str(first + 2))
    busy = f"3 decodes · prefill of “{title}” 512, to 768 of 1,380 · 515 of 2,048 tokens · 2 waiting"
    told = lines(chat).all_inner_texts()
    assert told[0].startswith(f"step {first + 2:,}: failed · {busy}") and "preempted" not in told[0]
    assert told[1].startswith(f"step {first + 1:,}: {busy} · preempted “{title}”")
    assert told[2].startswith(f"step {first:,}: {busy}") and "failed" not in told[2]
    slider = chat.test_id("step-slider")
    slider.press("ArrowLeft")
    expect(lines(chat).first).to_have_attribute("data-step", str(first + 1))
    assert (slider.get_attribute("aria-valuetext") or "").startswith(f"step {first + 1:,}: 3 decodes")
    marks = chat.page.locator(".step-chart")
    assert [marks.locator(f".{kind}").count() for kind in ("failed", "lost")] == [1, 1]


def test_the_savings_are_counted_from_the_snapshot(chat: PageDriver, server: PageServer) -> None:
    client = server.client
    client.replies = ("y" * 30,)
    question = "A long question that two chats ask at once, so that they hold the same blocks"
    chat.ask(question)
    expect(chat.test_id("savings-words")).to_contain_text("No request holds a block now")
    client.gate = asyncio.Event()
    pair = [server.do(server.service.create_session())["id"] for _ in range(2)]
    for session in pair:
        server.do(server.service.send(session, None, question))
    chat.page.wait_for_function("() => window.pagedchat.page.panel.stats.running === 2")
    settle(chat, server)
    snapshot = server.do(client.snapshot())
    expect(chat.test_id("kv-grid")).to_have_attribute("data-seq", str(snapshot["seq"]))
    physical = snapshot["active"]
    logical = sum(len(table["blocks"]) for table in snapshot["tables"])
    contiguous = 2 * -(-client.status.info["max_model_len"] // snapshot["block_size"])
    for name, number in (("physical", physical), ("logical", logical), ("contiguous", contiguous)):
        expect(chat.test_id(f"savings-{name}").locator("b")).to_have_text(f"{number:,}")
    assert logical > physical
    words = (
        f"Sharing keeps {logical - physical} blocks? from being stored again; 2 whole contexts would take {contiguous}"
    )
    expect(chat.test_id("savings-words")).to_have_text(re.compile(words))
    server.call(client.gate.set)
    expect(chat.test_id("savings-words")).to_contain_text("No request holds a block now")


def test_a_moment_of_the_past_is_shown_with_the_figures_of_then(chat: PageDriver, server: PageServer) -> None:
    chat.ask("What was, was")
    settle(chat, server)
    moment, list_of_steps = chat.test_id("series-moment"), chat.test_id("step-list")
    expect(list_of_steps).to_be_visible()
    chat.test_id("kv-step-back").click()
    expect(moment).to_have_text(re.compile("^at "))
    expect(list_of_steps).to_be_hidden()
    told = chat.page.evaluate(USED_THEN)
    assert figures(chat, "blocks")[0] == f"{told} used"
    held = chat.page.evaluate("window.pagedchat.page.panel.shown.totals.active")
    assert held > 0
    expect(chat.test_id("savings-physical").locator("b")).to_have_text(str(held))
    chat.test_id("kv-live").click()
    expect(moment).to_have_text(re.compile("^newest"))
    expect(list_of_steps).to_be_visible()


def test_steps_travel_only_while_they_are_shown(chat: PageDriver, server: PageServer) -> None:
    chat.page.evaluate(
        """() => { window.told = []; window.pagedchat.page.socket.socket.addEventListener('message', ({ data }) => {
            const { ev, stats } = JSON.parse(data);
            if (ev === 'kv-stats') window.told.push('new_steps' in stats); }); }"""
    )
    chat.panel_tab("table")
    chat.ask("Nobody looks at steps")
    settle(chat, server)
    chat.page.wait_for_function("() => window.told.length > 0")
    assert chat.page.evaluate("window.told.filter(Boolean).length") == 0
    chat.panel_tab("engine")
    chat.ask("Somebody does")
    chat.page.wait_for_function("() => window.told.some(Boolean)")
    newest = steps_of(server, 0)[-1]["step"]
    expect(lines(chat).first).to_have_attribute("data-step", str(newest))
