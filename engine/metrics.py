"""Totals and histograms of one engine's life: the one owner of what its requests and steps add up to.

    arrival      admitted      first token    token    token      end
       |-- queue --|-- prefill --|-- ITL --|-- ITL --|             |
       |---------- TTFT ---------|------- decode ----|             |
       |                         inference: from admission, without waits after preemption
       |-------------------------------- E2E ----------------------|

A request counts once, however often it is preempted: its prompt at its first admission, its reply when that ends. With
``n`` above 1 each sample has a reply of its own, and the prompt is the first one's. All times come from one monotonic
clock. The pool counts its blocks itself (see `block_history`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import is_out_of_memory
from .metric_catalogue import ERROR_REASONS, FINISH_REASONS, METRICS, histogram_of
from .request import Request
from .types import TimelineEntry


class EngineMetrics:
    """What an engine notes while it works. Users' requests only; steps are all steps.

    Attributes:
        steps, scheduled_tokens: of all steps that ran.
        queried_tokens: prompt tokens that were looked up in the prefix cache.
    """

    def __init__(self) -> None:
        self.steps = self.scheduled_tokens = 0
        self.prompt_tokens = self.cached_tokens = self.queried_tokens = self.generation_tokens = 0
        self.finished_requests = self.oom_in_steps = 0
        self._success: dict[str, int] = dict.fromkeys(FINISH_REASONS, 0)
        self._errors: dict[str, int] = dict.fromkeys(ERROR_REASONS, 0)
        names = [name for name, one in METRICS.items() if one.kind == "histogram" and not name.startswith("kv_block")]
        self._histograms = {name: histogram_of(name) for name in names}
        self._iteration_tokens = self._histograms["iteration_tokens_total"]
        self._inter_token = self._histograms["inter_token_latency_seconds"]

    def note_step(self, num_tokens: int) -> None:
        """A step ran."""
        self.steps += 1
        self.scheduled_tokens += num_tokens
        self._iteration_tokens.observe(num_tokens)

    def note_failed_step(self, error: BaseException) -> str:
        """A step raised; the reason of the errors that follow from it."""
        if is_out_of_memory(error):
            self.oom_in_steps += 1
            return "out_of_memory"
        return "step_failed"

    def note_admission(self, request: Request, looked_up: bool = True) -> None:
        """A request was admitted for the first time; ``looked_up``: its prompt could have been found in the cache."""
        self.prompt_tokens += request.metrics.prompt_tokens
        self.cached_tokens += request.metrics.cached_tokens
        if looked_up:
            self.queried_tokens += request.metrics.prompt_tokens

    def note_first_token(self, request: Request) -> None:
        """A reply began."""
        self.generation_tokens += 1
        self._histograms["time_to_first_token_seconds"].observe(request.metrics.ttft_s or 0.0)

    def note_tokens(self, gaps_s: Sequence[float]) -> None:
        """Replies went on in a step, each so long after its last token; most of them equally long, so they are counted
        together."""
        self.generation_tokens += len(gaps_s)
        for gap in set(gaps_s):
            self._inter_token.observe(gap, gaps_s.count(gap))

    def note_end(self, request: Request, reason: str, now: float, cause: str = "") -> None:
        """A reply ended, with ``cause`` for an error. Its timeline is complete."""
        self.finished_requests += 1
        if reason == "error":
            self._errors[cause or "step_failed"] += 1
        else:
            self._success[reason] += 1
        metrics, observe = request.metrics, self._observe
        waited = now - request.arrival
        observe("e2e_request_latency_seconds", waited)
        observe("request_queue_time_seconds", waited if request.admitted_at is None else metrics.queue_s)
        if request.admitted_at is None:
            return
        observe("request_inference_time_seconds", running_seconds(metrics.timeline))
        observe("request_generation_tokens", metrics.completion_tokens)
        if request.first_token_at is None:
            return
        observe("request_prefill_time_seconds", metrics.prefill_s)
        observe("request_decode_time_seconds", metrics.decode_s)
        if metrics.completion_tokens > 1:
            per_token = metrics.decode_s / (metrics.completion_tokens - 1)
            observe("request_time_per_output_token_seconds", per_token)

    def note_request_end(self, samples: Sequence[Request]) -> None:
        """All samples of a request have ended."""
        first, observe = samples[0], self._observe
        if first.admitted_at is None:
            return
        observe("request_prompt_tokens", first.metrics.prompt_tokens)
        observe("request_prefill_kv_computed_tokens", first.metrics.computed_tokens)
        observe("request_params_n", len(samples))
        observe("request_params_max_tokens", first.max_tokens)
        observe("request_max_num_generation_tokens", max(one.metrics.completion_tokens for one in samples))

    def stats(self) -> dict[str, int]:
        """The totals that `Engine.stats` tells."""
        names = "steps scheduled_tokens prompt_tokens cached_tokens generation_tokens finished_requests"
        return {name: getattr(self, name) for name in names.split()}

    def counters(self) -> dict[str, Any]:
        """Totals by the names of metrics."""
        computed, cached = self.prompt_tokens - self.cached_tokens, self.cached_tokens
        return {
            "prefix_cache_queries_total": self.queried_tokens,
            "prefix_cache_hits_total": cached,
            "prompt_tokens_total": self.prompt_tokens,
            "prompt_tokens_by_source_total": {"local_compute": computed, "local_cache_hit": cached},
            "prompt_tokens_cached_total": cached,
            "generation_tokens_total": self.generation_tokens,
            "request_success_total": dict(self._success),
            "request_errors_total": dict(self._errors),
            "oom_total": {"step": self.oom_in_steps},
        }

    def histograms(self) -> dict[str, dict[str, Any]]:
        """Histograms by the names of metrics."""
        return {name: one.to_dict() for name, one in self._histograms.items()}

    def _observe(self, name: str, value: float) -> None:
        self._histograms[name].observe(value)


def running_seconds(timeline: Sequence[TimelineEntry]) -> float:
    """Seconds that a request ran: from each admission to its preemption or its end."""
    total, since = 0.0, None
    for entry in timeline:
        if entry.event in ("scheduled", "restored"):
            since = entry.at_s
        elif entry.event in ("preempted", "finished") and since is not None:
            total, since = total + entry.at_s - since, None
    return total
