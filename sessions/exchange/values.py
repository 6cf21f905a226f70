"""Reading single values that may be of any kind: texts, times, numbers, data addresses. Nothing here raises."""

from __future__ import annotations

import base64
import binascii
import math
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson

from ..checks import clean_text

_OURS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_YEARS = (1990, 2100)
_INT64 = 1 << 63
_NAME_LIMIT = 200
_NAME_READ = 4000


def as_dict(value: Any) -> dict[str, Any]:
    """``value`` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """``value`` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_object(value: Any) -> dict[str, Any]:
    """``value`` if it is an object that can be written as JSON again, else an empty one."""
    if not isinstance(value, dict) or not value:
        return {}
    try:
        return orjson.loads(orjson.dumps(value))
    except (TypeError, ValueError):  # nested too deeply, or half a character in it
        return {}


def as_text(value: Any) -> str:
    """A text that a file can hold: null is empty, numbers are spelled, anything else becomes JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        try:
            return str(value)
        except ValueError:  # more digits than Python spells
            return ""
    return json_text(value)


def json_text(value: Any) -> str:
    """``value`` as JSON; empty where it is nested too deeply."""
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except (TypeError, ValueError):
        return ""


def as_id(value: Any) -> str | None:
    """An id: a text that is not empty, or a number (older programs count messages); else None."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _INT64:
        return str(value)
    return clean_text(value) if isinstance(value, str) and value else None


def as_name(value: Any) -> str | None:
    """A name on one line, at most 200 characters; None if nothing is left."""
    if not isinstance(value, str):
        return None
    line = " ".join(clean_text(value[:_NAME_READ]).replace("\0", " ").split())
    return line[:_NAME_LIMIT].strip() or None


def as_number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def as_count(value: Any) -> int | None:
    """A whole number that a row can hold, or None."""
    number = as_number(value)
    return int(value) if number is not None and number == int(number) and abs(number) < _INT64 else None


def as_time(value: Any) -> str | None:
    """A moment as rows have it: ISO 8601, UTC, milliseconds. Numbers are seconds, or ms, µs or ns by their size.

    None for what is no time, or none of the years 1990 to 2099.
    """
    if isinstance(value, str):
        return _time_of_text(value)
    number = as_number(value)
    if number is None or not 0 < number < 1e20:
        return None
    while number > 1e11:
        number /= 1000
    try:
        return _spelled(datetime.fromtimestamp(number, UTC))
    except (OverflowError, OSError, ValueError):
        return None


def tomorrow() -> str:
    """The moment a day ahead of this computer's clock; what is later comes from the future."""
    return _spelled(datetime.fromtimestamp(time.time(), UTC) + timedelta(days=1)) or ""


def data_of_base64(text: Any) -> bytes | None:
    """The bytes that Base64 spells, or None."""
    if not isinstance(text, str):
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def data_of_url(url: Any) -> tuple[str, bytes] | None:
    """(media type, bytes) of a ``data:`` address, or None."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return None
    head, comma, body = url[5:].partition(",")
    if not comma:
        return None
    media_type, *rest = head.split(";")
    try:
        data = base64.b64decode(body, validate=True) if "base64" in rest else unquote_to_bytes(body)
    except (binascii.Error, ValueError):
        return None
    return as_name(media_type) or "text/plain", data


def _time_of_text(text: str) -> str | None:
    if _OURS.fullmatch(text):
        return text if _parsed(text) is not None else None
    moment = _parsed(text)
    if moment is not None:
        return _spelled(moment)
    try:
        return as_time(float(text)) if len(text) < 40 else None
    except ValueError:
        return None


def _parsed(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment if _YEARS[0] <= moment.year < _YEARS[1] else None


def _spelled(moment: datetime) -> str | None:
    if not _YEARS[0] <= moment.year < _YEARS[1]:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
