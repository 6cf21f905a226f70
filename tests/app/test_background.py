"""Work beside the event loop, and the end that comes whatever hangs."""

from __future__ import annotations

import subprocess
import sys

LEAVES = """
import time
from pagedchat.app.background import leave_after
leave_after(0.1, {status}, {words!r})
time.sleep(60)
"""


def end_of(status: int, words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", LEAVES.format(status=status, words=words)],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_an_end_that_hangs_still_says_what_went_wrong():
    ended = end_of(1, "pagedchat: the model does not fit.")
    assert (ended.returncode, ended.stderr, ended.stdout) == (1, "pagedchat: the model does not fit.\n", "")


def test_an_end_that_hangs_without_trouble_is_quiet():
    ended = end_of(0, "")
    assert (ended.returncode, ended.stderr) == (0, "")
