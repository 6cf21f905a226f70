"""An engine client without an engine: the same interface, scripted replies, all in process.

Tokens are bytes (id = byte), ``END`` closes a turn, each role has a header id; a step gives a character, hits are real.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from itertools import groupby
from typing import Any

from pagedchat.engine.context_policy import build_to_fit, room_for
from pagedchat.engine.errors import EngineError, PagedChatError
from pagedchat.engine.generate_request import GenerateRequest, RequestStarted
from pagedchat.engine.metric_catalogue import blank_metrics
from pagedchat.engine.prompt import BuiltPrompt, PromptMessage
from pagedchat.engine.reasoning import ReasoningSplitter
from pagedchat.engine.status import EngineStatus
from pagedchat.engine.types import RequestMetrics, RequestOutput, TokenLogprob, TokenLogprobs
from support.fake_cache import FakeCache

END = 256
HEADERS = {"system": 257, "user": 258, "assistant": 259, "tool": 260}
INFO = {
    "model": "fake-model",
    "device": "cpu",
    "dtype": "float32",
    "kernels": "reference",
    "threads": 2,
    "reason": "a test",
    "block_size": 16,
    "num_blocks": 256,
    "max_model_len": 2048,
    "max_num_seqs": 32,
    "kv_bytes": 1 << 20,
    "default_system_prompt": None,
    "sampling_defaults": {},
    "warnings": [],
}


class FakeEngineClient(FakeCache):
    """Answers from ``replies`` in turn (the last one for ever) or from a function of the request.

    Attributes:
        requests: every request that came, in order.
        delay_s: pause before each character.
        rests: pauses in a reply: (what it ends with so far, seconds).
        gate: when set to an ``asyncio.Event``, each character waits until it is set.
        refuse: a PagedChatError that the next request gets instead of an answer.
        marks_thinking: whether the model is one whose replies may begin with a tag of thinking.
        metrics_told: by kind ("gauges" ...) and name, what ``metrics`` tells instead of nothing.
    """

    def __init__(
        self,
        replies: Sequence[str] | Callable[[GenerateRequest], str] = ("Hello!",),
        *,
        delay_s: float = 0.0,
        info: dict[str, Any] | None = None,
        ready: bool = True,
    ) -> None:
        self.replies = replies
        self.delay_s = delay_s
        self.rests: tuple[tuple[str, float], ...] = ()
        self.gate: asyncio.Event | None = None
        self.refuse: PagedChatError | None = None
        self.marks_thinking = False
        self.metrics_told: dict[str, dict[str, Any]] = {}
        self.engine_pid: int | None = None
        self.requests: list[GenerateRequest] = []
        self._info = {**INFO, **(info or {})}
        super().__init__(self._info["block_size"], self._info["num_blocks"])
        self._ends: dict[str, tuple[str, str | None]] = {}
        self._status = EngineStatus("ready", None, "", self._info) if ready else EngineStatus()
        self._status_watchers: list[Callable[[EngineStatus], None]] = []
        self._served = 0

    # -- status -----------------------------------------------------------------------------------------------------

    @property
    def status(self) -> EngineStatus:
        return self._status

    def set_status(self, state: str, progress: float | None = None, message: str = "") -> None:
        """Script the state; "ready" brings the info with it."""
        info = self._info if state == "ready" else {}
        self._status = EngineStatus(state, progress, message, info)  # type: ignore[arg-type]
        for watcher in list(self._status_watchers):
            watcher(self._status)

    def set_fetching(self, progress: float | None, message: str = "") -> None:
        self.set_status("fetching", progress, message)

    def set_failed(self, message: str) -> None:
        self.set_status("failed", None, message)

    async def start(self, config: Any) -> None:
        self.set_status("loading")
        self.set_status("ready")

    async def wait_ready(self) -> None:
        while self._status.state != "ready":
            if self._status.state == "failed":
                raise EngineError(self._status.message)
            await asyncio.sleep(0.005)

    def watch_status(self, callback: Callable[[EngineStatus], None]) -> Callable[[], None]:
        self._status_watchers.append(callback)
        return lambda: self._status_watchers.remove(callback)

    def die(self, message: str = "The engine stopped.") -> None:
        """End every running request with an error, as if the child process had died."""
        for request_id in self._live:
            self._ends[request_id] = ("error", message)
        self.set_status("restarting", None, message)

    async def close(self) -> None:
        for request_id in self._live:
            self._ends[request_id] = ("abort", None)

    # -- requests ---------------------------------------------------------------------------------------------------

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[RequestStarted | RequestOutput, None]:
        self.requests.append(request)
        if self.refuse is not None:
            error, self.refuse = self.refuse, None
            raise error
        await self.wait_ready()
        started = self._build(request)
        tokens = [*started.prompt_token_ids, *request.begins_with[:-1]]
        metrics = RequestMetrics(prompt_tokens=len(tokens))
        metrics.cached_tokens = self._cached(tokens)
        metrics.computed_tokens = metrics.prompt_tokens - metrics.cached_tokens
        self._live[request.request_id] = (request, tokens)
        begun = time.monotonic()
        try:
            yield started
            async for output in self._steps(request, tokens, metrics, begun):
                yield output
        finally:
            self._fed.append(tokens)
            self._live.pop(request.request_id, None)
            self._ends.pop(request.request_id, None)

    async def _steps(
        self, request: GenerateRequest, tokens: list[int], metrics: RequestMetrics, begun: float
    ) -> AsyncGenerator[RequestOutput, None]:
        reply = self._next_reply(request)
        limit = request.params.max_tokens or 1 << 30
        self._emit("stored", request, tokens)
        told = ""
        for character in [*given_steps(request), *reply, ""]:
            if pause := self.delay_s + sum(rest for end, rest in self.rests if told.endswith(end)):
                await asyncio.sleep(pause)
            told += character
            await self._wait_gate(request.request_id)
            output = RequestOutput(request.request_id)
            if request.request_id in self._ends:
                output.finish_reason, output.error = self._ends[request.request_id]  # type: ignore[assignment]
            else:
                if isinstance(character, Given):
                    output.token_ids, output.text = request.begins_with[-1:], character
                    output.logprobs = scripted_logprobs(request, tokens)
                else:
                    output.token_ids = list(character.encode()) if character else [END]
                    output.text = character
                metrics.completion_tokens += len(output.token_ids)
                metrics.ttft_s = metrics.ttft_s or time.monotonic() - begun
                if output.token_ids[-1] == END:
                    output.finish_reason = "stop"
                elif metrics.completion_tokens + len(request.begins_with[:-1]) >= limit:
                    output.finish_reason = "length"
            tokens += output.token_ids
            metrics.decode_s = time.monotonic() - begun
            if output.finish_reason or metrics.completion_tokens == len(output.token_ids):
                output.metrics = RequestMetrics(**vars(metrics))
            if output.finish_reason:
                self._live.pop(request.request_id, None)
                self._emit("released", request, tokens)
            elif len(tokens) % self.block_size == 0:
                self._emit("stored", request, tokens[-self.block_size :])
            yield output
            if output.finish_reason:
                return
            await asyncio.sleep(0)

    async def _wait_gate(self, request_id: str) -> None:
        while self.gate is not None and not self.gate.is_set() and request_id not in self._ends:
            await asyncio.sleep(0.002)

    async def cancel(self, request_id: str) -> None:
        if request_id in self._live:
            self._ends[request_id] = ("abort", None)

    def _next_reply(self, request: GenerateRequest) -> str:
        if callable(self.replies):
            return self.replies(request)
        reply = self.replies[min(self._served, len(self.replies) - 1)]
        self._served += 1
        return reply

    def _build(self, request: GenerateRequest) -> RequestStarted:
        if request.prompt_token_ids is not None:
            return RequestStarted(request.request_id, list(request.prompt_token_ids))
        if request.prompt is not None:
            return RequestStarted(request.request_id, list(request.prompt.encode()))
        return self._build_messages(
            request.messages or [],
            request.add_generation_prompt,
            request.request_id,
            request.trim,
            request.params.max_tokens,
        )

    def prompt_text(self, place: int = -1) -> str:
        """The text of the prompt of a request, without what was left out."""
        ids = self._build(self.requests[place]).prompt_token_ids
        return bytes(one for one in ids if one < END).decode()

    def _build_messages(
        self,
        messages: list[dict[str, Any]],
        add_header: bool,
        request_id: str = "",
        trim: bool = False,
        max_tokens: int | None = None,
    ) -> RequestStarted:
        turns = [PromptMessage.of(one) for one in messages]
        if trim:
            pool_tokens = self._info.get("capacity", self._info["num_blocks"] * self.block_size)
            room = room_for(self._info["max_model_len"], pool_tokens, max_tokens)
            built = build_to_fit(lambda part: _built(part, add_header), turns, room, len)
        else:
            built = _built(turns, add_header)
        splitter = ReasoningSplitter()
        if messages and not add_header:
            splitter.feed(bytes(one for one in built.segments[-1] if one < END).decode("utf-8", "ignore"))
        left_out, has_system = built.left_out, messages[:1] and messages[0]["role"] == "system"
        return RequestStarted(
            request_id,
            built.token_ids,
            built.segments,
            built.generation_ids,
            note=built.note,
            kept_from=left_out.first_kept if left_out else int(bool(has_system)),
            left_out_messages=left_out.messages if left_out else 0,
            left_out_tokens=left_out.tokens if left_out else 0,
            reasoning_state=splitter.state if self.marks_thinking else None,
            reasoning_held=splitter.held if self.marks_thinking else "",
        )

    async def probe(
        self,
        token_ids: list[int] | None = None,
        *,
        prompt: str | None = None,
        messages: list[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        template_args: dict[str, Any] | None = None,
        begun_at: str | None = None,
        trim: bool = False,
        max_tokens: int | None = None,
        salt: str = "",
    ) -> dict[str, Any]:
        built = None
        if messages is not None:
            built = self._build_messages(messages, add_generation_prompt, "", trim, max_tokens)
            token_ids = built.prompt_token_ids
        ids = list(token_ids) if token_ids is not None else list((prompt or "").encode())
        cached = self._cached(ids)
        difference = cached if self._fed else None
        return {
            "prompt_tokens": len(ids),
            "cached_tokens": cached,
            "to_compute": len(ids) - cached,
            "first_difference": difference,
            **({} if built is None else {"left_out_messages": built.left_out_messages, "kept_from": built.kept_from}),
        }

    async def spell(self, token_ids: list[int]) -> list[tuple[str, bool]]:
        names = {END: "<end>", **{number: f"<{role}>" for role, number in HEADERS.items()}}
        runs = [(control, list(run)) for control, run in groupby(token_ids, names.__contains__)]
        return [
            (names[part[0]] if control else bytes(part).decode("utf-8", "replace"), control)
            for control, run in runs
            for part in ([[one] for one in run] if control else [run])
        ]

    async def pieces(self, token_ids: list[int]) -> list[tuple[bytes, bool]]:
        return [(bytes([one]), False) if one < END else (b"<end>", True) for one in token_ids]

    async def tokenize(self, text: str) -> list[int]:
        return list(text.encode())

    async def build_prompt(
        self, messages: list[dict[str, Any]], add_generation_prompt: bool = True, begun_at: str | None = None
    ) -> RequestStarted:
        return self._build_messages(messages, add_generation_prompt, "")

    async def refresh_info(self) -> dict[str, Any]:
        if self._status.state != "ready":
            raise EngineError("The engine is not ready.")
        return self._info

    async def list_requests(self) -> list[dict[str, Any]]:
        return [{"request_id": name, "state": "running"} for name in self._live]

    async def metrics(self) -> dict[str, Any]:
        found = blank_metrics()
        found["gauges"]["engine_up"] = int(self._status.state == "ready")
        found["gauges"]["num_requests_running"] = len(self._live)
        for kind, values in self.metrics_told.items():
            found[kind].update(values)
        return found

    async def stats(self) -> dict[str, Any]:
        return {"running": len(self._live), "waiting": 0, "pins": list(self.pins.values())}


class Given(str):
    """The text that a reply was given to begin with."""


def given_steps(request: GenerateRequest) -> list[Given]:
    """The first step of a reply that begins with given ids."""
    given = bytes(one for one in request.begins_with if one < END).decode("utf-8", "ignore")
    return [Given(given)] if request.begins_with else []


def scripted_logprobs(request: GenerateRequest, tokens: list[int]) -> list[TokenLogprobs] | None:
    """Of a given token: half as likely as the letter before the likeliest, and so on; which those are, tokens say."""
    if request.params.logprobs is None:
        return None
    taken = request.begins_with[-1]
    letters = [97 + (sum(tokens) + place) % 26 for place in range(request.params.logprobs)]
    if taken not in letters:
        letters = [taken, *letters][: request.params.logprobs]
    top = [
        TokenLogprob(one, -(place + 1) * math.log(2), place + 1, bytes([one]) if one < END else b"<end>")
        for place, one in enumerate(letters)
    ]
    own = next(one for one in top if one.token_id == taken)
    return [TokenLogprobs(**vars(own), top=top)]


def _built(messages: Sequence[PromptMessage], add_header: bool) -> BuiltPrompt:
    segments: list[list[int]] = []
    for message in messages:
        ids = message.token_ids
        if ids is None:
            closing = [END] if add_header or message is not messages[-1] else []
            ids = [HEADERS[message.role], *message.content.encode(), *closing]
            if segments and segments[-1][-1] != END:
                ids = [END, *ids]
        segments.append(list(ids))
    header = [HEADERS["assistant"]] if add_header else []
    return BuiltPrompt([one for part in segments for one in part] + header, segments, header)
