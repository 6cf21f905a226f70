"""The signals that ask the program to end. Light, for it is imported before anything else."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any


def on_end_signals(handler: Callable[[int, Any], Any]) -> None:
    """Call ``handler`` on SIGINT and SIGTERM, except on one that whoever started the program has it ignore."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)
