"""The metrics of an engine as its client tells them: what the engine said last, what engines before it came to, and
what only the parent process sees. Totals never go back, whatever becomes of the engine."""

from __future__ import annotations

from typing import Any

from .errors import EngineError, PagedChatError, RequestError
from .metric_catalogue import blank_metrics


class ClientMetrics:
    """Metrics over the lives of all engines that one client starts."""

    def __init__(self) -> None:
        self._past = blank_metrics()
        self._engine: dict[str, Any] | None = None

    def heard(self, metrics: dict[str, Any]) -> None:
        """The running engine told its metrics."""
        self._engine = metrics

    def engine_gone(self) -> None:
        """The engine has ended: its totals stay, what it held is gone."""
        if self._engine is not None:
            self._past = _with_totals_of(self._past, self._engine)
            self._past["info"] = self._engine["info"]
            counters = self._past["counters"]
            counters["kv_blocks_released_total"] = counters["kv_blocks_allocated_total"]
            self._engine = None

    def note_error(self, reason: str) -> None:
        """A request ended with an error that the engine did not count."""
        self._past["counters"]["request_errors_total"][reason] += 1

    def note_refusal(self, error: PagedChatError, of_ours: bool = True) -> None:
        """The engine did not take a request; ``of_ours``: for a reason that it could name."""
        if isinstance(error, RequestError):
            self.note_error("refused")
        else:
            self.note_error("queue_full" if of_ours and isinstance(error, EngineError) else "internal")

    def note_abort(self) -> None:
        """A request was cancelled before any engine had it."""
        self._past["counters"]["request_success_total"]["abort"] += 1

    def note_out_of_memory(self, where: str) -> None:
        """Memory ran out, and the engine with it: ``load`` or ``killed``."""
        self._past["counters"]["oom_total"][where] += 1

    def note_restart(self) -> None:
        """The engine died and is started again."""
        self._past["counters"]["engine_restarts_total"] += 1

    def told(self, up: bool, held: int) -> dict[str, Any]:
        """All metrics there are, in the shape of ``Engine.metrics()``.

        Args:
            up: whether the engine answers.
            held: requests that wait for it to be ready.
        """
        found = _with_totals_of(self._past, self._engine or {})
        gauges = blank_metrics()["gauges"]
        for name, value in (self._engine or {}).get("gauges", {}).items():
            gauges[name] = {**gauges[name], **value} if isinstance(value, dict) else value
        gauges["engine_up"] = int(up)
        gauges["num_requests_waiting"] += held
        gauges["num_requests_waiting_by_reason"]["engine"] += held
        info = self._engine["info"] if self._engine else self._past["info"]
        return {"gauges": gauges, **found, "info": dict(info)}


def _with_totals_of(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Counters and histograms of ``first`` with those of ``second`` added."""
    counters, histograms = dict(first["counters"]), dict(first["histograms"])
    for name, value in second.get("counters", {}).items():
        before = counters[name]
        if isinstance(value, dict):
            counters[name] = {label: before.get(label, 0) + value.get(label, 0) for label in {**before, **value}}
        else:
            counters[name] = before + value
    for name, value in second.get("histograms", {}).items():
        before = histograms[name]
        counts = [one + other for one, other in zip(before["counts"], value["counts"], strict=True)]
        histograms[name] = {"bounds": before["bounds"], "counts": counts, "sum": before["sum"] + value["sum"]}
    return {"counters": counters, "histograms": histograms}
