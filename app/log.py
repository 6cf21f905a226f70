"""The program's log: one rotating file in UTC. Texts of chats are never written to it."""

from __future__ import annotations

import logging
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

LOG_BYTES = 1 << 20
LOG_FILES = 3


def log_file(logs: Path) -> Path:
    """Where ``start_log`` writes."""
    return logs / "pagedchat.log"


def start_log(logs: Path) -> None:
    """Send the log records of this process to the log file; without one if it cannot be written."""
    root = logging.getLogger()
    try:
        logs.mkdir(parents=True, exist_ok=True)
        handler: logging.Handler = RotatingFileHandler(
            log_file(logs), maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8", delay=False
        )
    except OSError:
        handler = logging.NullHandler()
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for noisy in ("httpx", "httpcore", "asyncio", "websockets"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
