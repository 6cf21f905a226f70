from __future__ import annotations

import time
from pathlib import Path

import pytest

from pagedchat.app.browser import has_browser


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"BROWSER": "firefox"}, "linux", True),
        ({}, "linux", False),
        ({"DISPLAY": ":10", "SSH_CONNECTION": "1 2 3 4"}, "linux", False),
        ({}, "darwin", True),
        ({}, "win32", True),
        ({"SSH_TTY": "/dev/ttys1"}, "darwin", False),
    ],
)
def test_the_browser_opens_only_where_the_user_can_see_it(environment, platform, expected):
    assert has_browser(environment, platform) is expected


def test_a_start_and_a_second_start_open_the_page_on_the_port_that_is_really_bound(start_app, tmp_path, monkeypatch):
    for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)
    opened = tmp_path / "opened.txt"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> "{opened}"\n')
    browser.chmod(0o755)
    (tmp_path / "good.gguf").write_bytes(b"GGUF")
    options = {"env": {"BROWSER": str(browser)}, "opens_browser": True, "scripted": True}

    first = start_app("--model", str(tmp_path / "good.gguf"), wait="page", **options)
    _wait_for_lines(opened, 1)
    second = start_app("--model", str(tmp_path / "good.gguf"), wait="", **options)

    assert second.wait_end() == 0
    assert _wait_for_lines(opened, 2) == [first.url, first.url]


def _wait_for_lines(path: Path, count: int) -> list[str]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        lines = path.read_text().split() if path.exists() else []
        if len(lines) >= count:
            return lines
        time.sleep(0.05)
    raise AssertionError(f"{count} lines were expected in {path}")
