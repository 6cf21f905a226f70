"""``pagedchat chat``: the options, and which of the two ways to chat they mean. Heavy modules load when it runs."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated

import typer

from ..options import serve_flags_and_words

OPTIONS = "[OPTIONS] [MESSAGE]..."


def chat(
    context: typer.Context,
    go_on: Annotated[bool, typer.Option("--continue", "-c", help="Go on with the last chat.")] = False,
    session: Annotated[
        str | None, typer.Option("--session", metavar="CHAT", help="Go on with a chat: id, its beginning, or title.")
    ] = None,
    system: Annotated[str | None, typer.Option("--system", help="System prompt of the chat.")] = None,
    preset: Annotated[str | None, typer.Option("--preset", help="Begin the chat with this preset.")] = None,
    temporary: Annotated[bool, typer.Option("--temporary", help="A chat on no disk, gone at the end.")] = False,
    stats: Annotated[bool, typer.Option("--stats", help="Say after each reply what it took.")] = False,
) -> None:
    """Chat in this terminal, on the chats and the engine of the page.

    With a MESSAGE, or something on standard input, it answers once: the reply goes to standard output, everything
    else to standard error. Where `pagedchat serve` runs on the same folder, it is asked; otherwise the model is loaded
    here, and serve's flags (--model, --max-model-len, ...) may follow.
    """
    flags, words = serve_flags_and_words(context)
    from .talk import Wishes, talk

    message, session, system, preset = (whole(one) for one in (" ".join(words), session, system, preset))
    wishes = Wishes(message or "", go_on, session, system, preset, temporary, stats, flags)
    raise typer.Exit(_quietly(lambda: talk(wishes)))


def whole(text: str | None) -> str | None:
    """An argument as text: bytes that are no UTF-8 become signs."""
    return text and text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _quietly(run) -> int:
    """Run it; a reader of stdout that has gone is no fault, and Python must not complain of it at the end."""
    try:
        return run()
    except BrokenPipeError:
        with suppress(OSError, ValueError):
            sys.stdout.close()
        return 0
