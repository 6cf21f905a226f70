"""How the commands of ``sessions`` print: JSON for programs, lines for people, nothing that steers a terminal."""

from __future__ import annotations

import json
import sys
from typing import Any

from .screen import printable

SHORT_ID = 12


def print_json(value: Any) -> None:
    """JSON on stdout, letters of all scripts as they are."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_lines(*lines: str) -> None:
    """Lines on stdout; at a terminal without control characters."""
    people = sys.stdout.isatty()
    for line in lines:
        print(printable(line) if people else line)


def tell(line: str) -> None:
    """A line on stderr."""
    print(printable(line) if sys.stderr.isatty() else line, file=sys.stderr)


def short_ids(ids: list[str]) -> dict[str, str]:
    """For each id, its beginning that no other one of them shares; 12 characters at least."""
    ordered = sorted(ids)
    found = {}
    for place, one in enumerate(ordered):
        around = ordered[max(place - 1, 0) : place] + ordered[place + 1 : place + 2]
        shared = max((_common(one, other) for other in around), default=0)
        found[one] = one[: max(SHORT_ID, shared + 1)]
    return found


def _common(left: str, right: str) -> int:
    return next((place for place, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), len(left))
