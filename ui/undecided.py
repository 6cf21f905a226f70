"""How much of a growing text can be shown: its end may be a mark whose meaning the next characters decide.

::

    A line          "A line" is a paragraph, until "-" makes it a heading for a moment, and "- " the line above a list
    -

Such a line waits until it is whole or has another character, and so does the head of a table until the line under it
has come. Nothing on the screen turns into something else, and nothing is closed that may be part of what follows.
"""

from __future__ import annotations

import re

_MARKS = re.compile(r"[-=*_+#>~`|:\s]*(?:\d{1,9}[.)]?)?[-=*_+#>~`|:\s]*")
_RULE = re.compile(r"[-:|\s]+")


def shown_length(text: str) -> int:
    """Characters of ``text`` that can be shown while more is to come."""
    last = _line_start(text, len(text))
    shown = last if last < len(text) and _MARKS.fullmatch(text, last) else len(text)
    return _above_table(text, shown)


def _line_start(text: str, end: int) -> int:
    return max(text.rfind("\n", 0, end), text.rfind("\r", 0, end)) + 1


def _above_table(text: str, shown: int) -> int:
    """``shown``, or less by one line if that may be the head of a table and is the first line of its block."""
    end = shown
    if end and text[end - 1] in "\r\n":
        rest = text[shown:].strip()
        if rest and not _RULE.fullmatch(rest):
            return shown
        end -= 2 if text.endswith("\r\n", 0, end) else 1
    head = _line_start(text, end)
    if not text[head:end].lstrip().startswith("|"):
        return shown
    above = text[_line_start(text, head - 1) : head] if head else ""
    return shown if above.strip() else head
