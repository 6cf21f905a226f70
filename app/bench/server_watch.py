"""What a server under load is seen to do from outside: its KV pool, its queue, its processes' CPU time and memory.

Our own server is asked every half second; of a peer only the processes are seen, and only on this computer.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from ...engine.metric_catalogue import PREFIX
from .http_load import LoadClient

EVERY_S = 0.5
SNAPSHOT_EVERY_S = 2.0
"""A snapshot lists every block, so it is taken rarely, and only where there are no metrics."""
REQUESTS_EVERY_S = 5.0


@dataclass
class Sample:
    """A look at our server. Counts of blocks and requests; ``live_tokens`` are prompt and reply tokens whose KV the
    clients' running requests need, shared ones once for each."""

    at: float
    active_blocks: int
    running: int
    waiting: int
    live_tokens: int


@dataclass
class ProcessCost:
    """CPU seconds since the process tree began, and its resident memory in bytes."""

    cpu_s: float
    resident: int


@dataclass
class Watch:
    """Watches one target while requests run; an async context manager.

    Attributes:
        samples: looks at our server, oldest first.
        rows: our server's own account of each request (``/api/kv/requests``), by its id.
        preemptions: since the watch began.
    """

    client: LoadClient
    samples: list[Sample] = field(default_factory=list)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    cpu_s: float | None = None
    resident: int | None = None
    preemptions: int | None = None

    async def __aenter__(self) -> Watch:
        self._began = process_cost(self.client.target.pid)
        self._known: set[str] = set()
        self._task = None
        if self.client.target.ours:
            await self._take_rows()
            self._known = set(self.rows)
            self.rows.clear()
            self._preempted = await self._preempted_so_far()
            self._task = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            with suppress(httpx.HTTPError):
                await self._take_rows()
                await self._count_preemptions()
        ended = process_cost(self.client.target.pid)
        if self._began is not None and ended is not None:
            self.cpu_s, self.resident = ended.cpu_s - self._began.cpu_s, ended.resident

    # -- looking ----------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        asked = time.monotonic()
        while True:
            with suppress(httpx.HTTPError, ValueError, KeyError):
                found = await gauges(self.client.http)
                pause = EVERY_S
                if found is None:
                    found, pause = await self._counts(), SNAPSHOT_EVERY_S
                self.samples.append(self._sample(found))
                if time.monotonic() - asked > REQUESTS_EVERY_S:
                    asked = time.monotonic()
                    await self._take_rows()
            await asyncio.sleep(pause)

    def _sample(self, found: dict[str, float]) -> Sample:
        now = time.monotonic()
        live = sum(answer.tokens_by(now) for answer in self.client.answers)
        return Sample(now, int(found["active"]), int(found["running"]), int(found["waiting"]), live)

    async def _counts(self) -> dict[str, float]:
        said = (await self.client.http.get("/api/kv/snapshot")).json()
        running = len(said.get("tables", []))
        return {"active": said["active"], "running": running, "waiting": 0}

    async def _take_rows(self) -> None:
        """Requests that have ended; the server remembers some hundreds, so they are fetched now and then."""
        answer = await self.client.http.get("/api/kv/requests")
        if answer.status_code == 200:
            for row in answer.json()["requests"]:
                if row["state"] == "finished" and row["request_id"] not in self._known:
                    self.rows[row["request_id"]] = row

    async def _preempted_so_far(self) -> float | None:
        said = await families(self.client.http)
        return None if said is None else said.get("num_preemptions", {}).get("")

    async def _count_preemptions(self) -> None:
        now = await self._preempted_so_far()
        if now is not None and self._preempted is not None:
            self.preemptions = int(now - self._preempted)
        elif self.rows:
            self.preemptions = sum(row["metrics"]["preemptions"] for row in self.rows.values())

    # -- figures ----------------------------------------------------------------------------------------------------

    def queue_ms(self) -> list[float]:
        """How long each request waited to be admitted, as our engine says."""
        return [row["metrics"]["queue_s"] * 1e3 for row in self.rows.values()]


async def gauges(http: httpx.AsyncClient) -> dict[str, float] | None:
    """Active blocks, running and waiting requests from ``/metrics``; None where that is not served."""
    found = await families(http)
    if not found or "kv_blocks" not in found:
        return None
    blocks = found["kv_blocks"]
    return {
        "active": blocks["state=active"],
        "running": found["num_requests_running"][""],
        "waiting": found["num_requests_waiting"][""],
    }


async def families(http: httpx.AsyncClient) -> dict[str, dict[str, float]] | None:
    """Our metrics as ``{name: {labels: value}}`` without the prefix; None where they are not served."""
    answer = await http.get("/metrics")
    if answer.status_code != 200:
        return None
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            name = sample.name.removeprefix(PREFIX).removesuffix("_total")
            found.setdefault(name, {})[labels] = sample.value
    return found


def process_cost(pid: int | None) -> ProcessCost | None:
    """Of a process and all below it; None where they cannot be seen."""
    if pid is None:
        return None
    cpu, resident = 0.0, 0
    try:
        root = psutil.Process(pid)
        for one in [root, *root.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess), one.oneshot():
                times = one.cpu_times()
                cpu += times.user + times.system
                resident += one.memory_info().rss
    except psutil.Error:
        return None
    return ProcessCost(cpu, resident)
