"""Which part of a branch a page is sent at first; earlier messages come when asked for."""

from __future__ import annotations

WINDOW = 120
"""Messages of a branch that are sent at first."""


def first_shown(ids: list[str], message_id: str | None = None) -> int:
    """Where the shown part of a branch begins: its last messages, and further up if one that is wanted lies there."""
    usual = max(0, len(ids) - WINDOW)
    return max(0, ids.index(message_id) - WINDOW // 4) if message_id in ids[:usual] else usual
