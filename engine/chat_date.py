"""The date that a chat template writes: the day the chat began, so that what was sent once stays as it is.

Templates ask for it in two ways: a variable ``date_string`` (Llama 3's, with a day in 2024 where it is not given) and a
function ``strftime_now``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

DATE_NAMES = ("date_string", "strftime_now")


class FrozenClock:
    """``strftime_now`` of a chat: always the moment it began."""

    __slots__ = ("_moment",)

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def __call__(self, text: str) -> str:
        return self._moment.strftime(text)

    def __str__(self) -> str:
        return self._moment.isoformat()


def date_variables(begun_at: str | None) -> dict[str, Any]:
    """What a template that writes dates is given.

    Args:
        begun_at: when the chat began, in ISO 8601; None for a chat that nobody keeps, which has today's date.
    """
    moment = _local(begun_at)
    if moment is None:
        return {"date_string": _spelled(_today())}
    return {"date_string": _spelled(moment), "strftime_now": FrozenClock(moment)}


def _local(begun_at: str | None) -> datetime | None:
    """The moment in this computer's time; None for what is no time."""
    try:
        return datetime.fromisoformat(begun_at).astimezone() if begun_at else None
    except ValueError:
        return None


def _today() -> datetime:
    return datetime.now()


def _spelled(moment: datetime) -> str:
    return moment.strftime("%d %b %Y")
