"""Checks of what users type into chats and settings."""

from __future__ import annotations

from typing import Any

from ..engine.sampling_params import SamplingParams
from .errors import SessionError
from .views import PARAM_NAMES

UNSET: Any = object()
"""Says "leave this as it is" where None has a meaning of its own."""

_TITLE_LIMIT = 200


def clean_text(text: str, *, needed: bool = False) -> str:
    """``text`` as it is, but for halves of characters (lone surrogates), which no file can hold.

    Raises:
        SessionError: ``needed``, and there is nothing but blanks.
    """
    if needed and not text.strip():
        raise SessionError("The message is empty; write something first.")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_title(title: str) -> str:
    """A title on one line, at most 200 characters.

    Raises:
        SessionError: nothing is left.
    """
    line = " ".join(clean_text(title).split())[:_TITLE_LIMIT].strip()
    if not line:
        raise SessionError("A chat needs a name; write one or keep the old one.")
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
