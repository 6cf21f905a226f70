"""What comes back from the engine process for one request, until somebody takes it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from .generate_request import RequestStarted
from .types import RequestOutput

Item = RequestStarted | RequestOutput | Exception


@dataclass
class ReplyStream:
    """One request's queue.

    Attributes:
        items: what came and has not been taken yet.
        started: the engine took the prompt.
        owed: the engine has not sent all of it.
    """

    items: asyncio.Queue[Item] = field(default_factory=asyncio.Queue)
    started: bool = False
    owed: bool = False

    def put(self, item: Item) -> None:
        """Hand over what came."""
        self.items.put_nowait(item)
        if ends(item):
            self.owed = False


def ends(item: Item) -> bool:
    """Whether nothing follows ``item``."""
    if isinstance(item, RequestOutput):
        return item.finish_reason is not None and not item.more
    return isinstance(item, Exception)
