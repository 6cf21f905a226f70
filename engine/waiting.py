"""Requests that wait to be admitted, and whose turn it is.

Order: by priority; then preempted requests, oldest first, because they were admitted once; then salts take turns,
and within a salt its lanes (chats) do; within a lane the oldest is first. Whoever was served longest ago is next, so a
tenant with one request does not wait behind another's twenty.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator

from .request import Request

REMEMBERED_LANES = 4096

Lane = tuple[str, str]


class WaitingQueue:
    """The waiting requests."""

    def __init__(self) -> None:
        self._preempted: list[Request] = []
        self._lanes: dict[tuple[int, Lane], deque[Request]] = {}
        self._served: OrderedDict[str | Lane, int] = OrderedDict()
        self._turn = 0
        self._order: list[Request] | None = None

    def __len__(self) -> int:
        return len(self._preempted) + sum(map(len, self._lanes.values()))

    def __iter__(self) -> Iterator[Request]:
        yield from self._preempted
        for lane in self._lanes.values():
            yield from lane

    def add(self, request: Request) -> None:
        """A new request waits behind older ones of its lane."""
        self._lanes.setdefault((request.priority, _lane(request)), deque()).append(request)
        self._order = None

    def add_preempted(self, request: Request) -> None:
        """A request that ran waits before all that did not."""
        self._preempted.append(request)
        self._order = None

    def remove(self, request: Request) -> bool:
        """Take a request out; False if it does not wait."""
        key = (request.priority, _lane(request))
        if request in self._preempted:
            self._preempted.remove(request)
        elif request in self._lanes.get(key, ()):
            self._lanes[key].remove(request)
            if not self._lanes[key]:
                del self._lanes[key]
        else:
            return False
        self._order = None
        return True

    def served(self, request: Request) -> None:
        """The request was admitted: its salt and its lane have had their turn."""
        self.remove(request)
        self._turn += 1
        for key in (request.salt, _lane(request)) if request.lane else (request.salt,):
            self._served[key] = self._turn
            self._served.move_to_end(key)
        while len(self._served) > REMEMBERED_LANES:
            self._served.popitem(last=False)
        self._order = None

    def candidates(self) -> list[Request]:
        """Who may be admitted next, best first: of each lane its oldest request."""
        if self._order is None:
            heads = [lane[0] for lane in self._lanes.values()]
            self._order = sorted([*self._preempted, *heads], key=self._key)
        return self._order

    def _key(self, request: Request) -> tuple[int, int, int, int]:
        if request.metrics.preemptions:
            return (request.priority, -1, -1, request.order)
        served = self._served
        return (request.priority, served.get(request.salt, 0), served.get(_lane(request), 0), request.order)


def _lane(request: Request) -> Lane:
    return (request.salt, request.lane or f"\0{request.order}")
