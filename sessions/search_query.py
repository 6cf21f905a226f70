"""The language of the search field.

::

    apples "as a phrase" -pears        words that all occur, a phrase, a word that must not occur
    role:user folder:"My work" model:qwen has:code after:2026-05 before:yesterday

The last word may be unfinished. A minus before a filter turns it round. All else is text: nothing a user types has a
meaning that is not listed here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import get_args

from .errors import SessionError
from .rows import Role
from .search_text import Term, fold, pieces

FILTERS = ("role", "folder", "model", "before", "after", "has")
HAS = ("attachment", "branch", "code", "error", "link", "reasoning")
"""What a message can be asked to have; ``branch``: it has siblings."""

MOST_WORDS = 50
MOST_CHARACTERS = 4000

_OPENING, _CLOSING = '"“„', '"”“'
_QUOTED = f"[{_OPENING}](?P<quoted>[^{_CLOSING}]*)(?P<closed>[{_CLOSING}])?"
_FILTER = re.compile(rf"(?P<minus>-?)(?P<name>{'|'.join(FILTERS)}):(?:{_QUOTED}|(?P<plain>\S*))", re.IGNORECASE)
_WORD = re.compile(rf"(?P<minus>-(?=[^\s-]))?(?:{_QUOTED}|(?P<plain>[^\s{_OPENING}]+))")
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_AGO = re.compile(r"(\d{1,5})([hdwy])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1), "y": timedelta(days=365)}


@dataclass(frozen=True, slots=True)
class Filter:
    """``name:value``, or with a minus before it: only what is not so. The value is folded."""

    name: str
    value: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """What was asked for.

    Attributes:
        wanted: terms that must all occur.
        unwanted: terms that must not occur.
        filters: all but dates; those of one name are alternatives, but each ``has`` counts.
        after, before: UTC as stored; from the first on, up to before the second.
    """

    wanted: tuple[Term, ...] = ()
    unwanted: tuple[Term, ...] = ()
    filters: tuple[Filter, ...] = ()
    after: str | None = None
    before: str | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing was asked for."""
        return self == Query()

    def values(self, name: str, *, negated: bool = False) -> list[str]:
        """The values of the filters of one name."""
        return [one.value for one in self.filters if one.name == name and one.negated == negated]


def parse(text: str, now: datetime | None = None) -> Query:
    """Read what stands in the search field.

    Args:
        now: the time that relative dates count from; dates are of its zone, or of this computer's if it has none.

    Raises:
        SessionError: a filter has a value it cannot have, or there is too much of it.
    """
    if len(text) > MOST_CHARACTERS:
        raise SessionError(f"This search is too long; it can have {MOST_CHARACTERS:,} characters.")
    now = now or datetime.now()
    wanted: list[Term] = []
    unwanted: list[Term] = []
    filters: list[Filter] = []
    dates: dict[str, list[str]] = {"after": [], "before": []}
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        found = _FILTER.match(text, place)
        if found is not None:
            name = found["name"].lower()
            value = (found["quoted"] if found["plain"] is None else found["plain"]).strip()
            if name in dates:
                dates[name].append(_date(name, value, bool(found["minus"]), now))
            else:
                filters.append(_filter(name, value, bool(found["minus"])))
        else:
            found = _WORD.match(text, place)
            assert found is not None
            term = _term(found, unfinished=found.end() == len(text))
            if term is not None:
                (unwanted if found["minus"] else wanted).append(term)
        place = found.end()
    wanted, unwanted = list(dict.fromkeys(wanted)), list(dict.fromkeys(unwanted))
    if len(wanted) + len(unwanted) > MOST_WORDS:
        raise SessionError(
            f"A search can have at most {MOST_WORDS} words; put a passage in quotes to look for it as it is."
        )
    return Query(
        tuple(wanted),
        tuple(unwanted),
        tuple(dict.fromkeys(filters)),
        max(dates["after"], default=None),
        min(dates["before"], default=None),
    )


def _term(found: re.Match[str], *, unfinished: bool) -> Term | None:
    """A word or a phrase; None if no letter, digit or sign that the index knows is in it."""
    text = found["plain"] if found["quoted"] is None else found["quoted"]
    parts = pieces(text)
    if not parts:
        return None
    may_go_on = unfinished and not found["minus"] and not found["closed"]
    return Term(tuple(parts), may_go_on and not _ended(text))


def _ended(text: str) -> bool:
    """Whether a blank or a mark after the last word says that it is whole."""
    after_a = "a" + text[-1]
    return fold(after_a) != "a" and pieces(after_a) == pieces("a")


def _filter(name: str, value: str, negated: bool) -> Filter:
    value = " ".join(fold(value).split())
    known = {"role": get_args(Role), "has": HAS}.get(name)
    if known is not None and value not in known:
        right = f'{name}: takes {_listed(known)}, not "{value}"' if value else f"{name}: needs {_listed(known)}"
        raise SessionError(f'{right}. To search for the text itself, write "{name}:" apart.')
    if not value:
        example = {"folder": 'folder:"My work"', "model": "model:qwen"}[name]
        raise SessionError(f"{name}: needs a name, such as {example}.")
    return Filter(name, value, negated)


def _listed(values: tuple[str, ...]) -> str:
    return f"{', '.join(values[:-1])} or {values[-1]}"


def _date(name: str, value: str, negated: bool, now: datetime) -> str:
    if negated:
        other = "after" if name == "before" else "before"
        raise SessionError(f"{name}: cannot have a minus; write {other}:{value} instead.")
    try:
        return _moment(value.lower(), now).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        raise SessionError(
            f"{name}:{value} is no date; write a year, month or day such as {name}:2026, {name}:2026-05 or "
            f"{name}:2026-05-20, or {name}:today, {name}:yesterday or {name}:7d."
        ) from None


def _moment(value: str, now: datetime) -> datetime:
    """The beginning of the day, month or year; as long ago as it says.

    Raises:
        ValueError, OverflowError, OSError: it is no date, or out of range.
    """
    if value in ("today", "yesterday"):
        day = now.date() - timedelta(days=value == "yesterday")
        return datetime(day.year, day.month, day.day, tzinfo=now.tzinfo)
    if ago := _AGO.fullmatch(value):
        return now - int(ago[1]) * _UNITS[ago[2]]
    date = _DATE.fullmatch(value)
    if date is None:
        raise ValueError(value)
    return datetime(int(date[1]), int(date[2] or 1), int(date[3] or 1), tzinfo=now.tzinfo)
