"""Server and engine together stay within 1 GiB with a chat of 2,048 tokens and its page open."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import BrowserContext, expect

from pagedchat.engine.tokenizer import load_tokenizer
from support.page_driver import PageDriver
from support.running_app import RunningApp

MOST_BYTES = 1 << 30
TOKENS = 2048


def text_of(tokens: int, model: Path) -> str:
    """A text that has about so many."""
    tokenizer = load_tokenizer(model)
    parts: list[str] = []
    while len(tokenizer.encode(" ".join(parts))) < tokens:
        parts += [f"Item {len(parts) + i} weighs {(len(parts) + i) * 37 % 101} grams." for i in range(10)]
    return " ".join(parts)


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory as Linux counts it")
@pytest.mark.timeout(900)
def test_a_long_chat_with_its_page_open_fits_into_a_gibibyte(
    start_app: Callable[..., RunningApp], context: BrowserContext, default_model_path: Path
) -> None:
    app = start_app("--model", str(default_model_path))
    while app.get_json("/health")[1].get("compiling"):
        time.sleep(0.5)
    page = PageDriver(context.new_page(), app.url).goto()

    page.send(text_of(TOKENS, default_model_path))
    reply = page.messages("assistant").last.locator(".body")
    expect(reply).not_to_be_empty(timeout=300_000)
    stop = page.test_id("stop")
    if stop.count():
        stop.click(force=True)
    page.wait_done()
    assert app.get_json("/health")[1]["kernels"] == "numba"

    server = psutil.Process(app.process.pid)
    processes = [server, *server.children(recursive=True)]
    sizes = {" ".join(process.cmdline()[2:5]): process.memory_info().rss for process in processes}
    assert len(sizes) == 2, sizes
    assert app.get_json(f"/api/kv/branch?session={page.session_id}")[1]["num_tokens"] >= TOKENS
    assert sum(sizes.values()) < MOST_BYTES, sizes
