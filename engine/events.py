"""The stream of KV events: what happened to which blocks, in order. Panel, metrics and tests read the same stream."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Literal

KEPT_EVENTS = 10_000

EventType = Literal[
    "allocated",  # content-free blocks were given to a request
    "shared",  # a request took references to blocks that hold its prefix
    "copied",  # copy-on-write: blocks = [source, destination]
    "stored",  # blocks' content became known to the prefix index
    "released",  # a request gave its references back
    "evicted",  # cached content was given up; the blocks are free
    "pinned",  # cached content is kept whatever else is needed
    "unpinned",
    "preempted",  # a request lost its blocks and waits again; its `released` event follows
    "restored",  # a preempted request runs again; what it found is in the `shared` events before
    "reset",  # all cached content was forgotten
]


class EventLog:
    """Numbered events, the newest 10,000 kept for replay.

    Each event is a dict: ``seq``, ``time`` (seconds since the epoch), ``step`` (engine step), ``type``, ``blocks``
    (physical ids), ``ref_counts`` and ``states`` (one letter a block: f free, c cached, a active, s shared; both as
    they are after the event), ``parent`` (physical block before the first one, or None), ``num_tokens`` (valid slots
    of the last block, or tokens concerned), ``request_id`` and ``labels``. Whoever applies events to a snapshot in
    order has the pool's exact state.
    """

    def __init__(self, describe: Callable[[int], tuple[int, str]], clock: Callable[[], float] = time.time) -> None:
        self._describe = describe
        self._clock = clock
        self._kept: deque[dict[str, Any]] = deque(maxlen=KEPT_EVENTS)
        self._undrained: list[dict[str, Any]] = []
        self.seq = 0
        self.step = 0

    def now(self) -> float:
        """Seconds since the epoch, by the clock of the events."""
        return self._clock()

    def emit(
        self,
        kind: EventType,
        blocks: Sequence[int],
        *,
        parent: int | None = None,
        num_tokens: int | None = None,
        request_id: str | None = None,
        labels: dict[str, str] | None = None,
    ) -> None:
        """Append one event about ``blocks``."""
        described = [self._describe(block) for block in blocks]
        self.seq += 1
        event = {
            "seq": self.seq,
            "time": self._clock(),
            "step": self.step,
            "type": kind,
            "blocks": list(blocks),
            "ref_counts": [count for count, _ in described],
            "states": "".join(state for _, state in described),
            "parent": parent,
            "num_tokens": num_tokens,
            "request_id": request_id,
            "labels": labels or {},
        }
        self._kept.append(event)
        self._undrained.append(event)

    def since(self, seq: int) -> list[dict[str, Any]] | None:
        """Events after ``seq``, oldest first; None when some of them are no longer kept."""
        if seq >= self.seq:
            return []
        if not self._kept or seq < self._kept[0]["seq"] - 1:
            return None
        return [event for event in self._kept if event["seq"] > seq]

    def about(self, block: int, most: int) -> list[dict[str, Any]]:
        """The newest events that are kept about a block, oldest first."""
        found = islice((event for event in reversed(self._kept) if block in event["blocks"]), most)
        return list(found)[::-1]

    def forget(self, session: str) -> set[str]:
        """Take a session's name out of all events that are kept; what happened to which blocks stays.

        Returns:
            The ids of its requests, which are taken out with it.
        """
        own = [event for event in self._kept if event["labels"].get("session") == session]
        ids = {event["request_id"] for event in own}
        for event in own:
            event["labels"], event["request_id"] = {}, None
        return ids

    def drain(self) -> list[dict[str, Any]]:
        """Events since the last call; for the one consumer that forwards them."""
        events, self._undrained = self._undrained, []
        return events


def reset_event(seq: int) -> dict[str, Any]:
    """The event that says: forget what you knew and take a new snapshot."""
    return {
        "seq": seq,
        "time": time.time(),
        "step": None,
        "type": "reset",
        "blocks": [],
        "ref_counts": [],
        "states": "",
        "parent": None,
        "num_tokens": None,
        "request_id": None,
        "labels": {},
    }
