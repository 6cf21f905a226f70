"""What an engine tells of itself: the pool, where KV lies, what a prompt would find, requests and counters."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from .block_detail import block_detail
from .errors import RequestError
from .inspect import branch_rows, pool_books, pool_snapshot, rows_of_branches
from .pool_views import block_ages, idle_rows, pool_brief
from .request import RequestState
from .step_log import KEPT_STEPS

if TYPE_CHECKING:
    from .computed_before import ComputedBefore, MissReason
    from .config import EngineConfig
    from .kv_cache_manager import KVCacheManager
    from .metrics import EngineMetrics
    from .pins import PinnedPrefixes
    from .prompt import PromptBuilder
    from .reply import Reply
    from .request import Request
    from .runner import ModelRunner
    from .scheduler import Scheduler
    from .step_log import StepLog
    from .tokenizer import Tokenizer

REMEMBERED_REQUESTS = 200


class EngineInspection:
    """The part of `Engine` that only looks; nothing here changes what the engine does next, recency included."""

    config: EngineConfig
    runner: ModelRunner
    tokenizer: Tokenizer
    prompt_builder: PromptBuilder | None
    kv: KVCacheManager
    scheduler: Scheduler
    pins: PinnedPrefixes
    counters: EngineMetrics
    computed_before: ComputedBefore
    step_log: StepLog
    max_model_len: int
    _model_info: dict[str, Any]
    _replies: dict[str, Reply]
    _pinning: dict[str, str]

    def __init__(self) -> None:
        self._recent: deque[dict[str, Any]] = deque(maxlen=REMEMBERED_REQUESTS)

    def snapshot(self) -> dict[str, Any]:
        """The pool as it is between two steps: every block, every live table, and whether the books balance."""
        return pool_snapshot(self.kv, self._requests())

    def books(self) -> dict[str, Any]:
        """The totals of a snapshot, and whether the books balance."""
        return pool_books(self.kv, self._requests())

    def brief(self) -> dict[str, Any]:
        """A snapshot in few bytes; see `pool_brief`."""
        return pool_brief(self.kv, self._requests())

    def ages(self) -> dict[str, Any]:
        """What all blocks went through; see `block_ages`."""
        return block_ages(self.kv)

    def idle(self, most: int) -> list[dict[str, Any]]:
        """Blocks that are held long and reused little; see `idle_rows`."""
        return idle_rows(self.kv, most)

    def branch(self, token_ids: Sequence[int], salt: str = "") -> list[dict[str, Any]]:
        """Where the KV of these tokens lies: one row a logical block."""
        return branch_rows(self.kv, token_ids, salt, self._requests())

    def block(self, block: int) -> dict[str, Any]:
        """All that is known of one block; see `block_detail`.

        Raises:
            RequestError: the pool has no such block.
        """
        return block_detail(self.kv, block, self._requests())

    def branches(self, branches: Sequence[Sequence[int]], salt: str = "") -> list[list[dict[str, Any]]]:
        """What ``branch`` says, of several sequences at one moment."""
        return rows_of_branches(self.kv, branches, salt, self._requests())

    def probe(self, token_ids: Sequence[int], salt: str = "") -> dict[str, Any]:
        """What a prompt would find cached if it were sent now; ``first_difference`` is the first token not found, and
        ``reason`` says why (see `computed_before`).

        Raises:
            RequestError: an id that the model does not have.
        """
        self._check_ids(token_ids)
        found = self.kv.match(token_ids, salt).num_tokens(self.kv.block_size)
        cached = max(0, min(found, len(token_ids) - 1))
        return {
            "prompt_tokens": len(token_ids),
            "cached_tokens": cached,
            "to_compute": len(token_ids) - cached,
            "first_difference": found if found < len(token_ids) else None,
            "reason": self._miss_reason(token_ids, salt, found) if found < len(token_ids) else None,
        }

    def spell(self, token_ids: Sequence[int]) -> list[tuple[str, bool]]:
        """What ids stand for, in order: texts, and apart from them, marked True, the names of control tokens.

        Bytes that form no character are shown as U+FFFD.

        Raises:
            RequestError: an id that the model does not have.
        """
        self._check_ids(token_ids)
        special, join = self.tokenizer.special_ids, self.tokenizer.join_bytes
        spelled: list[tuple[str, bool]] = []
        for control, run in groupby(token_ids, special.__contains__):
            for part in [[one] for one in run] if control else [list(run)]:
                spelled.append((join(part).decode("utf-8", "replace"), control))
        return spelled

    def pieces(self, token_ids: Sequence[int]) -> list[tuple[str, bool]]:
        """The bytes of each id as Latin-1, and whether it is left out of visible text.

        Raises:
            RequestError: an id that the model does not have.
        """
        self._check_ids(token_ids)
        hidden, spelled = self.tokenizer.hidden_ids, self.tokenizer.token_bytes
        return [(spelled(one).decode("latin-1"), one in hidden) for one in token_ids]

    def _check_ids(self, token_ids: Sequence[int]) -> None:
        last = self.tokenizer.num_tokens - 1
        if token_ids and (min(token_ids) < 0 or max(token_ids) > last):
            unknown = next(one for one in token_ids if not 0 <= one <= last)
            raise RequestError(f"Token id {unknown} does not exist: ids go from 0 to {last}.")

    def _miss_reason(self, token_ids: Sequence[int], salt: str, found: int) -> MissReason:
        return self.computed_before.reason(token_ids, salt, found) if self.kv.enable_caching else "caching_off"

    def requests(self) -> list[dict[str, Any]]:
        """Live requests and the newest that have ended, oldest first: what each is, has, and went through when."""
        return [*self._recent, *(self._request_row(request) for request in self._requests())]

    def events_since(self, seq: int) -> list[dict[str, Any]] | None:
        """KV events after ``seq``; None when they are no longer kept."""
        return self.kv.events.since(seq)

    def drain_events(self) -> list[dict[str, Any]]:
        """KV events since the last call."""
        return self.kv.events.drain()

    def steps_since(self, step: int, most: int = KEPT_STEPS) -> list[dict[str, Any]]:
        """What the newest steps after number ``step`` ran (see `StepLog.since`)."""
        return self.step_log.since(step, most)

    def info(self) -> dict[str, Any]:
        """What runs here: model, device, kernels and sizes."""
        builder = self.prompt_builder
        return {
            "block_size": self.kv.block_size,
            "num_blocks": self.kv.pool.num_blocks,
            "kv_groups": list(self.kv.windows),
            "capacity": self.kv.demand.capacity,
            "max_model_len": self.max_model_len,
            "max_num_seqs": self.config.max_num_seqs,
            "prefix_caching": self.config.enable_prefix_caching,
            "deterministic": self.config.deterministic,
            "default_system_prompt": builder.default_system_prompt if builder else None,
            "warnings": list(self.tokenizer.warnings),
            **self._model_info,
            **self.runner.describe(),
        }

    def stats(self) -> dict[str, Any]:
        """Counters and gauges."""
        pool = self.kv.pool
        return {
            **self.counters.stats(),
            "preemptions": self.scheduler.num_preemptions,
            "running": len(self.scheduler.running),
            "waiting": len(self.scheduler.waiting),
            "pending": self.scheduler.num_pending,
            "blocks_free": pool.num_free,
            "blocks_cached": pool.num_cached,
            "blocks_active": pool.num_active,
            "pins": self.pins.rows(),
        }

    def metrics(self) -> dict[str, Any]:
        """All metrics of `metric_catalogue` that an engine knows of itself, as plain values by name and label.

        Returns:
            "gauges" and "counters" (a number, or numbers by the label's value), "histograms" (bounds, counts, sum)
            and "info" (labels of metrics that are always 1).
        """
        return {
            "gauges": self._gauges(),
            "counters": {
                **self.counters.counters(),
                "num_preemptions_total": self.scheduler.num_preemptions,
                **self.kv.pool.history.counters(),
            },
            "histograms": {**self.counters.histograms(), **self.kv.pool.history.histograms()},
            "info": metric_labels(self.info(), self.config),
        }

    def _gauges(self) -> dict[str, Any]:
        pool, size = self.kv.pool, self.kv.block_size
        evictable = pool.num_available - pool.num_free
        waiting: dict[str, int] = dict.fromkeys(("capacity", "prefix", "preempted"), 0)
        for request in self.scheduler.waiting:
            waiting[_why_it_waits(request)] += request.parent_id not in self._pinning
        blocks = {"free": pool.num_free, "cached": pool.num_cached, "active": pool.num_active}
        return {
            "num_requests_running": sum(one.parent_id not in self._pinning for one in self.scheduler.running),
            "num_requests_waiting": sum(waiting.values()),
            "num_requests_waiting_by_reason": waiting,
            "kv_cache_usage_perc": pool.num_active / pool.num_blocks,
            "kv_blocks": {**blocks, "shared": pool.num_shared, "pinned": len(pool.pinned)},
            "kv_used_tokens": (pool.num_blocks - pool.num_available) * size,
            "kv_evictable_tokens": evictable * size,
            "kv_available_tokens": pool.num_free * size,
        }

    def _requests(self) -> list[Request]:
        return [reply.request for reply in self._replies.values()]

    def _note_end(self, request: Request) -> None:
        self._recent.append(self._request_row(request))

    def _forget_requests(self, session: str, ids: set[str]) -> None:
        """No request that has ended is told of a session any more, and no other's timeline names one of its own."""
        rows = [row for row in self._recent if row["labels"].get("session") != session]
        self._recent = deque(rows, maxlen=REMEMBERED_REQUESTS)
        for entry in (entry for row in rows for entry in row["timeline"] if entry["detail"] in ids):
            entry["detail"] = ""
        for entry in (entry for one in self._requests() for entry in one.metrics.timeline if entry.detail in ids):
            entry.detail = ""

    def _request_row(self, request: Request) -> dict[str, Any]:
        metrics = asdict(request.metrics)
        return {
            "request_id": request.request_id,
            "labels": request.labels,
            "state": request.state.value,
            "priority": request.priority,
            "pending_on": request.pending_on.request_id if request.pending_on else None,
            "num_tokens": request.num_tokens,
            "num_computed": request.num_computed,
            "timeline": metrics.pop("timeline"),
            "metrics": metrics,
        }


def metric_labels(info: dict[str, Any], config: EngineConfig) -> dict[str, dict[str, str]]:
    """Labels of the metrics that tell what runs: ``cache_config_info`` and ``build_info``."""
    cache = {
        "block_size": info["block_size"],
        "num_blocks": info["num_blocks"],
        "capacity_tokens": info.get("capacity"),
        "enable_prefix_caching": config.enable_prefix_caching,
        "max_model_len": info["max_model_len"],
        "max_num_seqs": config.max_num_seqs,
        "max_num_batched_tokens": config.max_num_batched_tokens,
        "kv_bytes": info.get("kv_bytes"),
    }
    build = {name: info.get(name) for name in ("model", "fingerprint", "dtype", "device", "kernels")}
    return {"cache_config_info": _texts(cache), "build_info": _texts(build)}


def _texts(labels: dict[str, Any]) -> dict[str, str]:
    return {name: "" if value is None else str(value) for name, value in labels.items()}


def _why_it_waits(request: Request) -> str:
    writer = request.pending_on
    if writer is not None and writer.state is RequestState.RUNNING:
        return "prefix"
    return "preempted" if request.metrics.preemptions else "capacity"
