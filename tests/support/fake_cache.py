"""The cache of an engine client without an engine: what was fed is found again, events tell blocks by their count."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pagedchat.engine.errors import EngineError, RequestError
from pagedchat.engine.generate_request import GenerateRequest
from pagedchat.engine.step_log import KEPT_STEPS, StepLog


class FakeCache:
    """The part of `FakeEngineClient` that tells of blocks.

    Attributes:
        pins: what ``stats`` tells of them, by name.
        step_log: what ``steps_since`` tells.
        forgotten: the sessions that were to be forgotten, in order.
    """

    def __init__(self, block_size: int, num_blocks: int) -> None:
        self.block_size = block_size
        self.events: list[dict[str, Any]] = []
        self.step_log = StepLog(token_budget=2048)
        self.pins: dict[str, dict[str, Any]] = {}
        self.forgotten: list[str] = []
        self._num_blocks = num_blocks
        self._fed: list[list[int]] = []
        self._live: dict[str, tuple[GenerateRequest, list[int]]] = {}
        self._event_watchers: list[Callable[[list[dict[str, Any]]], None]] = []
        self._seq = 0
        self._step = 0

    def _cached(self, tokens: list[int]) -> int:
        best = 0
        for fed in self._fed:
            length = 0
            for ours, theirs in zip(tokens, fed, strict=False):
                if ours != theirs:
                    break
                length += 1
            best = max(best, length)
        return min(best, max(len(tokens) - 1, 0))

    def watch_events(self, callback: Callable[[list[dict[str, Any]]], None]) -> Callable[[], None]:
        self._event_watchers.append(callback)
        return lambda: self._event_watchers.remove(callback)

    def _emit(self, kind: str, request: GenerateRequest, tokens: list[int]) -> None:
        self._seq += 1
        self._step += 1
        event = {
            "seq": self._seq,
            "time": time.time(),
            "step": self._step,
            "type": kind,
            "blocks": list(range(-(-len(tokens) // self.block_size))),
            "ref_counts": [1] * -(-len(tokens) // self.block_size),
            "states": "a" * -(-len(tokens) // self.block_size),
            "parent": None,
            "num_tokens": len(tokens),
            "request_id": request.request_id,
            "labels": request.labels,
        }
        self.events.append(event)
        for watcher in list(self._event_watchers):
            watcher([event])

    async def events_since(self, seq: int) -> list[dict[str, Any]] | None:
        if seq > self._seq or (self.events and seq < self.events[0]["seq"] - 1):
            return None
        return [event for event in self.events if event["seq"] > seq]

    async def steps_since(self, step: int, most: int = KEPT_STEPS) -> list[dict[str, Any]]:
        return self.step_log.since(step, most)

    async def snapshot(self) -> dict[str, Any]:
        tables, blocks, used = [], [], 0
        for request_id, (request, tokens) in self._live.items():
            ids = list(range(used, used - (-len(tokens) // self.block_size)))
            used += len(ids)
            tables.append(
                {
                    "request_id": request_id,
                    "session_id": request.labels.get("session"),
                    "message_id": request.labels.get("message"),
                    "num_tokens": len(tokens),
                    "blocks": ids,
                }
            )
            blocks += [
                {"id": one, "state": "active", "ref_count": 1, "num_tokens": self.block_size, "owners": [request_id]}
                for one in ids
            ]
        total = self._num_blocks
        blocks += [
            {"id": one, "state": "free", "ref_count": 0, "num_tokens": 0, "owners": []} for one in range(used, total)
        ]
        counts = {"free": total - used, "cached": 0, "active": used, "shared": 0, "pinned": 0, "conserved": True}
        head = {"seq": self._seq, "block_size": self.block_size, "num_blocks": total}
        return {**head, **counts, "blocks": blocks, "tables": tables}

    async def books(self) -> dict[str, Any]:
        snapshot = await self.snapshot()
        return {name: value for name, value in snapshot.items() if name not in ("blocks", "tables")}

    async def brief(self) -> dict[str, Any]:
        snapshot = await self.snapshot()
        held = [one for one in snapshot["blocks"] if one["ref_count"]]
        names = list(dict.fromkeys(name for one in held for name in one["owners"]))
        return {
            **await self.books(),
            "pins": [],
            "states": [(one["state"][0], 1) for one in snapshot["blocks"]],
            "owners": names,
            "held": [[0, 1, one["ref_count"], [names.index(name) for name in one["owners"]]] for one in held],
        }

    async def block(self, block: int) -> dict[str, Any]:
        raise RequestError(f"Block {block} does not exist: no block of this engine is real.")

    async def ages(self) -> dict[str, Any]:
        columns: dict[str, list[Any]] = {name: [] for name in ("blocks", "born_ms", "idle_ms", "reuses", "counts")}
        return {"seq": self._seq, "time": time.time(), **columns}

    async def idle(self, most: int) -> list[dict[str, Any]]:
        return []

    async def branch(self, token_ids: list[int], salt: str = "") -> list[dict[str, Any]]:
        size = self.block_size
        return [
            {
                "logical": index // size,
                "num_tokens": len(token_ids[index : index + size]),
                "block": None,
                "cached_tokens": 0,
                "ref_count": 0,
                "state": "missing",
                "sharers": [],
            }
            for index in range(0, len(token_ids), size)
        ]

    async def branches(self, branches: list[list[int]], salt: str = "") -> list[list[dict[str, Any]]]:
        return [await self.branch(one, salt) for one in branches]

    async def reset_cache(self) -> None:
        if self._live:
            raise EngineError("The cache cannot be reset while requests hold blocks.")
        self._fed.clear()

    async def forget(self, session: str) -> dict[str, int]:
        self.forgotten.append(session)
        for event in self.events:
            if event["labels"].get("session") == session:
                event["labels"], event["request_id"] = {}, None
        return {"blocks": 0}

    async def pin(
        self, name: str, token_ids=None, *, prompt=None, messages=None, template_args=None, salt: str = ""
    ) -> None:
        ids = token_ids if token_ids is not None else list((prompt or str(messages)).encode())
        if len(ids) > 1000:
            raise RequestError("Pinning this prefix takes too many blocks.")
        self.pins[name] = {"name": name, "num_tokens": len(ids), "blocks": -(-len(ids) // self.block_size)}

    async def unpin(self, name: str) -> bool:
        return self.pins.pop(name, None) is not None
