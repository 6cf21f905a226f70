"""Work beside the event loop that never holds up the end of the program."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from .terminal import say

T = TypeVar("T")


async def in_thread(function: Callable[[], T]) -> T:
    """Run ``function`` in a daemon thread of its own; an executor's threads would be waited for at exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(settle: Callable[[], None]) -> None:
        if not future.done():
            settle()

    def work() -> None:
        try:
            result = function()
        except BaseException as error:
            settle = partial(future.set_exception, error)
        else:
            settle = partial(future.set_result, result)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(deliver, settle)

    threading.Thread(target=work, daemon=True).start()
    return await future


def leave_after(seconds: float, status: int, last_words: str = "") -> None:
    """End the process with exit code ``status`` when it has not ended by itself by then.

    Args:
        last_words: for stderr, when it comes to that.
    """

    def leave() -> None:
        if last_words:
            say(last_words, sys.stderr)
        os._exit(status)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()
