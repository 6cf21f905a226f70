"""Reading JSON bodies: of the right type, not too large, an object, with fields of the right kind."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import Request

from ..engine.sizes import size_in_words
from .api_errors import ApiError

MAX_BODY_BYTES = 4 << 20


async def read_json(request: Request, limit: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """The body's object.

    Raises:
        ApiError: 415 if it is not sent as JSON, 413 if it is longer than ``limit`` bytes, 400 if it is no object.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, "Send the request as JSON, with the header 'Content-Type: application/json'.")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > limit:
            raise ApiError(413, f"The request is longer than {size_in_words(limit)}, the most that is accepted.")
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"The request is not valid JSON: {error}.") from error
    if not isinstance(body, dict):
        raise ApiError(400, "The request must be a JSON object.")
    return body


def boolean(body: dict[str, Any], name: str) -> bool:
    """A flag; absent and null mean false."""
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise ApiError(400, f"{name} must be true or false, not {short(value)}.", param=name)
    return bool(value)


def text(body: dict[str, Any], name: str) -> str:
    """A text; absent and null mean the empty one."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise ApiError(400, f"{name} must be a text, not {short(value)}.", param=name)
    return value or ""


def short(value: Any) -> str:
    """``value`` as JSON, cut to a readable length."""
    try:
        shown = orjson.dumps(value).decode()
    except TypeError:  # nested deeper than can be written
        return "something nested too deeply"
    return shown if len(shown) <= 60 else shown[:57] + "..."
