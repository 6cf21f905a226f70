"""Words that every floor from here up says alike."""

from __future__ import annotations


def counted(count: int, noun: str, several: str = "") -> str:
    """A number with its noun: 1 chat, 2 chats; ``several`` where the plural is another one."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"
