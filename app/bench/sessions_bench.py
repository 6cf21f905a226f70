"""What the chat store costs at its largest: open, list, search, append, switch, fork; and sending in a long chat."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...engine.generate_request import GenerateRequest, RequestStarted
from ...engine.status import EngineStatus
from ...engine.types import RequestOutput
from ...sessions.chat_service import ChatService
from ...sessions.store import SessionStore
from ...ui.connection import first_shown
from .figures import percentile
from .report import BenchResult, Table
from .sessions_store import CJK, MODEL, RARE, Made, Shape, make_store

READ_MS = 50.0
APPEND_MS = 5.0
SEND_MS = 200.0
_CONTEXT = 32_768
_QUESTION = "What follows from that? " * 8
_REPLY = "It follows that the rest is as it was. " * 20


@dataclass(slots=True)
class Measure:
    """How long one thing took, each time.

    Attributes:
        goal_ms: what the 95th percentile must stay under; None where there is no goal.
        less_disk: the goal is for what is left of the median without one wait for the disk.
    """

    name: str
    goal_ms: float | None
    times_ms: list[float] = field(default_factory=list)
    less_disk: bool = False
    detail: str = ""

    def share(self, share: float) -> float:
        """A percentile in milliseconds."""
        return percentile(self.times_ms, share) or 0.0

    def judged_ms(self, disk_ms: float) -> float:
        """What the goal is compared with."""
        return max(0.0, self.share(50) - disk_ms) if self.less_disk else self.share(95)


def run_sessions(result: BenchResult, shape: Shape, seed: int, tries: int, tell: Callable[[str], None]) -> BenchResult:
    """Make a store in a temporary folder and measure it; fills in ``result``.

    Args:
        tries: how often each thing is done.
    """
    with TemporaryDirectory(prefix="pagedchat-sessions-") as folder:
        path = Path(folder) / "sessions.db"
        began = time.perf_counter()
        made = make_store(path, shape, seed, tell)
        building_s = time.perf_counter() - began
        size_mb = path.stat().st_size / 1e6
        tell("measuring")
        disk = _measure_disk(Path(folder), tries)
        measures = [
            _measure_start(path),
            *_measure_store(path, made, tries),
            *asyncio.run(_measure_service(path, made, tries)),
        ]
    _judge(result, measures, disk)
    result.figures |= {
        "building_s": round(building_s, 1),
        "database_mb": round(size_mb),
        "text_mb": round(made.text_mb),
    }
    result.verdict += (
        f"\nThe store: {made.text_mb:,.0f} MB of text in a file of {size_mb:,.0f} MB, made in {building_s:.0f} s."
    )
    return result


def _measure_disk(folder: Path, tries: int) -> Measure:
    """Waiting until this disk has 4 KB, as each durable commit does."""
    disk = Measure("disk", None)
    file = os.open(folder / "disk", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for _ in range(tries):
            os.write(file, b"x" * 4096)
            _timed(disk, lambda: os.fsync(file))
    finally:
        os.close(file)
    return disk


def _measure_start(path: Path) -> Measure:
    measure = Measure("open the store", None)
    for _ in range(3):
        _timed(measure, lambda: SessionStore(path)).close()
    return measure


def _measure_store(path: Path, made: Made, tries: int) -> Iterator[Measure]:
    store = SessionStore(path)
    try:
        opened = Measure("read the whole long session", None)
        for _ in range(tries):
            branch = _timed(opened, lambda: store.shown_branch(made.long_id))[1]
        opened.detail = f"{len(branch):,} messages"
        yield opened
        yield _repeated("list all sessions", READ_MS, tries, store.sessions, len)
        yield from _measure_searches(store, made, tries)
        leaf = branch[-1].id
        switch = Measure("switch to a branch and back", APPEND_MS, less_disk=True)
        for number in range(2 * tries):
            target = made.forked_id if number % 2 == 0 else leaf
            _timed(switch, lambda target=target: store.select(target))
        yield switch
        yield from _measure_appends(store, made, tries)
        fork = Measure("fork an ordinary session", None)
        for _ in range(max(3, tries // 5)):
            _timed(fork, lambda: store.fork(made.middle_id, "branch"))
        yield fork
        fork = Measure("fork the long session", None)
        _timed(fork, lambda: store.fork(leaf, "branch"))
        yield fork
    finally:
        store.close()


def _measure_searches(store: SessionStore, made: Made, tries: int) -> Iterator[Measure]:
    queries = {
        "a common word": made.common + " ",
        "two common words": f"{made.common} year ",
        "a beginning": made.common[:2],
        "a phrase": f'"{made.common} year"',
        "a rare word": RARE,
        "no hit": "qqqqqq",
        "a word less another": f"{made.common} -year ",
        "one Chinese character": CJK[0],
        "two Chinese characters": CJK[:2],
        "three Chinese characters": CJK[:3],
        "a word in a folder": f"{made.common} folder:work",
        "a word of a role and a month": f"{made.common} role:user after:60d before:30d",
        "a word of a model": f"{made.common} model:{MODEL}",
        "a word and code": f"{made.common} has:code",
        "only a folder": "folder:work",
        "only code": "has:code",
        "only branches": "has:branch",
        "only errors": "has:error",
        "a folder without a word in it": "folder:work qqqqqq",
        "a common word and no error": f"{made.common} has:error",
    }
    for name, query in queries.items():
        yield _repeated(
            f"search: {name}",
            READ_MS,
            tries,
            lambda query=query: store.search.find(query, 50),
            lambda found: f"{found.total:,}{'+' if found.more else ''} hits",
        )


def _measure_appends(store: SessionStore, made: Made, tries: int) -> Iterator[Measure]:
    for name, session_id, parent in (
        ("an ordinary", store.message(made.middle_id).session_id, made.middle_id),
        ("the long", made.long_id, store.session(made.long_id).head_id),
    ):
        question = Measure(f"add a question to {name} session", APPEND_MS, less_disk=True)
        partial = Measure(f"save part of a reply in {name} session", APPEND_MS)
        end = Measure(f"end a reply in {name} session", APPEND_MS, less_disk=True)
        for _ in range(tries):
            _, _, reply = _timed(question, lambda at=parent, chat=session_id: store.add_question(chat, at, _QUESTION))
            _timed(partial, lambda at=reply.id: store.save_partial(at, _REPLY[:200]))
            _timed(end, lambda at=reply.id: store.finish_reply(at, _REPLY, "done"))
            parent = reply.id
        yield from (question, partial, end)


async def _measure_service(path: Path, made: Made, tries: int) -> list[Measure]:
    engine = _NoEngine()
    service = ChatService(SessionStore(path), engine)
    opened = Measure("open the long session, as the page does", READ_MS)
    listed = Measure("list all sessions (service)", READ_MS)
    first = Measure("send in the long session for the first time", None)
    send = Measure("send in the long session, until the engine has it", SEND_MS)
    try:
        for _ in range(tries):
            began = time.perf_counter()
            view = await service.open(made.long_id, first_shown)
            opened.times_ms.append(_since(began))
            began = time.perf_counter()
            sessions = await service.list_sessions()
            listed.times_ms.append(_since(began))
        listed.detail = f"{len(sessions):,} sessions"
        parent = view["session"]["head_id"]
        for number in range(1 + max(3, tries // 5)):
            engine.arrived.clear()
            began = time.perf_counter()
            sent = await service.send(made.long_id, parent, _QUESTION)
            await engine.arrived.wait()
            (send if number else first).times_ms.append(_since(began))  # later ones know what was left out before
            parent = sent["reply"]["id"]
            while parent in service.core.jobs:
                await asyncio.sleep(0.002)
        shown, earlier = len(view["messages"]), view["earlier"]
        opened.detail = f"the last {shown:,} of {shown + earlier:,} messages"
        send.detail = f"{shown + earlier:,} messages"
    finally:
        await service.close()
    return [opened, listed, first, send]


def _judge(result: BenchResult, measures: list[Measure], disk: Measure) -> None:
    disk_ms = disk.share(50)
    rows, missed = [], []
    for one in measures:
        met = one.goal_ms is None or one.judged_ms(disk_ms) < one.goal_ms
        if not met:
            missed.append(f"{one.name} ({one.judged_ms(disk_ms):.1f} of {one.goal_ms:g} ms)")
        goal = None if one.goal_ms is None else f"{one.goal_ms:g}{' + disk' if one.less_disk else ''}"
        rows.append([one.name, one.share(50), one.share(95), goal, "yes" if met else "no", one.detail])
        result.figures[one.name.replace(" ", "_") + "_ms"] = {"p50": one.share(50), "p95": one.share(95)}
    result.figures["disk_ms"] = {"p50": disk_ms, "p95": disk.share(95)}
    note = (
        f"A durable write waits for the disk, {disk_ms:.2f} ms here (P95 {disk.share(95):.2f}); its goal is "
        "for the median without that. All other goals are for P95."
    )
    result.tables = [Table("The chat store", ["what", "P50 ms", "P95 ms", "goal ms", "met", ""], rows, note)]
    result.passed = not missed
    result.verdict = "All goals are met." if not missed else f"Missed: {'; '.join(missed)}."


def _repeated(
    name: str, goal_ms: float | None, tries: int, call: Callable[[], Any], detail: Callable[[Any], Any]
) -> Measure:
    measure = Measure(name, goal_ms)
    for _ in range(tries):
        answer = _timed(measure, call)
    measure.detail = str(detail(answer))
    return measure


def _timed(measure: Measure, call: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    answer = call()
    measure.times_ms.append(_since(began))
    return answer


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def _cut(messages: list[dict[str, Any]]) -> int:
    """Where an engine with this context would begin: at a question, with half of it filled."""
    tokens, place = 0, len(messages) - 1
    while place > 0 and (tokens < _CONTEXT // 2 or messages[place]["role"] != "user"):
        place -= 1
        tokens += len(messages[place]["token_ids"] or ())
    return place


class _NoEngine:
    """An engine client that has no engine: it takes every prompt and says one word."""

    def __init__(self) -> None:
        info = {"model": MODEL, "fingerprint": "made-up", "max_model_len": _CONTEXT, "num_blocks": 1, "block_size": 16}
        self.status = EngineStatus("ready", None, "", {**info, "capacity": _CONTEXT, "sampling_defaults": {}})
        self.arrived = asyncio.Event()

    def watch_status(self, callback: Callable[[EngineStatus], None]) -> Callable[[], None]:
        return lambda: None

    async def probe(self, **prompt: Any) -> dict[str, Any]:
        return {"prompt_tokens": 1}

    async def generate(self, request: GenerateRequest) -> AsyncIterator[RequestStarted | RequestOutput]:
        self.arrived.set()
        yield RequestStarted(request.request_id, [1], kept_from=_cut(request.messages or []))
        yield RequestOutput(request.request_id, [2], "Yes.")
        yield RequestOutput(request.request_id, [3], "", "stop")

    async def cancel(self, request_id: str) -> None:
        pass
