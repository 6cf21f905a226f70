"""Checks of what users type into chats and settings."""

from __future__ import annotations

from typing import Any

from ..engine.sampling_params import SamplingParams
from .errors import SessionError
from .sampling import PARAM_NAMES

UNSET: Any = object()
"""Says "leave this as it is" where None has a meaning of its own."""

_TITLE_LIMIT = 200


def check_id(name: str, value: Any) -> None:
    """Refuse what can be no id: anything but a text, or None where none is named.

    Args:
        name: what it should name, for the sentence: "session", "message", "parent".

    Raises:
        SessionError: ``value`` is of another kind.
    """
    if value is not None and not isinstance(value, str):
        kind = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
        given = kind.get(type(value), "something else")
        raise SessionError(f"The id of the {name} must be a text, not {given}; reload the page and try again.")


def clean_text(text: str, *, needed: bool = False) -> str:
    """``text`` as it is, but for halves of characters (lone surrogates), which no file can hold.

    Raises:
        SessionError: it is no text, or ``needed`` and there is nothing but blanks.
    """
    if not isinstance(text, str):
        raise SessionError("What was sent in place of a text is none; reload the page and try again.")
    if needed and not text.strip():
        raise SessionError("The message is empty; write something first.")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_title(title: str, thing: str = "chat") -> str:
    """A name on one line, at most 200 characters.

    Args:
        thing: what it names, for the sentence.

    Raises:
        SessionError: nothing is left.
    """
    line = " ".join(clean_text(title).split())[:_TITLE_LIMIT].strip()
    if not line:
        raise SessionError(f"A {thing} needs a name; write one or keep the old one.")
    return line


def clean_params(old: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Sampling overrides after ``changes``; None takes an override away.

    Raises:
        SessionError: a name that is no sampling parameter.
        RequestError: a value without meaning.
    """
    unknown = sorted(set(changes) - set(PARAM_NAMES))
    if unknown:
        raise SessionError(f"{', '.join(unknown)}: no such sampling setting; there are {', '.join(PARAM_NAMES)}.")
    params = {name: value for name, value in {**old, **changes}.items() if value is not None}
    SamplingParams(**params)
    return params
