"""``/metrics`` and ``/api/kv/idle-blocks``: what Prometheus reads, and which blocks are held for little."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from pagedchat import __version__
from pagedchat.app.security import OnlyOurPage, allowed_hosts
from pagedchat.app.watch.metrics import metrics_router
from support.api_server import ApiServer, api_server
from support.fake_client import FakeEngineClient
from support.paged_client import PagedFakeClient
from support.paged_model import make_engine
from support.stepped_client import SteppedClient

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
NAMES = {
    "gauge": """engine_up num_requests_running num_requests_waiting num_requests_waiting_by_reason kv_cache_usage_perc
        kv_blocks kv_used_tokens kv_evictable_tokens kv_available_tokens cache_config_info build_info""",
    "counter": """prefix_cache_queries prefix_cache_hits num_preemptions prompt_tokens prompt_tokens_by_source
        prompt_tokens_cached generation_tokens request_success request_errors oom engine_restarts kv_blocks_allocated
        kv_blocks_released kv_blocks_copied kv_blocks_reused kv_blocks_evicted""",
    "histogram": """time_to_first_token_seconds inter_token_latency_seconds request_time_per_output_token_seconds
        e2e_request_latency_seconds request_queue_time_seconds request_inference_time_seconds
        request_prefill_time_seconds request_decode_time_seconds request_prompt_tokens request_generation_tokens
        request_max_num_generation_tokens request_params_n request_params_max_tokens
        request_prefill_kv_computed_tokens iteration_tokens_total kv_block_lifetime_seconds
        kv_block_idle_before_evict_seconds kv_block_reuse_gap_seconds""",
}
KINDS = {f"pagedchat_{name}": kind for kind, names in NAMES.items() for name in names.split()}


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with api_server(SteppedClient(make_engine())) as running:
        yield running


def families(server: ApiServer) -> dict[str, tuple[str, dict[tuple[str, str], float]]]:
    """By name: the type, and its values by name and label's value."""
    answer = server.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        family.name: (
            family.type,
            {(one.name, next(iter(one.labels.values()), "")): one.value for one in family.samples},
        )
        for family in text_string_to_metric_families(answer.text)
    }


def test_no_metric_is_missing_and_none_is_told_that_is_not_listed(server: ApiServer) -> None:
    told = families(server)
    assert {name: kind for name, (kind, _) in told.items()} == KINDS


def test_the_numbers_are_those_of_the_requests(server: ApiServer) -> None:
    before = families(server)
    answer = server.http.post("/v1/completions", json={"prompt": "one two three", "max_tokens": 5, "temperature": 0})
    usage = answer.json()["usage"]
    told = families(server)

    def rise(family: str, name: str, label: str = "") -> float:
        return told[f"pagedchat_{family}"][1][f"pagedchat_{name}", label] - before[f"pagedchat_{family}"][1].get(
            (f"pagedchat_{name}", label), 0
        )

    assert rise("prompt_tokens", "prompt_tokens_total") == usage["prompt_tokens"] == 13
    assert rise("generation_tokens", "generation_tokens_total") == usage["completion_tokens"] == 5
    assert rise("request_success", "request_success_total", "length") == 1
    name = "time_to_first_token_seconds"
    assert rise(name, f"{name}_count") == rise(name, f"{name}_bucket", "+Inf") == 1
    counts = [told[f"pagedchat_{name}"][1][f"pagedchat_{name}_bucket", label] for label in ("0.001", "0.5", "2560.0")]
    assert counts == sorted(counts)
    assert told["pagedchat_engine_up"][1]["pagedchat_engine_up", ""] == 1


def test_what_runs_is_told_as_labels(server: ApiServer) -> None:
    samples = {
        sample.name: sample
        for family in text_string_to_metric_families(server.http.get("/metrics").text)
        for sample in family.samples
    }
    cache, build = samples["pagedchat_cache_config_info"], samples["pagedchat_build_info"]
    assert cache.value == build.value == 1
    assert (cache.labels["block_size"], cache.labels["num_blocks"]) == ("4", "64")
    assert cache.labels["enable_prefix_caching"] == "True"
    assert build.labels["version"] == __version__ and build.labels["kernels"] == "scripted"


def test_openmetrics_is_written_for_who_asks_for_it(server: ApiServer) -> None:
    answer = server.http.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0, */*;q=0.1"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    names = {family.name for family in openmetrics.text_string_to_metric_families(answer.text)}
    assert names == set(KINDS)


def test_metrics_are_told_while_there_is_no_engine() -> None:
    with api_server(FakeEngineClient(ready=False)) as server:
        told = families(server)
        assert told["pagedchat_engine_up"][1]["pagedchat_engine_up", ""] == 0
        assert told["pagedchat_engine_restarts"][1]["pagedchat_engine_restarts_total", ""] == 0
        assert set(KINDS) - set(told) == {"pagedchat_cache_config_info"}, "nobody knows it yet"


def test_a_foreign_host_name_reads_no_metrics() -> None:
    app = FastAPI()
    app.add_middleware(OnlyOurPage, hosts=allowed_hosts(7861))
    app.include_router(metrics_router(FakeEngineClient()))  # type: ignore[arg-type]
    with TestClient(app, base_url="http://127.0.0.1:7861") as http:
        assert http.get("/metrics").status_code == 200
        assert http.get("/metrics", headers={"host": "evil.example"}).status_code == 403


def test_the_page_about_metrics_lists_every_one() -> None:
    for name, kind in KINDS.items():
        written = name.removeprefix("pagedchat_") + ("_total" if kind == "counter" else "")
        assert f"`{written}`" in PAGE, written


def test_blocks_that_are_held_long_and_reused_little_are_listed() -> None:
    with api_server(PagedFakeClient(["x" * 40])) as server:
        for prompt in ("first" * 9, "second" * 9, "second" * 9):
            server.http.post("/v1/completions", json={"prompt": prompt, "max_tokens": 50})
        rows = server.http.get("/api/kv/idle-blocks").json()["blocks"]
        assert rows and all(row["state"] == "cached" and row["ref_count"] == 0 for row in rows)
        assert rows[0]["reuses"] == 0 and max(row["reuses"] for row in rows) >= 1
        held = [row["born_s"] / (1 + row["reuses"]) for row in rows]
        assert all(one > other - 0.002 for one, other in pairwise(held)), (
            "the longest held first, ages to the millisecond"
        )
        few = server.http.get("/api/kv/idle-blocks?limit=2").json()["blocks"]
        assert [row["id"] for row in few] == [row["id"] for row in rows[:2]]
        assert server.http.get("/api/kv/idle-blocks?limit=some").status_code == 400


def test_the_whole_server_tells_metrics_while_its_engine_is_gone_and_totals_stay(start_app, tmp_path: Path) -> None:
    (tmp_path / "good.gguf").write_bytes(b"GGUF")
    app = start_app("--models-dir", str(tmp_path), "--model", "good", scripted=True)
    name = app.get_json("/v1/models")[1]["data"][0]["id"]

    def number(series: str) -> float:
        status, _, body = app.request("GET", "/metrics")
        assert status == 200
        return next(float(line.split()[-1]) for line in body.decode().splitlines() if line.startswith(f"{series} "))

    app.request("POST", "/v1/completions", {"model": name, "prompt": "hello"})
    served = number("pagedchat_prompt_tokens_total")
    assert served >= 5 and number("pagedchat_engine_up") == 1
    app.request("POST", "/v1/completions", {"model": name, "prompt": "crash"})
    assert number("pagedchat_prompt_tokens_total") >= served
    assert number('pagedchat_oom_total{where="killed"}') == number("pagedchat_engine_restarts_total") == 1
    app.wait_engine()
    assert number("pagedchat_engine_up") == 1 and number("pagedchat_prompt_tokens_total") >= served
    assert app.request("GET", "/metrics", headers={"Host": "evil.example"})[0] == 403
