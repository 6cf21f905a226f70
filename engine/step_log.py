"""What each of the newest steps ran. It knows numbers and names of requests, no token and no text."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .request import Request
    from .scheduler import Scheduled

KEPT_STEPS = 512

Name = tuple[str | None, str | None]
"""Id of a request and of its session; both None once the session is forgotten."""


@dataclass(slots=True)
class StepRecord:
    """One step.

    Attributes:
        step: its number; KV events carry it too.
        time: when it began, seconds since the epoch.
        seconds: how long it took; None while it runs.
        waiting: requests that waited when it was planned.
        decodes: who got the next token of a reply computed, one each.
        prefills: chunks of prompts: whose, tokens computed before, tokens of the chunk, tokens of the whole prompt.
        preempted: who lost their blocks for it.
    """

    step: int
    time: float
    waiting: int
    decodes: list[Name]
    prefills: list[tuple[Name, int, int, int]]
    preempted: list[Name]
    failed: bool = False
    seconds: float | None = None


class StepLog:
    """The newest `KEPT_STEPS` steps, by rising number.

    Args:
        token_budget: tokens that a step has room for.
        clock: seconds that pass evenly, to measure with.
        now: seconds since the epoch.
    """

    def __init__(
        self, token_budget: int, clock: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time
    ) -> None:
        self.token_budget = token_budget
        self._clock, self._now = clock, now
        self._kept: deque[StepRecord] = deque(maxlen=KEPT_STEPS)
        self._running: StepRecord | None = None
        self._begun = 0.0

    def begin(self, step: int) -> None:
        """A step is about to be planned."""
        self._begun = self._clock()
        self._running = StepRecord(step, self._now(), 0, [], [], [])

    def planned(self, plan: Sequence[Scheduled], waiting: int, preempted: Sequence[Request] = ()) -> None:
        """What the step is to run; none of it is computed yet. A step that does nothing is not kept."""
        record = self._running
        if record is None:
            return
        if not plan and not preempted:
            self._running = None
            return
        record.waiting = waiting
        record.preempted = [_name(one) for one in preempted]
        for one in plan:
            request = one.request
            if one.num_tokens == 1 and request.first_token_at is not None:
                record.decodes.append(_name(request))
            else:
                record.prefills.append((_name(request), request.num_computed, one.num_tokens, request.num_tokens))

    def end(self, failed: bool = False) -> float:
        """The step is over: the seconds it took. Nothing happens, in no time, where it has been ended before."""
        record, self._running = self._running, None
        if record is None:
            return 0.0
        record.seconds, record.failed = self._clock() - self._begun, failed
        self._kept.append(record)
        return record.seconds

    def since(self, step: int, most: int = KEPT_STEPS) -> list[dict[str, Any]]:
        """Steps after number ``step``, oldest first, the newest ``most`` of them; all if there has been no such number,
        which was another engine's.

        Each is the fields of `StepRecord`, with ``budget`` and ``tokens``, those computed; a name is ``request_id`` and
        ``session_id``, a chunk has ``from``, ``tokens`` and ``total`` too.
        """
        if not self._kept or step > self._kept[-1].step:
            step = -1
        newest = islice(reversed(self._kept), most)
        return [self._told(record) for record in newest if record.step > step][::-1]

    def forget(self, session: str, ids: set[str]) -> None:
        """Take a session's name, and the ids of its requests, out of all steps."""

        def known(name: Name) -> Name:
            return (None, None) if name[1] == session or name[0] in ids else name

        for record in self._kept:
            record.decodes = [known(name) for name in record.decodes]
            record.prefills = [(known(name), *numbers) for name, *numbers in record.prefills]  # type: ignore[misc]
            record.preempted = [known(name) for name in record.preempted]

    def _told(self, record: StepRecord) -> dict[str, Any]:
        prefills = [
            {**_named(name), "from": first, "tokens": tokens, "total": total}
            for name, first, tokens, total in record.prefills
        ]
        return {
            "step": record.step,
            "time": record.time,
            "seconds": record.seconds,
            "budget": self.token_budget,
            "tokens": len(record.decodes) + sum(one["tokens"] for one in prefills),
            "decodes": [_named(name) for name in record.decodes],
            "prefills": prefills,
            "waiting": record.waiting,
            "preempted": [_named(name) for name in record.preempted],
            "failed": record.failed,
        }


def _name(request: Request) -> Name:
    return request.request_id, request.labels.get("session")


def _named(name: Name) -> dict[str, str | None]:
    return {"request_id": name[0], "session_id": name[1]}
