"""The command ``pagedchat bench sessions``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import AsJson
from .options import Output, Seed, finish, progress


def sessions(
    messages: Annotated[int, typer.Option(min=20, help="Messages in all chats.")] = 100_000,
    chats: Annotated[int, typer.Option("--sessions", min=2, help="Chats.")] = 5000,
    long_messages: Annotated[int, typer.Option(min=8, help="Messages of the longest chat.")] = 1500,
    long_mb: Annotated[float, typer.Option(min=0.01, help="Millions of characters in it.")] = 30.0,
    tries: Annotated[int, typer.Option(min=3, help="How often each thing is done.")] = 40,
    seed: Seed = 0,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """How fast does the chat store open, list, search and save, with many chats and a very long one? Ends with 1 when
    a goal is missed."""
    from ...engine.errors import ConfigError
    from ..operate.snapshot import configuration_snapshot
    from .report import BenchResult, warn_if_busy
    from .sessions_bench import run_sessions
    from .sessions_store import Shape

    if messages < long_messages + 2 * chats:
        raise ConfigError(
            f"--messages {messages} is too few for {chats} chats of two messages and one of {long_messages}; "
            "name more, or fewer --sessions."
        )
    shape = Shape(messages, chats, long_messages, round(long_mb * 1e6))
    asked = {"messages": messages, "sessions": chats, "long_messages": long_messages, "long_mb": long_mb}
    result = BenchResult("sessions", configuration_snapshot(), {**asked, "tries": tries, "seed": seed})
    with progress() as shown:
        run_sessions(result, shape, seed, tries, shown.phase)
    finish(warn_if_busy(result), as_json, output)
