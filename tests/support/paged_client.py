"""A scripted engine client whose blocks are real: the engine's own block pool, prefix index and events, no model."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any

from pagedchat.engine.block_detail import block_detail
from pagedchat.engine.computed_before import ComputedBefore
from pagedchat.engine.generate_request import GenerateRequest
from pagedchat.engine.inspect import branch_rows, pool_books, pool_snapshot
from pagedchat.engine.kv_cache_manager import KVCacheManager
from pagedchat.engine.metrics import EngineMetrics
from pagedchat.engine.pool_views import block_ages, idle_rows, pool_brief
from pagedchat.engine.request import Request
from pagedchat.engine.scheduler import Scheduled
from pagedchat.engine.types import RequestMetrics, RequestOutput
from support.fake_client import END, INFO, FakeEngineClient
from support.paged_probe import probed


class PagedFakeClient(FakeEngineClient):
    """Each character of a reply is one step; its tokens get slots as in the real engine."""

    def __init__(self, replies: Any = ("Hello!",), *, num_blocks: int = 256, **options: Any) -> None:
        info = {**INFO, "num_blocks": num_blocks, **options.pop("info", {})}
        super().__init__(replies, info=info, **options)
        self.kv_manager = KVCacheManager(num_blocks, info["block_size"])
        self.computed_before = ComputedBefore(info["block_size"])
        self.prompt_tokens = self.cached_tokens = 0
        self.counted = EngineMetrics()
        self._requests: dict[str, Request] = {}

    def _cached(self, tokens: list[int]) -> int:
        found = self.kv_manager.match(tokens).num_tokens(self.block_size)
        return min(found, max(len(tokens) - 1, 0))

    async def _steps(
        self, request: GenerateRequest, tokens: list[int], metrics: RequestMetrics, begun: float
    ) -> AsyncGenerator[RequestOutput, None]:
        labels = dict(request.labels)
        held = Request(request.request_id, [*tokens], request.params, 0, begun, 0, 1 << 20, labels, request.salt)
        held.metrics = metrics
        assert self.kv_manager.admit(held), "the pool of this test is too small"
        self._requests[request.request_id] = held
        metrics.cached_tokens = held.num_computed
        metrics.computed_tokens = metrics.prompt_tokens - metrics.cached_tokens
        self.prompt_tokens += metrics.prompt_tokens
        self.cached_tokens += metrics.cached_tokens
        self._compute(held)
        self._forward()
        try:
            async for output in super()._steps(request, tokens, metrics, begun):
                self._count_token(held)
                held.token_ids += output.token_ids
                if held.num_to_compute > 1:
                    self._compute(held, held.num_to_compute - 1)
                if output.finish_reason:
                    self._release(held)
                self._forward()
                yield output
        finally:
            self._release(held)
            self._forward()

    def _compute(self, held: Request, num_tokens: int | None = None) -> None:
        """One step; the newest token is never computed in the step that chose it."""
        num_tokens = num_tokens or held.num_to_compute
        self.kv_manager.events.step += 1
        self.step_log.begin(self.kv_manager.events.step)
        self.step_log.planned([Scheduled(held, num_tokens)], waiting=0)
        assert self.kv_manager.append_slots(held, num_tokens), "the pool of this test is too small"
        self.kv_manager.commit(held, num_tokens)
        self.kv_manager.step_done()
        self.counted.note_step(num_tokens)
        self.step_log.end()

    def _count_token(self, held: Request) -> None:
        now = time.monotonic()
        if held.first_token_at is None:
            held.first_token_at = now
            held.metrics.ttft_s = now - held.arrival
            self.counted.note_first_token(held)
        else:
            self.counted.note_tokens([now - held.last_token_at])
        held.last_token_at = now

    def _release(self, held: Request) -> None:
        if self._requests.pop(held.request_id, None):
            self.computed_before.note(held.token_ids[: held.num_computed], held.salt, held.user)
            self.kv_manager.free(held)

    def _emit(self, kind: str, request: GenerateRequest, tokens: list[int]) -> None:
        """The events come from the block manager here."""

    def _forward(self) -> None:
        events = self.kv_manager.events.drain()
        self.events += events
        for watcher in list(self._event_watchers):
            if events:
                watcher(events)

    async def probe(
        self, token_ids: list[int] | None = None, *, messages: Any = None, salt: str = "", **options: Any
    ) -> dict[str, Any]:
        found = await super().probe(token_ids, messages=messages, salt=salt, **options)
        built = None
        if messages is not None:
            header, trim = options.get("add_generation_prompt", True), options.get("trim", False)
            built = self._build_messages(messages, header, "", trim, options.get("max_tokens"))
            token_ids = built.prompt_token_ids
        ids = [*(options.get("prompt") or "").encode()] if token_ids is None else token_ids
        return {**found, **probed(self.kv_manager, self.computed_before, ids, salt, messages, built)}

    async def events_since(self, seq: int) -> list[dict[str, Any]] | None:
        return self.kv_manager.events.since(seq)

    async def snapshot(self) -> dict[str, Any]:
        return pool_snapshot(self.kv_manager, list(self._requests.values()))

    async def books(self) -> dict[str, Any]:
        return pool_books(self.kv_manager, list(self._requests.values()))

    async def brief(self) -> dict[str, Any]:
        return pool_brief(self.kv_manager, list(self._requests.values()))

    async def ages(self) -> dict[str, Any]:
        return block_ages(self.kv_manager)

    async def idle(self, most: int) -> list[dict[str, Any]]:
        return idle_rows(self.kv_manager, most)

    async def block(self, block: int) -> dict[str, Any]:
        return block_detail(self.kv_manager, block, list(self._requests.values()))

    async def branch(self, token_ids: list[int], salt: str = "") -> list[dict[str, Any]]:
        return branch_rows(self.kv_manager, token_ids, salt, list(self._requests.values()))

    async def reset_cache(self) -> None:
        await super().reset_cache()
        self.kv_manager.reset()
        self._forward()

    async def forget(self, session: str) -> dict[str, int]:
        await super().forget(session)
        blocks = self.kv_manager.forget(session)
        self.computed_before.forget_user(session)
        self.step_log.forget(session, self.kv_manager.events.forget(session))
        self._forward()
        return {"blocks": len(blocks)}

    async def metrics(self) -> dict[str, Any]:
        found, pool = await super().metrics(), self.kv_manager.pool
        blocks = {"free": pool.num_free, "cached": pool.num_cached, "active": pool.num_active}
        found["gauges"]["kv_blocks"].update(blocks, shared=pool.num_shared)
        found["gauges"]["kv_cache_usage_perc"] = pool.num_active / pool.num_blocks
        totals = {"prompt_tokens_total": self.prompt_tokens, "prompt_tokens_cached_total": self.cached_tokens}
        found["counters"].update(pool.history.counters(), **totals)
        found["histograms"].update(pool.history.histograms())
        for name in ("time_to_first_token_seconds", "inter_token_latency_seconds"):
            found["histograms"][name] = self.counted.histograms()[name]
        for kind, values in self.metrics_told.items():
            found[kind].update(values)
        return found

    async def stats(self) -> dict[str, Any]:
        pool, counted = self.kv_manager.pool, self.counted
        return {
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "preemptions": 0,
            "running": len(self._requests),
            "waiting": 0,
            "steps": counted.steps,
            "scheduled_tokens": counted.scheduled_tokens,
            "blocks_free": pool.num_free,
            "blocks_cached": pool.num_cached,
            "blocks_active": pool.num_active,
        }


__all__ = ["END", "PagedFakeClient"]
