"""The program's log: one rotating file in UTC. Texts of chats are never written to it.

An error is told with its place and kind; its own words only where they cannot quote anything (`engine.fault_text`).
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from ..engine.fault_text import fault_text

LOG_BYTES = 1 << 20
LOG_FILES = 3


def log_file(logs: Path) -> Path:
    """Where ``start_log`` writes."""
    return logs / "pagedchat.log"


def start_log(logs: Path) -> Callable[[], None]:
    """Send the log records of this process to the log file, nowhere if it cannot be written; the result ends that."""
    root = logging.getLogger()
    try:
        logs.mkdir(parents=True, exist_ok=True)
        handler: logging.Handler = RotatingFileHandler(
            log_file(logs), maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8", delay=False
        )
    except OSError:
        handler = logging.NullHandler()
    handler.setFormatter(WordlessFormatter())
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for noisy in ("httpx", "httpcore", "asyncio", "websockets"):
        logging.getLogger(noisy).setLevel(logging.WARNING)

    def end() -> None:
        root.removeHandler(handler)
        handler.close()

    return end


class WordlessFormatter(logging.Formatter):
    """Lines in UTC; errors without words that could quote a text."""

    converter = time.gmtime

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """See `logging`. Another handler's text of the error, which a record carries along, is not used."""
        own = copy.copy(record)
        own.exc_text = None
        return super().format(own)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """See `logging`. asyncio's further lines describe tasks with their errors, words included."""
        if record.name == "asyncio":
            record.message = record.message.partition("\n")[0]
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        """See `logging`."""
        return fault_text(ei[1]) if ei[1] is not None else ""
