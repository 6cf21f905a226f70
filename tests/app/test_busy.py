"""A server that writes replies still answers at once."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from support.running_app import RunningApp


def test_the_page_answers_while_the_engine_works_at_full_speed(
    start_app: Callable[..., RunningApp], default_model_path: Path
) -> None:
    app = start_app("--model", str(default_model_path))
    tokens: list[int] = []

    def ask(number: int) -> None:
        body = {"prompt": f"Count from {number}: ", "max_tokens": 220, "ignore_eos": True, "temperature": 0}
        request = urllib.request.Request(
            f"{app.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=1200) as answer:
            tokens.append(json.load(answer)["usage"]["completion_tokens"])

    asking = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in asking:
        thread.start()
    waits: list[float] = []
    started = time.monotonic()
    while any(thread.is_alive() for thread in asking):
        begun = time.monotonic()
        with urllib.request.urlopen(f"{app.url}/", timeout=120) as page:
            page.read()
        waits.append(time.monotonic() - begun)
        time.sleep(0.1)
    assert tokens == [220] * 3 and len(waits) >= 10
    assert sorted(waits)[int(0.95 * len(waits))] < (time.monotonic() - started) / 3, "no page waits for a reply's end"
