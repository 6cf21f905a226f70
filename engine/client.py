"""The parent's side of the engine process: asynchronous, and free of torch, tokenizers and models.

    client.generate() ──add──> [child process: WorkerLoop ── Engine] ──outputs──> one queue a request

The client numbers calls, hands outputs to whoever waits for them and ends them when the child is gone; the supervisor
underneath starts the child and starts it again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

from . import wire
from .client_calls import EngineCalls
from .client_metrics import ClientMetrics
from .config import EngineConfig
from .errors import EngineError, PagedChatError, RequestError
from .events import reset_event
from .generate_request import GenerateRequest, RequestStarted, is_own_work
from .reply_stream import Item, ReplyStream, ends
from .status import EngineStatus
from .supervisor import EngineSupervisor, add_watcher
from .types import RequestOutput

DEFAULT_ENGINE = "pagedchat.engine.engine:Engine"
METRICS_WITHIN_S = 0.8


class EngineClient(EngineCalls):
    """One engine in a child process. All methods belong to one event loop."""

    def __init__(
        self,
        *,
        log_path: Path | None = None,
        engine: str = DEFAULT_ENGINE,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """
        Args:
            log_path: file that takes the child's stderr; passed through when None.
            engine: ``module:factory`` that the child calls with the config.
            env: extra environment of the child.
        """
        self._metrics = ClientMetrics()
        self._supervisor = EngineSupervisor(
            ["-m", "pagedchat.engine.worker", "--engine", engine],
            env=env or {},
            log_path=log_path,
            on_message=lambda message: self._handlers[message["type"]](message),
            on_down=self._end_all,
            owes=self._is_owed,
            metrics=self._metrics,
        )
        self._serving = False
        self._supervisor.watch(self._on_status)
        self._streams: dict[str, ReplyStream] = {}
        self._held: dict[str, GenerateRequest] = {}
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._call_number = 0
        self._event_watchers: list[Callable[[list[dict[str, Any]]], None]] = []
        self._end_watchers: list[Callable[[Item], None]] = []
        self._handlers = {
            "outputs": self._on_outputs,
            "events": self._on_events,
            "started": self._on_started,
            "refused": self._on_refused,
            "reply": self._on_reply,
            "metrics": self._on_metrics,
        }

    # -- life -------------------------------------------------------------------------------------------------------

    @property
    def status(self) -> EngineStatus:
        """What the engine does now."""
        return self._supervisor.status

    @property
    def engine_pid(self) -> int | None:
        """Id of the engine process, None while there is none."""
        child = self._supervisor.child
        return child.pid if child else None

    async def start(self, config: EngineConfig) -> None:
        """Spawn the engine; returns once the process exists, the status tells the rest. A running one is closed."""
        await self._supervisor.start(config)

    async def wait_ready(self) -> None:
        """Wait until requests run.

        Raises:
            EngineError: with the reason, if the engine cannot start.
        """
        await self._supervisor.wait_ready()

    async def close(self) -> None:
        """End the engine and all replies (finish_reason "abort"); takes 2 s at most unless the child hangs."""
        for request_id in list(self._streams):
            self._put(request_id, RequestOutput(request_id, finish_reason="abort"))
        self._held.clear()
        await self._supervisor.close()

    def set_fetching(self, progress: float | None, message: str = "") -> None:
        """Say that the model is being fetched; ``progress`` from 0 to 1."""
        self._supervisor.set_status("fetching", progress, message)

    def set_failed(self, message: str) -> None:
        """Say that the engine cannot start, for a reason outside of it (no model). Requests that waited end."""
        self._supervisor.set_status("failed", None, message)

    def watch_status(self, callback: Callable[[EngineStatus], None]) -> Callable[[], None]:
        """Call ``callback`` on every change; the result ends that."""
        return self._supervisor.watch(callback)

    # -- requests ---------------------------------------------------------------------------------------------------

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[RequestStarted | RequestOutput, None]:
        """Run one request: ``RequestStarted`` first, then one output an engine step.

        The last output carries a finish reason (with ``params.n`` above 1, each sample's last one does, and ``more``
        until all have ended). Requests sent before the engine is ready wait for it; one that is
        cancelled while it waits has only an "abort" output. Closing the iterator cancels the request.

        Raises:
            RequestError: if the request can never run as it is.
            EngineError: if the engine cannot start, or goes away before it took the prompt.
        """
        if request.request_id in self._streams:
            raise RequestError(f"Request {request.request_id} is already running.")
        stream = ReplyStream()
        self._streams[request.request_id] = stream
        ended = False
        try:
            self._submit(request)
            while not ended:
                item = await stream.items.get()
                ended = ends(item)
                for watcher in list(self._end_watchers) if ended and not is_own_work(request.request_id) else ():
                    watcher(item)
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self._streams.pop(request.request_id, None)
            if not ended:
                self._send_cancel(request.request_id)

    async def cancel(self, request_id: str) -> None:
        """Stop a request within one step, in any state; its iterator ends with "abort". Unknown ids do nothing."""
        if request_id in self._held:
            self._put(request_id, RequestOutput(request_id, finish_reason="abort"))
        self._send_cancel(request_id)

    def watch_ends(self, callback: Callable[[Item], None]) -> Callable[[], None]:
        """Call ``callback`` with the last output of every user's request, or the error in its place; the result ends
        that."""
        return add_watcher(self._end_watchers, callback)

    def _submit(self, request: GenerateRequest) -> None:
        if self.status.state == "failed":
            self._metrics.note_error("engine_failed")
            raise EngineError(self.status.message)
        child = self._supervisor.child
        if self.status.state == "ready" and child is not None:
            try:
                self._supervisor.send({"op": "add", "request": wire.request_to_wire(request)})
            except RequestError as error:
                self._metrics.note_refusal(error)
                raise
            self._streams[request.request_id].owed = True
        else:
            self._held[request.request_id] = request

    def _send_cancel(self, request_id: str) -> None:
        child = self._supervisor.child
        if self._held.pop(request_id, None) is not None:
            self._metrics.note_abort()
        elif child is not None:
            child.send({"op": "cancel", "id": request_id})

    def _put(self, request_id: str, item: Item) -> None:
        stream = self._streams.get(request_id)
        if stream is not None:
            stream.put(item)

    def _is_owed(self) -> bool:
        """Whether the child owes anybody an answer."""
        return any(not one.done() for one in self._calls.values()) or any(one.owed for one in self._streams.values())

    # -- calls ------------------------------------------------------------------------------------------------------

    async def metrics(self) -> dict[str, Any]:
        """All metrics of `metric_catalogue`, in the shape of ``Engine.metrics()``, over all engines of this client:
        fresh ones if the engine answers within a second, else what it told last."""
        up = False
        if self.status.state == "ready":
            with contextlib.suppress(TimeoutError, PagedChatError):
                async with asyncio.timeout(METRICS_WITHIN_S):
                    await self._call("metrics")
                up = True
            up = up or self._supervisor.was_heard_lately
        return self._metrics.told(up, len(self._held))

    async def refresh_info(self) -> dict[str, Any]:
        """Facts about the engine as of now; the status carries them too."""
        info = await self._call("info")
        self._supervisor.set_info(info)
        return info

    def watch_events(self, callback: Callable[[list[dict[str, Any]]], None]) -> Callable[[], None]:
        """Call ``callback`` with the events of every step, once a step; the result ends that.

        After a restart of the engine the first one is of type "reset": a snapshot is due.
        """
        return add_watcher(self._event_watchers, callback)

    async def _call(self, method: str, *args: Any) -> Any:
        child = self._supervisor.child
        if self.status.state != "ready" or child is None:
            raise EngineError(self.status.message or "The engine is not ready yet; try again in a moment.")
        self._call_number += 1
        number = self._call_number
        future = asyncio.get_running_loop().create_future()
        self._calls[number] = future
        try:
            self._supervisor.send({"op": "call", "call": number, "method": method, "args": args})
            return await future
        finally:
            self._calls.pop(number, None)

    # -- messages of the child --------------------------------------------------------------------------------------

    def _end_all(self, reason: str) -> None:
        """Running replies and calls end; requests that were never sent stay for the next child."""
        self._metrics.engine_gone()
        for request_id, stream in self._streams.items():
            if stream.owed and not is_own_work(request_id):
                self._metrics.note_error("engine_stopped")
            if stream.started:
                stream.put(RequestOutput(request_id, finish_reason="error", error=reason))
            elif request_id not in self._held:
                stream.put(EngineError(reason))
        for future in self._calls.values():
            if not future.done():
                future.set_exception(EngineError(reason))

    def _on_status(self, status: EngineStatus) -> None:
        serving, self._serving = self._serving, status.state == "ready"
        if self._serving and not serving:
            self._on_ready()
        elif status.state == "failed":
            for request_id in self._held:
                self._metrics.note_error("engine_failed")
                self._put(request_id, EngineError(status.message))
            self._held.clear()

    def _on_ready(self) -> None:
        again = self._supervisor.last_seq >= 0
        self._supervisor.last_seq += 1
        if again:
            self._on_events({"events": [reset_event(self._supervisor.last_seq)]})
        held, self._held = self._held, {}
        for request in held.values():
            try:
                self._submit(request)
            except RequestError as error:
                self._put(request.request_id, error)

    def _on_outputs(self, message: dict[str, Any]) -> None:
        for fields in message["outputs"]:
            stream = self._streams.get(fields[0])
            if stream is not None:
                stream.put(wire.output_from_wire(fields))

    def _on_events(self, message: dict[str, Any]) -> None:
        self._supervisor.last_seq = message["events"][-1]["seq"]
        for watcher in list(self._event_watchers):
            watcher(message["events"])

    def _on_started(self, message: dict[str, Any]) -> None:
        started = wire.started_from_wire(message["started"])
        stream = self._streams.get(started.request_id)
        if stream is not None:
            stream.started = True
            stream.put(started)

    def _on_refused(self, message: dict[str, Any]) -> None:
        error = wire.error_from_wire(message)
        if not is_own_work(message["id"]):
            self._metrics.note_refusal(error, message["kind"] != wire.INTERNAL)
        self._put(message["id"], error)

    def _on_metrics(self, message: dict[str, Any]) -> None:
        if self._supervisor.child is not None:  # one that is being closed has been added up
            self._metrics.heard(message["metrics"])

    def _on_reply(self, message: dict[str, Any]) -> None:
        future = self._calls.get(message["call"])
        if future is None or future.done():
            return
        if "error" in message:
            future.set_exception(wire.error_from_wire(message["error"]))
        else:
            future.set_result(message["value"])
