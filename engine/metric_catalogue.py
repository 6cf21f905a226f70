"""Every metric there is: its name, kind, labels and buckets.

Names and buckets are vLLM's where it has the same thing, so that its dashboards fit. Below its first bounds there are
finer ones, for a small model on a desk answers within them. All bounds are fixed: totals of engines that came one after
the other (a restart, another model) can be added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .histogram import Histogram

PREFIX = "pagedchat_"
"""What the names begin with where others read them."""
FIRST_TOKEN_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0),
    *(80.0, 160.0, 640.0, 2560.0),
)
TOKEN_S = (
    *(0.001, 0.0025, 0.005, 0.0075),  # ours
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST_S = (
    *(0.001, 0.01, 0.05, 0.1, 0.2),  # ours
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0),
    *(1920.0, 7680.0),
)
BLOCK_S = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800),
    *(3600, 14400, 86400),  # ours: a desk keeps its cache over lunch
)
STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
TOKENS = tuple(digit * 10**power for power in range(6) for digit in (1, 2, 5))
SAMPLES = (1, 2, 5, 10, 20)

FINISH_REASONS = ("stop", "length", "abort")
WAITING_REASONS = ("capacity", "prefix", "preempted", "engine")
BLOCK_STATES = ("free", "cached", "active", "shared", "pinned")
ERROR_REASONS = (
    "refused",  # can never be served as it is
    "queue_full",
    "out_of_memory",
    "step_failed",
    "not_a_number",
    "internal",  # the engine could not take the request, for a fault of its own
    "engine_stopped",  # it ended with the request in it
    "engine_failed",  # it could not start
)
OOM_PLACES = ("step", "load", "killed")
SOURCES = ("local_compute", "local_cache_hit")


@dataclass(frozen=True)
class Metric:
    """One metric, by its name without the prefix.

    Attributes:
        label: name of its one label; empty for none.
        values: the label's values that are told from the start.
        bounds: a histogram's.
    """

    kind: Literal["gauge", "counter", "histogram"]
    help: str
    label: str = ""
    values: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    def blank(self) -> Any:
        """Its value before anything happened."""
        if self.kind == "histogram":
            return Histogram(self.bounds).to_dict()
        return dict.fromkeys(self.values, 0) if self.label else 0


def _gauge(help: str, label: str = "", values: tuple[str, ...] = ()) -> Metric:
    return Metric("gauge", help, label, values)


def _counter(help: str, label: str = "", values: tuple[str, ...] = ()) -> Metric:
    return Metric("counter", help, label, values)


def _histogram(help: str, bounds: Sequence[float]) -> Metric:
    return Metric("histogram", help, bounds=tuple(bounds))


METRICS = {
    "engine_up": _gauge("1 while the engine answers, 0 while it loads, hangs or is gone."),
    "num_requests_running": _gauge("Requests that run (each sample of one with n above 1)."),
    "num_requests_waiting": _gauge("Requests that wait."),
    "num_requests_waiting_by_reason": _gauge(
        "Requests that wait for a seat or blocks (capacity), for a prefix that another computes (prefix), to run again "
        "(preempted), or for the engine to be ready (engine).",
        "reason",
        WAITING_REASONS,
    ),
    "kv_cache_usage_perc": _gauge("Share of the KV blocks that requests hold, 0 to 1."),
    "kv_blocks": _gauge(
        "KV blocks: free + cached + active are all; shared ones are active, pinned ones cached or active.",
        "state",
        BLOCK_STATES,
    ),
    "kv_used_tokens": _gauge("Token slots of blocks that are held or pinned."),
    "kv_evictable_tokens": _gauge("Token slots of cached blocks that give way when room is needed."),
    "kv_available_tokens": _gauge("Token slots of free blocks."),
    "prefix_cache_queries_total": _counter("Prompt tokens looked up in the prefix cache."),
    "prefix_cache_hits_total": _counter("Prompt tokens found in the prefix cache."),
    "num_preemptions_total": _counter("Times that a running request lost its blocks and had to wait."),
    "prompt_tokens_total": _counter("Prompt tokens of requests that were admitted."),
    "prompt_tokens_by_source_total": _counter("Prompt tokens, computed or found in the cache.", "source", SOURCES),
    "prompt_tokens_cached_total": _counter("Prompt tokens found in the cache."),
    "generation_tokens_total": _counter("Tokens generated."),
    "request_success_total": _counter("Requests that ended without an error.", "finished_reason", FINISH_REASONS),
    "request_errors_total": _counter("Requests that ended with an error, or were refused.", "reason", ERROR_REASONS),
    "oom_total": _counter(
        "Times that memory ran out: in a step, while loading, or so that the system killed the engine.",
        "where",
        OOM_PLACES,
    ),
    "engine_restarts_total": _counter("Times that the engine died and was started again."),
    "kv_blocks_allocated_total": _counter("Blocks that came into use; minus those released it is the active ones."),
    "kv_blocks_released_total": _counter("Blocks that went out of use."),
    "kv_blocks_copied_total": _counter("Blocks copied before a write, because others held them."),
    "kv_blocks_reused_total": _counter("Blocks taken again with what is in them."),
    "kv_blocks_evicted_total": _counter("Blocks whose cached content was given up."),
    "time_to_first_token_seconds": _histogram("From a request's arrival to its first token.", FIRST_TOKEN_S),
    "inter_token_latency_seconds": _histogram("From each token of a reply to its next.", TOKEN_S),
    "request_time_per_output_token_seconds": _histogram("Decode time over the tokens after the first.", TOKEN_S),
    "e2e_request_latency_seconds": _histogram("From a request's arrival to its end.", REQUEST_S),
    "request_queue_time_seconds": _histogram("From a request's arrival to its first admission.", REQUEST_S),
    "request_inference_time_seconds": _histogram("Time that a request ran, waits after preemption apart.", REQUEST_S),
    "request_prefill_time_seconds": _histogram("From a request's first admission to its first token.", REQUEST_S),
    "request_decode_time_seconds": _histogram("From a reply's first token to its last.", REQUEST_S),
    "request_prompt_tokens": _histogram("Prompt tokens of a request.", TOKENS),
    "request_generation_tokens": _histogram("Tokens generated for a reply.", TOKENS),
    "request_max_num_generation_tokens": _histogram("Tokens of the longest of a request's samples.", TOKENS),
    "request_params_n": _histogram("Samples asked for.", SAMPLES),
    "request_params_max_tokens": _histogram("Most tokens that a reply could have.", TOKENS),
    "request_prefill_kv_computed_tokens": _histogram("Prompt tokens of a request that were not cached.", TOKENS),
    "iteration_tokens_total": _histogram("Tokens of one engine step.", STEP_TOKENS),
    "kv_block_lifetime_seconds": _histogram("From a block's allocation to its eviction.", BLOCK_S),
    "kv_block_idle_before_evict_seconds": _histogram("From a block's last use to its eviction.", BLOCK_S),
    "kv_block_reuse_gap_seconds": _histogram("From a block's last use to being taken again.", BLOCK_S),
}
"""By name without the prefix, in the order in which they are told."""


def blank_metrics() -> dict[str, Any]:
    """All metrics before anything happened, in the shape of ``Engine.metrics()``."""
    found: dict[str, Any] = {"gauges": {}, "counters": {}, "histograms": {}, "info": {}}
    for name, metric in METRICS.items():
        found[f"{metric.kind}s"][name] = metric.blank()
    return found


def histogram_of(name: str) -> Histogram:
    """An empty histogram with the buckets of a metric."""
    return Histogram(METRICS[name].bounds)
