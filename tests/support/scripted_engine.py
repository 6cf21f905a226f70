"""An engine without a model for tests of the real child process: one step gives one character of every reply.

A reply repeats the prompt, upper-cased; token ids are bytes. Some prompts and model names misbehave on purpose (see
``PROMPTS`` and ``MODELS``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from pagedchat.engine.config import EngineConfig
from pagedchat.engine.errors import ModelFileError, RequestError
from pagedchat.engine.inspection import metric_labels
from pagedchat.engine.metrics import EngineMetrics
from pagedchat.engine.request import Request
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.types import RequestMetrics, RequestOutput

END = 256
PROMPTS = ("crash", "hang", "spin", "memory", "raise", "raise always", "print", "refuse", "internal", "long")
MODELS = ("missing", "large", "broken", "too large", "dies while loading", "slow", "good")

print("Printing while importing must not break the lines.")


class ByteTokenizer:
    """Ids are the bytes of the text."""

    end_ids = frozenset({END})

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    encode_prompt = encode


class BytePromptBuilder:
    """A message is its role's first letter, its bytes and END; remembers what it was told to."""

    writes_dates = False

    def __init__(self) -> None:
        self.remembered: list[tuple[list[int], str]] = []

    def build(self, messages: list[Any], continue_last: bool = False) -> Any:
        segments = [
            one.token_ids if one.token_ids is not None else [ord(one.role[0]), *one.content.encode(), END]
            for one in messages
        ]
        header = [] if continue_last else [ord("a")]
        ids = [token for segment in segments for token in segment] + header
        return SimpleNamespace(
            token_ids=ids,
            segments=segments,
            generation_ids=header,
            first_difference=None,
            note=None,
            rewritten=[],
            left_out=None,
        )

    def reasoning(self, built: Any, continue_last: bool = False) -> None:
        """Marks no thinking."""

    def remember(self, ids: list[int], text: str) -> None:
        self.remembered.append((ids, text))


class ScriptedEngine:
    """The engine's interface; ``config.max_num_batched_tokens`` milliseconds a step when the model is "slow"."""

    def __init__(self, config: EngineConfig) -> None:
        print("Printing while loading must not break the lines.")
        os.write(1, b"Neither must writing to fd 1.\n")
        if config.model == "missing":
            raise ModelFileError("The model file missing does not exist.")
        if config.model == "large":
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")
        if config.model == "broken":
            raise ValueError("a secret detail")
        if config.model == "too large":
            raise MemoryError("It needs 9 GB.")
        if config.model == "dies while loading":
            os._exit(3)
        self.config = config
        self.step_s = 0.01 if config.model == "slow" else 0.0
        self.tokenizer = ByteTokenizer()
        self.prompt_builder = BytePromptBuilder()
        self.steps = 0
        self.counters = EngineMetrics()
        self._running: dict[str, dict[str, Any]] = {}
        self._aborted: list[str] = []
        self._events: list[dict[str, Any]] = []
        self._undrained: list[dict[str, Any]] = []

    def info(self) -> dict[str, Any]:
        return {
            "model": self.config.model,
            "device": "cpu",
            "dtype": "float32",
            "kernels": "none",
            "reason": "a test",
            "block_size": self.config.block_size,
            "num_blocks": 256,
            "max_model_len": 4096,
            "sampling_defaults": {"temperature": 0.0},
            "stepped": self.steps > 0,
        }

    def stats(self) -> dict[str, Any]:
        return {"running": len(self._running), "steps": self.steps, "remembered": self.prompt_builder.remembered}

    def add_request(
        self,
        request_id: str,
        prompt_token_ids: list[int],
        params: SamplingParams,
        labels: dict[str, str] | None = None,
        salt: str = "",
        priority: int = 0,
        continues: bool = False,
        lane: str = "",
        keep: bool = True,
        begins_with: Sequence[int] = (),
    ) -> None:
        assert not begins_with, "the scripted engine says what it says from its first token on"
        text = bytes(one for one in prompt_token_ids if one < 256).decode(errors="replace")
        if text == "refuse":
            raise RequestError("The prompt has 9 tokens, and 4 fit.")
        if text == "internal":
            raise KeyError("a secret detail")
        reply = text.upper() if text != "long" else "word " * 1000
        request = Request(request_id, prompt_token_ids, params, 0, time.monotonic(), 0, params.max_tokens or 4096)
        request.admitted_at = request.arrival
        request.metrics.prompt_tokens = request.metrics.computed_tokens = len(prompt_token_ids)
        request.note("scheduled", request.arrival)
        self.counters.note_admission(request)
        self._running[request_id] = {
            "text": text,
            "reply": reply,
            "at": 0,
            "left": params.max_tokens or 1 << 30,
            "prompt": len(prompt_token_ids),
            "labels": labels or {},
            "request": request,
        }

    def forget(self, session: str) -> dict[str, int]:
        for event in self._events:
            if event["labels"].get("session") == session:
                event.update(labels={}, request_id=None)
        return {"blocks": 0}

    def cancel(self, request_id: str) -> None:
        one = self._running.pop(request_id, None)
        if one is not None:
            self._count_end(one["request"], "abort")
            self._aborted.append(request_id)

    def fail_all(self, error: Exception) -> None:
        cause = self.counters.note_failed_step(error)
        for one in self._running.values():
            self._count_end(one["request"], "error", cause)
        self._running.clear()

    def _count_end(self, request: Request, reason: str, cause: str = "") -> None:
        now = time.monotonic()
        request.note("finished", now, reason)
        self.counters.note_end(request, reason, now, cause)
        self.counters.note_request_end([request])

    def has_unfinished(self) -> bool:
        return bool(self._running or self._aborted)

    def step(self) -> list[RequestOutput]:
        self.steps += 1
        self.counters.note_step(len(self._running))
        time.sleep(self.step_s)
        aborted, self._aborted = self._aborted, []
        outputs = [RequestOutput(one, finish_reason="abort", metrics=RequestMetrics()) for one in aborted]
        for request_id in list(self._running):
            outputs.append(self._advance(request_id, self._running[request_id]))
        return outputs

    def _advance(self, request_id: str, one: dict[str, Any]) -> RequestOutput:
        if one["text"] == "crash" and one["at"] == 2:
            os.kill(os.getpid(), 9)
        if one["text"] == "raise always" or (one["text"] == "raise" and one["at"] == 2):
            raise ValueError("a secret detail")
        if one["text"] == "memory" and one["at"] == 2:
            raise MemoryError
        if one["text"] == "hang" and one["at"] == 2:
            time.sleep(3600)
        while one["text"] == "spin" and one["at"] == 2:
            pass
        if one["text"] == "print":
            print("Printing in a step must not break the lines.")
        character = one["reply"][one["at"] : one["at"] + 1]
        ids = list(character.encode()) or [END]
        one["at"] += 1
        one["left"] -= len(ids)
        output = RequestOutput(request_id, ids, character)
        self._count_token(one["request"])
        if not character or one["left"] <= 0:
            output.finish_reason = "length" if character else "stop"
            output.metrics = RequestMetrics(prompt_tokens=one["prompt"], completion_tokens=one["at"])
            del self._running[request_id]
            self._count_end(one["request"], output.finish_reason)
        self._emit("stored" if output.finish_reason is None else "released", request_id, one["labels"])
        return output

    def _count_token(self, request: Request) -> None:
        now, metrics = time.monotonic(), request.metrics
        if request.first_token_at is None:
            request.first_token_at = now
            metrics.ttft_s = metrics.prefill_s = now - request.arrival
            self.counters.note_first_token(request)
        else:
            self.counters.note_tokens([now - request.last_token_at])
        request.last_token_at = now
        metrics.completion_tokens += 1
        metrics.decode_s = now - request.first_token_at

    def metrics(self) -> dict[str, Any]:
        gauges = {"num_requests_running": len(self._running), "kv_blocks": {"free": 256}}
        counters, labels = self.counters.counters(), metric_labels(self.info(), self.config)
        return {"gauges": gauges, "counters": counters, "histograms": self.counters.histograms(), "info": labels}

    def _emit(self, kind: str, request_id: str, labels: dict[str, str]) -> None:
        seq = len(self._events) + 1
        event = {"seq": seq, "type": kind, "blocks": [1], "request_id": request_id, "labels": labels}
        self._events.append(event)
        self._undrained.append(event)

    def drain_events(self) -> list[dict[str, Any]]:
        events, self._undrained = self._undrained, []
        return events

    def events_since(self, seq: int) -> list[dict[str, Any]] | None:
        return [event for event in self._events if event["seq"] > seq]

    def steps_since(self, step: int, most: int) -> list[dict[str, Any]]:
        return [{"step": number} for number in range(step + 1, self.steps + 1)][-most:]

    def snapshot(self) -> dict[str, Any]:
        return {"seq": len(self._events), "num_blocks": 256, "active": len(self._running), "free": 64}

    def books(self) -> dict[str, Any]:
        return {"seq": len(self._events), "conserved": True}

    def brief(self) -> dict[str, Any]:
        return {**self.books(), "states": [("f", 256)]}

    def ages(self) -> dict[str, Any]:
        return {"seq": len(self._events), "blocks": []}

    def idle(self, most: int) -> list[dict[str, Any]]:
        return [{"id": block} for block in range(most)]

    def branch(self, token_ids: list[int], salt: str = "") -> list[dict[str, Any]]:
        return [{"logical": 0, "num_tokens": len(token_ids)}]

    def probe(self, token_ids: list[int], salt: str = "") -> dict[str, Any]:
        return {"prompt_tokens": len(token_ids), "cached_tokens": 0, "to_compute": len(token_ids)}

    def reset_cache(self) -> bool:
        return not self._running
