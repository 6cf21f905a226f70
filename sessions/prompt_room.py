"""Whether a prompt has room in the context and the pool, asked before anything of it is stored."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from ..engine.errors import ContextLengthError, EngineError

ANSWER_S = 1.0
"""The engine answers between two steps; a message waits no longer than this for the answer."""


async def check_room(engine: Any, messages: list[dict[str, Any]], max_tokens: int | None = None) -> None:
    """Refuse a prompt that could never be served, however much of the history is left out.

    An engine that is not ready, or too busy to answer in time, refuses nothing here: the message is stored then, and
    its reply carries the engine's sentence.

    Args:
        engine: an ``EngineClient`` or what behaves like one.
        messages: as ``GenerateRequest`` takes them; the last one is the question.
        max_tokens: the reply's limit.

    Raises:
        ContextLengthError: naming the prompt's length and the limit it breaks, in tokens.
    """
    info = engine.status.info
    if engine.status.state != "ready" or not info.get("max_model_len"):
        return
    with contextlib.suppress(TimeoutError, EngineError):
        found = await asyncio.wait_for(engine.probe(messages=messages, trim=True, max_tokens=max_tokens), ANSWER_S)
        _refuse(found["prompt_tokens"], info, has_history=len(messages) > 1)


def _refuse(num_tokens: int, info: dict[str, Any], *, has_history: bool) -> None:
    """``capacity`` of an engine is the longest sequence its pool can hold, in tokens; None if any length fits."""
    advice = "Shorten the message, or begin a new chat." if has_history else "Shorten the message."
    longest, pool = info["max_model_len"], info.get("capacity", info["num_blocks"] * info["block_size"])
    if num_tokens >= longest:
        limit = f"the context holds {longest:,} with the reply"
    elif pool is not None and num_tokens > pool:
        limit = f"the KV pool holds {pool:,}"
    else:
        return
    raise ContextLengthError(f"The prompt has {num_tokens:,} tokens, but {limit}. {advice}")
