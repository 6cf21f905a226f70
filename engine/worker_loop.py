"""The loop of the engine process: commands in, steps, outputs and events out. Knows nothing about pipes."""

from __future__ import annotations

import queue
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import wire
from .branch_packing import Packed, pack_lists, unpack_lists
from .errors import EngineError, PagedChatError, RequestError
from .fault_text import print_fault
from .generate_request import GenerateRequest, RequestStarted
from .prompting import Prompting
from .step_allowance import StepAllowance
from .types import RequestOutput

FAILED_STEPS_WITHOUT_TOKEN = 3
INFO_EVERY_S = 1.0
METRICS_EVERY_S = 1.0


@dataclass
class _Running:
    """A request and, by sample, the ids and the text of its reply so far, where they are to be remembered."""

    request: GenerateRequest
    token_ids: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    text: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))


class WorkerLoop:
    """Drives one engine from a queue of commands.

    Event numbers of the engine start anew in every process; ``seq_base`` is added to them, so that for clients they
    only ever grow.

    Attributes:
        running: requests that were admitted and have not ended.
    """

    def __init__(
        self,
        engine: Any,
        commands: queue.SimpleQueue[dict[str, Any]],
        send: Callable[[dict[str, Any]], None],
        seq_base: int = 0,
    ) -> None:
        self.running: dict[str, _Running] = {}
        self._engine = engine
        self._prompting = Prompting(engine)
        self._allowance = StepAllowance(engine.config.hang_timeout_s)
        engine.before_step = self._announce
        self._commands = commands
        self._send = send
        self._seq_base = seq_base
        self._last_seq = seq_base
        self._failed_steps = 0
        self._info = engine.info()
        self._info_due = self._metrics_due = 0.0
        self._calls: dict[str, Callable[..., Any]] = {
            "snapshot": lambda: self._numbered(engine.snapshot()),
            "books": lambda: self._numbered(engine.books()),
            "brief": lambda: self._numbered(engine.brief()),
            "ages": lambda: self._numbered(engine.ages()),
            "idle": lambda most: engine.idle(most),
            "branch": engine.branch,
            "branches": self._branches,
            "block": self._block,
            "probe": self._probe,
            "reset_cache": self._reset_cache,
            "forget": lambda session: engine.forget(session),
            "tokenize": engine.tokenizer.encode,
            "spell": lambda token_ids: engine.spell(token_ids),
            "pieces": lambda token_ids: engine.pieces(token_ids),
            "build_prompt": self._build_prompt,
            "events_since": self._events_since,
            "steps_since": lambda step, most: engine.steps_since(step, most),
            "stats": engine.stats,
            "metrics": self._send_metrics,
            "requests": lambda: engine.requests(),
            "info": engine.info,
            "pin": self._pin,
            "unpin": lambda name: engine.unpin(name),
        }

    def run(self) -> None:
        """Serve for ever; the process ends from outside, or by an engine that fails step after step."""
        self._send_metrics()
        while True:
            self.turn()

    def turn(self) -> None:
        """Take the commands that wait (one at least when there is no work), then do one step."""
        if not self._engine.has_unfinished():
            self._handle(self._commands.get())
        while not self._commands.empty():
            self._handle(self._commands.get())
        if self._engine.has_unfinished():
            self._step()
            self._send_events()
            self._send_info()
            if time.monotonic() >= self._metrics_due or not self._engine.has_unfinished():
                self._send_metrics()

    # -- commands ---------------------------------------------------------------------------------------------------

    def _handle(self, command: dict[str, Any]) -> None:
        if command["op"] == "add":
            self._add(command["request"])
        elif command["op"] == "cancel":
            self._cancel(command["id"])
        elif command["op"] == "call":
            self._call(command)
        self._send_events()

    def _add(self, fields: dict[str, Any]) -> None:
        try:
            request = wire.request_from_wire(fields)
            started = self._start(request)
            self._engine.add_request(
                request.request_id,
                started.prompt_token_ids,
                request.params,
                labels=request.labels,
                salt=request.salt,
                priority=request.priority,
                lane=request.lane,
                keep=request.keep,
                begins_with=request.begins_with,
                continues=not request.add_generation_prompt,
            )
        except Exception as error:
            _log(error)
            self._send({"type": "refused", "id": fields["request_id"], **wire.error_to_wire(error)})
            return
        self.running[request.request_id] = _Running(request)
        self._send({"type": "started", "started": wire.started_to_wire(started)})

    def _start(self, request: GenerateRequest) -> RequestStarted:
        if request.request_id in self.running:
            raise RequestError(f"Request {request.request_id} is already running.")
        return self._prompting.start(request)

    def _cancel(self, request_id: str) -> None:
        if request_id in self.running:
            self._engine.cancel(request_id)

    def _call(self, command: dict[str, Any]) -> None:
        try:
            value = self._calls[command["method"]](*command["args"])
            self._send({"type": "reply", "call": command["call"], "value": value})
        except Exception as error:
            _log(error)
            self._send({"type": "reply", "call": command["call"], "error": wire.error_to_wire(error)})

    # -- calls ------------------------------------------------------------------------------------------------------

    def _build_prompt(self, source: dict[str, Any]) -> RequestStarted:
        return self._prompting.start(wire.source_from_wire(source))

    def _probe(self, source: dict[str, Any], salt: str) -> dict[str, Any]:
        return self._prompting.probe(wire.source_from_wire({**source, "salt": salt}))

    def _branches(self, branches: Packed, salt: str) -> Packed:
        return pack_lists(self._engine.branches(unpack_lists(branches), salt))

    def _reset_cache(self) -> None:
        if not self._engine.reset_cache():
            raise EngineError("The cache cannot be emptied while replies hold blocks; stop them or wait for their end.")

    def _pin(self, name: str, source: dict[str, Any], salt: str) -> None:
        self._engine.pin(name, self._prompting.beginning(wire.source_from_wire(source)), salt)

    def _block(self, block: int) -> dict[str, Any]:
        detail = self._engine.block(block)
        events = [self._numbered(event) for event in detail["events"]]
        return {**detail, "seq": detail["seq"] + self._seq_base, "events": events}

    # -- steps ------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        try:
            outputs = self._engine.step()
            self._allowance.end()
            if any(output.token_ids for output in outputs):
                self._failed_steps = 0
        except Exception as error:
            outputs = self._after_failed_step(error)
        lines = [wire.output_to_wire(output) for output in outputs if self._note(output)]
        if lines:
            self._send({"type": "outputs", "outputs": lines})

    def _announce(self, num_tokens: int) -> None:
        """Tell the watchdog of a step that may take long."""
        seconds = self._allowance.begin(num_tokens)
        if seconds is not None:
            self._send({"type": "step", "seconds": seconds})

    def _note(self, output: RequestOutput) -> bool:
        """Keep track of the request; False if nobody knows it any more."""
        running = self.running.get(output.request_id)
        if running is None:
            return False
        if running.request.remember:
            running.token_ids[output.index] += output.token_ids
            running.text[output.index].append(output.text)
        if output.finish_reason is not None:
            if not output.more:
                del self.running[output.request_id]
            if running.request.remember:
                self._remember(running, output)
        return True

    def _remember(self, running: _Running, last: RequestOutput) -> None:
        """Keep the reply's ids by its text."""
        ids = running.token_ids[last.index] if last.history_ids is None else last.history_ids
        if ids and last.finish_reason != "error":
            self._engine.prompt_builder.remember(ids, "".join(running.text[last.index]))

    def _after_failed_step(self, error: Exception) -> list[RequestOutput]:
        """End what ran, so that the engine goes on with an empty table if it can."""
        print_fault(error)
        self._failed_steps += 1
        reason = wire.error_to_wire(error)["text"]
        outputs = [RequestOutput(one, finish_reason="error", error=reason) for one in self.running]
        self._engine.fail_all(error)
        if self._failed_steps >= FAILED_STEPS_WITHOUT_TOKEN:
            self._send_metrics()
            self._send({"type": "outputs", "outputs": [wire.output_to_wire(output) for output in outputs]})
            raise SystemExit("Several steps failed without a token between them; a new process may do better.")
        return outputs

    # -- news of the engine -----------------------------------------------------------------------------------------

    def _send_events(self) -> None:
        events = self._engine.drain_events()
        if events:
            self._last_seq = events[-1]["seq"] + self._seq_base
            self._send({"type": "events", "events": [self._numbered(event) for event in events]})

    def _send_metrics(self) -> None:
        """Tell the metrics: now and then, so that little is lost with this process, and when somebody asks."""
        self._metrics_due = time.monotonic() + METRICS_EVERY_S
        self._send({"type": "metrics", "metrics": self._engine.metrics()})

    def _send_info(self) -> None:
        """Tell, once a second at most, that the engine's facts have changed: compiled kernels took over, say."""
        now = time.monotonic()
        if now < self._info_due:
            return
        self._info_due = now + INFO_EVERY_S
        info = self._engine.info()
        if info != self._info:
            self._info = info
            self._send({"type": "info", "info": info})

    def _events_since(self, seq: int) -> list[dict[str, Any]] | None:
        if not self._seq_base <= seq <= self._last_seq:
            return None
        events = self._engine.events_since(seq - self._seq_base)
        return None if events is None else [self._numbered(event) for event in events]

    def _numbered(self, event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "seq": event["seq"] + self._seq_base}


def _log(error: Exception) -> None:
    """Errors of ours are told to whoever asked; others are for the log."""
    if not isinstance(error, PagedChatError):
        print_fault(error)
