"""Names for rows that sort by the time they were made."""

from __future__ import annotations

import secrets
import threading
import time
from datetime import UTC, datetime

_RANDOM_BITS = 80
_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """32 hex digits: 48 bits of milliseconds, then 80 random bits; always greater than the one before it."""
    global _last
    with _lock:
        value = (time.time_ns() // 1_000_000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        _last = value if value > _last else _last + 1 + secrets.randbits(32)
        return f"{_last:032x}"


def now() -> str:
    """The current time in UTC, ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
