"""What a browser may send over a socket: whole calls come in, halves of characters do not break the connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pagedchat.ui.sockets import next_frame


class Sent:
    """A socket that received this."""

    def __init__(self, data: str | bytes) -> None:
        self.message = {"type": "websocket.receive", "text" if isinstance(data, str) else "bytes": data}

    async def receive(self) -> dict[str, Any]:
        return self.message


def taken(data: str | bytes) -> dict[str, Any] | None:
    socket: Any = Sent(data)
    return asyncio.run(next_frame(socket, 1 << 20))


@pytest.mark.parametrize("data", [r"cut \ud83d", r"cut \udc00", r"\ud800\ud800", r"{\ud83d\ude00 \ud83d}"])
def test_half_a_character_in_a_text_is_replaced_and_the_call_is_taken(data: str) -> None:
    frame = taken('{"id": 3, "op": "draft", "text": "é ' + data + '", "n": 12}')
    assert frame is not None
    shown = data.replace(r"\ud83d\ude00", "😀")
    for half in (r"\ud83d", r"\udc00", r"\ud800"):
        shown = shown.replace(half, "\ufffd")
    assert frame == {"id": 3, "op": "draft", "text": "é " + shown, "n": 12}


@pytest.mark.parametrize(
    "data", ["", "[]", "null", "{", '{"op": "hello"}', '{"id": NaN}', "[" * 100_000, b"\xff\xfe\x00"]
)
def test_what_is_no_call_ends_the_connection(data: str | bytes) -> None:
    assert taken(data) is None
