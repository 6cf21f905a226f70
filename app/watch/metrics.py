"""``/metrics`` for Prometheus: the engine client's metrics under ``pagedchat_``, written by prometheus-client."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from ... import __version__
from ...engine.client import EngineClient
from ...engine.metric_catalogue import METRICS, PREFIX

TEXT = "text/plain; version=0.0.4; charset=utf-8"
INFOS = {
    "cache_config_info": "The KV cache's configuration; always 1.",
    "build_info": "The program's version and what it runs; always 1.",
}


class EngineCollector(Collector):
    """Metrics of one moment, for prometheus-client.

    Args:
        metrics: what ``EngineClient.metrics()`` told.
    """

    def __init__(self, metrics: dict[str, Any]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """All metrics that were told, in the catalogue's order."""
        for name, metric in METRICS.items():
            value = self._metrics[f"{metric.kind}s"].get(name)
            if value is None:
                continue
            if metric.kind == "histogram":
                yield _histogram(name, metric.help, value)
            else:
                yield _numbers(name, metric.kind, metric.help, metric.label, value)
        told = self._metrics["info"]
        for name, text in INFOS.items():
            labels = {"version": __version__, **told.get(name, {})} if name == "build_info" else told.get(name)
            if labels:
                family = GaugeMetricFamily(PREFIX + name, text, labels=list(labels))
                family.add_metric(list(labels.values()), 1)
                yield family


def metrics_router(client: EngineClient) -> APIRouter:
    """The route ``/metrics``. It answers also while the engine loads, hangs or is gone: ``engine_up`` is 0 then."""
    router = APIRouter()

    @router.get("/metrics")
    async def metrics(request: Request) -> Response:
        collector = EngineCollector(await client.metrics())
        if "application/openmetrics-text" in request.headers.get("accept", ""):
            written = openmetrics.generate_latest(collector)  # pyright: ignore[reportArgumentType]
            return Response(written, media_type=openmetrics.CONTENT_TYPE_LATEST)
        return Response(generate_latest(collector), media_type=TEXT)  # pyright: ignore[reportArgumentType]

    return router


def _numbers(name: str, kind: str, text: str, label: str, value: Any) -> Metric:
    """A gauge or a counter: one number, or one for each value of its label."""
    family = (GaugeMetricFamily if kind == "gauge" else CounterMetricFamily)(
        PREFIX + name, text, labels=[label] if label else None
    )
    for label_value, number in value.items() if label else [("", value)]:
        family.add_metric([label_value] if label else [], number)
    return family


def _histogram(name: str, text: str, value: dict[str, Any]) -> Metric:
    bounds = [*map(floatToGoString, value["bounds"]), "+Inf"]
    buckets = list(zip(bounds, accumulate(value["counts"]), strict=True))
    family = HistogramMetricFamily(PREFIX + name, text)
    family.add_metric([], buckets, value["sum"])
    return family
