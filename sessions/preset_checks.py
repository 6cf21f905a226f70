"""What in the stable part of a preset changes from chat to chat, and so keeps chats from sharing its blocks.

Looks at texts only. Ordinary dates, code and JSON are no findings: a date that stands there for good is as stable as
any other word; one that says what day it is now will be replaced tomorrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["placeholder", "clock", "date", "uuid", "counter"]

_MOST = 20
"""Findings in one text; more would tell nobody anything."""
_SENTENCES: dict[Kind, str] = {
    "placeholder": "{what} is sent as it stands; where another program fills it in, every chat differs from there on "
    "and shares no blocks behind it.",
    "clock": "{what} tells a time, so a preset that is kept up to date shares no blocks behind it with chats of a "
    "minute ago; tell the time in a question.",
    "date": "{what} tells what day it is, so tomorrow's chats share no blocks behind it with today's; tell the date "
    "in a question.",
    "uuid": "{what} is an id that is made anew each time, so chats share no blocks behind it; leave it out or put it "
    "into a question.",
    "counter": "{what} counts up from chat to chat, so they share no blocks behind it; leave it out or put it into a "
    "question.",
}

_NAME = r"[A-Za-z_][A-Za-z0-9_.]*"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s?[ap]\.?m\b\.?)?"
_DATE = (
    rf"(?:\d{{4}}-\d{{2}}-\d{{2}}|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}|(?:{_DAY},?\s+)?\d{{1,2}}\.?\s+{_MONTH}"
    rf"(?:,?\s+\d{{4}})?|(?:{_DAY},?\s+)?{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?|{_DAY})"
)
_NOW = r"(?:today(?:['’]s date)?|now|current(?:ly)?(?:\s+(?:date|time|day|year))*|the\s+(?:date|time|day))"
_IS = r"(?:\s+(?:is|it\s+is|and|date|time)|\s*[:=,])*\s*"

_PLACEHOLDERS = re.compile(
    rf"(?<!\\)\{{\{{-?\s*{_NAME}(?:\s*\|\s*{_NAME}(?:\([^)]*\))?)*(?:\(\))?\s*-?\}}\}}"  # {{date}}, {{ now | upper }}
    rf"|\$\{{{_NAME}\}}"  # ${user}
    rf"|(?<!\d )(?<![\d%\w])%(?:\({_NAME}\))?[sd]\b"  # %s, %(name)s
    rf"|(?<![\w\\{{$}}])\{{[A-Za-z_][A-Za-z0-9_.]+\}}(?!\}})"  # {name}
)
_CLOCK = re.compile(
    rf"\d{{4}}-\d{{2}}-\d{{2}}[T ]{_TIME}(?:Z|[+-]\d{{2}}:?\d{{2}})?"  # 2026-05-12T14:05:33Z
    rf"|\b(?:{_NOW}|it){_IS}(?:{_DATE},?\s*(?:at\s+)?)?{_TIME}"  # the time is 14:05
    rf"|\b(?:unix\s+time|timestamp|epoch){_IS}\d{{9,13}}\b",
    re.IGNORECASE,
)
_TODAY = re.compile(rf"\b{_NOW}{_IS}(?:year\s+)?(?:{_DATE}|(?:19|20)\d{{2}})\b", re.IGNORECASE)
_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
_COUNTER = re.compile(
    r"\b(?:request|session|conversation|chat|ticket|visit|run|call)\s*(?:id|number|no\.?|nr\.?|count(?:er)?|#)"
    r"(?:\s+is\s+|[\s:=#]*)\d+\b|\bcounter\s*(?:is|[:=])\s*\d+\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"^(```+|~~~+).*?(?:^\1|\Z)|`[^`\n]+`", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not stay the same.

    Attributes:
        start: of it in the text, in characters.
        text: as it stands there.
    """

    kind: Kind
    start: int
    text: str

    @property
    def sentence(self) -> str:
        """Why it matters."""
        return _SENTENCES[self.kind].format(what=f"“{self.text}”")


def unstable(text: str, *, is_json: bool = False) -> list[Finding]:
    """What in ``text`` is likely to be another one in the next chat, in order; each place once.

    Args:
        is_json: a list of tools, whose braces are its own: only ``{{…}}`` and ``${…}`` count as placeholders there.
    """
    found: list[Finding] = []
    for one in sorted(_matches(text, is_json), key=lambda one: (one.start, -len(one.text))):
        if not found or one.start >= found[-1].start + len(found[-1].text):
            found.append(one)
    return found[:_MOST]


def _matches(text: str, is_json: bool) -> Iterator[Finding]:
    code = [match.span() for match in _CODE.finditer(text)]
    for match in _PLACEHOLDERS.finditer(text):
        in_code = any(begin <= match.start() < end for begin, end in code)
        if not in_code and (not is_json or match[0].startswith(("{{", "${"))):
            yield Finding("placeholder", match.start(), match[0])
    kinds: tuple[tuple[Kind, re.Pattern[str]], ...] = (
        ("clock", _CLOCK),
        ("date", _TODAY),
        ("uuid", _UUID),
        ("counter", _COUNTER),
    )
    for kind, pattern in kinds:
        for match in pattern.finditer(text):
            yield Finding(kind, match.start(), match[0].strip())
