"""What comes of reading a file."""

from __future__ import annotations

from dataclasses import dataclass

MOST_CHARACTERS = 4_000_000
"""Of a document; some ten books."""


@dataclass(frozen=True, slots=True)
class Extract:
    """What came of a file: its text, or why there is none."""

    text: str | None
    problem: str | None = None
