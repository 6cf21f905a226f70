"""One message, one reply: from the command line, from a pipe, or both."""

from __future__ import annotations

import sys

from ...engine.errors import PagedChatError
from ...engine.sizes import size_in_words
from .conversation import Conversation
from .screen import Screen

LARGEST_INPUT = 2 << 20


def whole_input(message: str, screen: Screen) -> str:
    """The text to send: what the command line says, then what comes on stdin.

    Raises:
        PagedChatError: there is none, it is not UTF-8, or it is too long for any model.
    """
    piped = ""
    if not sys.stdin.isatty() or not message:
        if sys.stdin.isatty():
            screen.hint("Write your message; Ctrl+D on an empty line sends it.")
        piped = _read()
    text = "\n\n".join(part for part in (message, piped) if part.strip())
    if not text:
        raise PagedChatError("There is nothing to send: give a message, or text on standard input.")
    return text


def _read() -> str:
    data = sys.stdin.buffer.read(LARGEST_INPUT + 1)
    if len(data) > LARGEST_INPUT:
        limit = size_in_words(LARGEST_INPUT)
        raise PagedChatError(f"Standard input has more than {limit}, which no model could read; send a part of it.")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").rstrip("\n")
    except UnicodeDecodeError as error:
        raise PagedChatError(
            f"Standard input is not UTF-8 text (byte {data[error.start]:#04x} at {error.start:,}); convert it first, "
            "for example with iconv."
        ) from error


def answer_once(conversation: Conversation, text: str) -> int:
    """Send ``text`` and write the reply to stdout.

    Returns:
        The exit code: 0 when the reply is whole.

    Raises:
        PagedChatError: it cannot be sent.
    """
    try:
        reply = conversation.ask(text)
    except KeyboardInterrupt:
        return 1
    return 0 if reply["status"] == "done" else 1
