"""The calls of the page's script by name, and the checks of what they carry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any

from ..engine.errors import PagedChatError, RequestError
from ..sessions.checks import check_id
from .connection import Connection
from .views import View

Call = Callable[[Connection, View], Awaitable[Any]]
CALLS: dict[str, Call] = {}

_OBJECTS = ("change", "params")
_IDS = ("session", "message", "parent", "folder", "branch", "preset", "a", "b", "queued", "file")
_TEXTS = ("text", "title", "name", "query", "mode")
_FLAGS = ("on", "temporary", "follow", "typed")
_NUMBERS = ("version", "limit", "offset", "place", "count", "run", "n", "index", "token", "block")
_LARGEST_NUMBER = 1 << 53
_MOST_IDS = 10_000


def call(function: Call) -> Call:
    """Register a call under its function's name."""
    CALLS[function.__name__.rstrip("_")] = function
    return function


def pass_on(name: str, method: str, *fields: str, answers: bool = False) -> None:
    """Register a call that only asks the chat service for something.

    Args:
        method: of the service, or of its library after a dot; ``fields`` of the frame are its arguments.
        answers: whether the page gets what it returns.
    """

    async def run(connection: Connection, frame: View) -> Any:
        found = await attrgetter(method)(connection.hub.service)(*(frame[field] for field in fields))
        return found if answers else None

    CALLS[name] = run


async def or_shown_as_it_is(connection: Connection, session_id: str, change: Awaitable[View]) -> View:
    """Wait for a change of a chat; if it is refused, all pages get the chat as it is."""
    try:
        return await change
    except PagedChatError:
        await connection.hub.service.core.retell_session(session_id)
        raise


def check(frame: View) -> None:
    """Refuse what a page of ours would never send. Fields that are missing or null are the call's own matter.

    Raises:
        PagedChatError: a field is of another kind than its name says.
    """
    for name in _OBJECTS:
        if not isinstance(frame.get(name), dict | None):
            raise RequestError("The page sent settings that are none; reload it.")
    for name in _IDS:
        check_id(name, frame.get(name))
    for name in _TEXTS:
        if not isinstance(frame.get(name), str | None):
            raise RequestError("What was sent in place of a text is none; reload the page and try again.")
    for name in _FLAGS:
        if not isinstance(frame.get(name), bool | None):
            raise RequestError(f"The page sent {name} as neither true nor false; reload it.")
    for name in _NUMBERS:
        _check_number(name, frame.get(name))
    for name in ("ids", "files"):
        _check_ids(frame.get(name))


def _check_number(name: str, value: Any) -> None:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST_NUMBER
    if value is not None and not fits:
        raise RequestError(f"The page sent a {name} that is no whole number; reload it.")


def _check_ids(ids: Any) -> None:
    if ids is None:
        return
    if not isinstance(ids, list) or len(ids) > _MOST_IDS or not all(isinstance(one, str) for one in ids):
        raise RequestError("The page sent a list of ids that is none; reload it.")
