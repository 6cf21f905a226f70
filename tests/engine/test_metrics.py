"""What an engine counts: every request once, every token once, and times that add up."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from pagedchat.engine.errors import RequestError
from pagedchat.engine.generate_request import OWN_WORK
from pagedchat.engine.histogram import Histogram, percentile
from pagedchat.engine.metric_catalogue import METRICS, blank_metrics
from pagedchat.engine.sampling_params import SamplingParams
from support.paged_model import drain, greedy, make_engine, prompt_of, run

EVERY_REPLY = (
    "time_to_first_token_seconds",
    "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_inference_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_generation_tokens",
)
EVERY_REQUEST = (
    "request_prompt_tokens",
    "request_prefill_kv_computed_tokens",
    "request_params_n",
    "request_params_max_tokens",
    "request_max_num_generation_tokens",
)
OF_THE_CLIENT = {"engine_up", "engine_restarts_total"}


def told(engine):
    """(counters, number of values by histogram, sum by histogram, gauges)."""
    metrics = engine.metrics()
    histograms = metrics["histograms"]
    counts = {name: sum(one["counts"]) for name, one in histograms.items()}
    return metrics["counters"], counts, {name: one["sum"] for name, one in histograms.items()}, metrics["gauges"]


def check_sums(engine) -> None:
    """What holds at any time."""
    counters, counts, sums, gauges = told(engine)
    sources = counters["prompt_tokens_by_source_total"]
    assert sources["local_compute"] + sources["local_cache_hit"] == counters["prompt_tokens_total"]
    assert sources["local_cache_hit"] == counters["prompt_tokens_cached_total"] == counters["prefix_cache_hits_total"]
    in_use = counters["kv_blocks_allocated_total"] - counters["kv_blocks_released_total"]
    assert in_use == gauges["kv_blocks"]["active"]
    assert counts["kv_block_reuse_gap_seconds"] == counters["kv_blocks_reused_total"]
    assert counts["kv_block_lifetime_seconds"] == counters["kv_blocks_evicted_total"]
    assert counts["kv_block_idle_before_evict_seconds"] == counters["kv_blocks_evicted_total"]
    assert sums["iteration_tokens_total"] == engine.stats()["scheduled_tokens"]
    assert (
        counts["inter_token_latency_seconds"] + counts["time_to_first_token_seconds"]
        == (counters["generation_tokens_total"])
    )
    assert sum(gauges["num_requests_waiting_by_reason"].values()) == gauges["num_requests_waiting"]
    slots = gauges["kv_used_tokens"] + gauges["kv_evictable_tokens"] + gauges["kv_available_tokens"]
    assert slots == engine.kv.pool.num_blocks * engine.kv.block_size


def test_a_value_belongs_to_the_first_bound_that_is_not_below_it():
    histogram = Histogram([1, 2, 5])
    for value in (0.5, 1, 1.5, 5, 6):
        histogram.observe(value)
    assert histogram.to_dict() == {"bounds": [1, 2, 5], "counts": [2, 1, 1, 1], "sum": 14.0}
    assert histogram.count == 5


def test_a_percentile_is_of_what_was_counted_since_a_moment():
    histogram = Histogram([0.1, 0.2, 0.4])
    assert percentile(0.5, histogram.to_dict()) is None
    histogram.observe(0.05, times=10)
    assert percentile(0.5, histogram.to_dict()) == pytest.approx(0.05)
    before = histogram.to_dict()
    assert percentile(0.5, before, before) is None
    histogram.observe(0.3, times=4)
    assert percentile(0.5, histogram.to_dict(), before) == pytest.approx(0.3)
    assert percentile(1.0, histogram.to_dict(), before) == pytest.approx(0.4)
    assert percentile(0.5, histogram.to_dict()) == pytest.approx(0.07)
    histogram.observe(9.0, times=100)
    assert percentile(0.95, histogram.to_dict(), before) == 0.4, "beyond the last bound nothing is known"


def test_an_engine_tells_every_metric_but_what_only_its_client_knows():
    metrics, blank = make_engine().metrics(), blank_metrics()
    for kind in ("gauges", "counters", "histograms"):
        assert set(metrics[kind]) == set(blank[kind]) - OF_THE_CLIENT
    assert metrics["info"]["cache_config_info"]["block_size"] == "4"
    assert metrics["info"]["cache_config_info"]["enable_prefix_caching"] == "True"


def test_each_request_is_in_each_histogram_once():
    engine = make_engine()
    run(engine, {f"r{i}": prompt_of(10 + i, i) for i in range(5)}, 6)
    counters, counts, sums, _ = told(engine)
    assert {counts[name] for name in (*EVERY_REPLY, *EVERY_REQUEST)} == {5}
    assert counters["request_success_total"] == {"stop": 0, "length": 5, "abort": 0}
    assert sums["request_prompt_tokens"] == counters["prompt_tokens_total"] == sum(10 + i for i in range(5))
    assert sums["request_generation_tokens"] == counters["generation_tokens_total"] == 30
    assert counts["inter_token_latency_seconds"] == 25
    check_sums(engine)


def test_times_are_those_of_the_timeline():
    engine, clock = make_engine(max_num_seqs=1), itertools.count()
    engine._clock = engine.scheduler._clock = lambda: float(next(clock))
    engine.add_request("a", prompt_of(6, 1), greedy(4))
    engine.add_request("b", prompt_of(6, 2), greedy(1))
    _, last = drain(engine)
    _, counts, sums, _ = told(engine)
    a, b = last["a"].metrics, last["b"].metrics
    assert sums["time_to_first_token_seconds"] == (a.ttft_s or 0) + (b.ttft_s or 0) > 0
    assert sums["request_queue_time_seconds"] == a.queue_s + b.queue_s and b.queue_s > a.queue_s
    assert sums["request_prefill_time_seconds"] == a.prefill_s + b.prefill_s
    assert sums["inter_token_latency_seconds"] == sums["request_decode_time_seconds"] == a.decode_s
    assert sums["request_time_per_output_token_seconds"] == a.decode_s / 3
    assert (counts["inter_token_latency_seconds"], counts["request_time_per_output_token_seconds"]) == (3, 1)
    ends = {name: one.metrics.timeline[-1].at_s for name, one in last.items()}
    starts = {name: one.metrics.timeline[1].at_s for name, one in last.items()}
    assert sums["e2e_request_latency_seconds"] == sum(ends.values())
    assert sums["request_inference_time_seconds"] == sum(ends[name] - starts[name] for name in ends)


def test_a_preempted_request_counts_once_and_its_waits_are_no_running_time():
    engine = make_engine(num_blocks=16, max_num_seqs=4)
    for i in range(4):
        engine.add_request(f"r{i}", prompt_of(10, 30 + i), greedy(24))
    _, last = drain(engine)
    preempted = [one.metrics for one in last.values() if one.metrics.preemptions]
    assert preempted
    counters, counts, sums, _ = told(engine)
    assert counters["num_preemptions_total"] == sum(one.preemptions for one in preempted)
    assert counters["prompt_tokens_total"] == counters["prefix_cache_queries_total"] == 40
    assert counters["prompt_tokens_cached_total"] == 0
    assert counters["request_success_total"]["length"] == 4 and counters["generation_tokens_total"] == 96
    assert {counts[name] for name in (*EVERY_REPLY, *EVERY_REQUEST)} == {4}
    assert sums["request_inference_time_seconds"] < sum(
        one.metrics.timeline[-1].at_s - one.metrics.queue_s for one in last.values()
    )
    check_sums(engine)


def test_computed_and_cached_tokens_are_the_prompts_also_of_samples_that_share_them():
    engine, prompt = make_engine(), prompt_of(14, 1)
    run(engine, {"a": prompt}, 2)
    engine.add_request("b", prompt, SamplingParams(temperature=1, seed=1, n=3, max_tokens=4))
    drain(engine)
    counters, counts, sums, _ = told(engine)
    assert counters["prompt_tokens_by_source_total"] == {"local_compute": 14 + 1, "local_cache_hit": 13}
    assert counters["prompt_tokens_total"] == sums["request_prompt_tokens"] == 28
    assert sums["request_prefill_kv_computed_tokens"] == 15
    assert {counts[name] for name in EVERY_REQUEST} == {2} and {counts[name] for name in EVERY_REPLY} == {4}
    assert sums["request_params_n"] == 4
    assert sums["request_max_num_generation_tokens"] == 6 and counters["generation_tokens_total"] == 14
    check_sums(engine)


def test_a_request_that_is_cancelled_while_it_waits_has_no_prompt_but_an_end():
    engine = make_engine(max_num_seqs=1)
    engine.add_request("runs", prompt_of(8, 1), greedy(9))
    engine.add_request("waits", prompt_of(8, 2), greedy(9))
    engine.step()
    assert told(engine)[3]["num_requests_waiting_by_reason"] == {"capacity": 1, "prefix": 0, "preempted": 0}
    assert told(engine)[3]["num_requests_running"] == 1
    engine.cancel("waits")
    engine.cancel("runs")
    drain(engine)
    counters, counts, sums, _ = told(engine)
    assert counters["request_success_total"]["abort"] == 2
    assert counters["prompt_tokens_total"] == sums["request_prompt_tokens"] == 8
    assert counts["e2e_request_latency_seconds"] == counts["request_queue_time_seconds"] == 2
    assert counts["request_inference_time_seconds"] == counts["request_prompt_tokens"] == 1
    check_sums(engine)


def test_a_request_that_waits_for_anothers_prefix_is_told_apart():
    engine = make_engine(max_num_batched_tokens=8, max_num_seqs=4)
    engine.add_request("writes", prompt_of(20, 1), greedy(2))
    engine.add_request("shares", prompt_of(20, 1), greedy(2))
    for _ in range(3):  # the third leaves room in its budget, so the other is looked at
        engine.step()
    assert told(engine)[3]["num_requests_waiting_by_reason"] == {"capacity": 0, "prefix": 1, "preempted": 0}
    drain(engine)
    check_sums(engine)


class OutOfMemoryError(RuntimeError):
    """Named as torch's."""


@pytest.mark.parametrize("error", [OutOfMemoryError("of 2 GiB"), MemoryError(), RuntimeError("can't allocate memory")])
def test_an_allocation_that_fails_in_a_step_is_counted_once_with_its_requests(error):
    engine = make_engine(max_num_seqs=4)
    for i in range(3):
        engine.add_request(f"r{i}", prompt_of(6, i), greedy(8))
    engine.step()
    execute = engine.runner.execute
    engine.runner.execute = lambda batch: (_ for _ in ()).throw(error)
    engine.step()
    engine.runner.execute = execute
    run(engine, {"after": prompt_of(6, 9)}, 2)
    counters = told(engine)[0]
    assert counters["oom_total"] == {"step": 1}
    assert counters["request_errors_total"]["out_of_memory"] == 3
    assert sum(counters["request_errors_total"].values()) == 3 and counters["request_success_total"]["length"] == 1
    check_sums(engine)


def test_errors_are_counted_by_their_reason():
    engine = make_engine(max_num_seqs=4)
    engine.runner.fail_at = {1}
    run(engine, {"fails": prompt_of(6, 1)})
    execute = engine.runner.execute
    engine.runner.execute = lambda batch: np.full_like(execute(batch), np.nan)
    engine.add_request("nan", prompt_of(6, 2), SamplingParams(temperature=1, n=2))
    drain(engine)
    engine.add_request("raises", prompt_of(6, 3), greedy(8))
    engine.fail_all(ValueError("in a step"))
    _, last = drain(engine)
    assert last["raises"].finish_reason == "error" and "ValueError" in (last["raises"].error or "")
    errors = told(engine)[0]["request_errors_total"]
    assert {reason: count for reason, count in errors.items() if count} == {"step_failed": 2, "not_a_number": 2}
    assert told(engine)[0]["oom_total"] == {"step": 0}


def test_computing_a_pin_is_nobodys_request_but_its_blocks_and_steps_count():
    engine, prompt = make_engine(), prompt_of(10, 1)
    engine.pin("system", prompt)
    assert told(engine)[3]["num_requests_waiting"] == 0
    drain(engine)
    counters, counts, _, gauges = told(engine)
    assert gauges["kv_blocks"]["pinned"] == 3
    assert counters["prompt_tokens_total"] == counters["generation_tokens_total"] == 0
    assert sum(counters["request_success_total"].values()) == 0
    assert all(counts[name] == 0 for name in (*EVERY_REPLY, *EVERY_REQUEST))
    assert counters["kv_blocks_allocated_total"] == 3 and counts["iteration_tokens_total"] == 1
    run(engine, {"a": [*prompt, 1]}, 2)
    assert told(engine)[0]["prefix_cache_hits_total"] == 10
    assert engine.stats()["finished_requests"] == 1


def test_a_look_of_the_programs_own_is_nobodys_request():
    engine = make_engine()
    run(engine, {f"{OWN_WORK}look": prompt_of(9, 1)}, 5)
    found = engine.metrics()
    counters, histograms = found["counters"], found["histograms"]
    assert counters["prompt_tokens_total"] == counters["generation_tokens_total"] == 0
    assert sum(counters["request_success_total"].values()) == 0
    for name in ("time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds"):
        assert sum(histograms[name]["counts"]) == 0
    assert sum(histograms["iteration_tokens_total"]["counts"]) == 5


def test_without_a_cache_nothing_is_looked_up():
    engine = make_engine(enable_prefix_caching=False)
    run(engine, {"a": prompt_of(10, 1)})
    counters = told(engine)[0]
    assert counters["prompt_tokens_total"] == 10 and counters["prefix_cache_queries_total"] == 0


@pytest.mark.parametrize("seed", range(3))
def test_under_random_load_all_sums_hold_after_every_step(seed):
    rng = random.Random(seed)
    engine = make_engine(num_blocks=24, max_num_seqs=4, max_num_batched_tokens=12, max_queue=6)
    added, tokens = [], 0
    for turn in range(150):
        if rng.random() < 0.4:
            prompt = [*prompt_of(8, rng.randrange(3)), *prompt_of(rng.randrange(1, 30), rng.randrange(99))]
            params = SamplingParams(temperature=1, seed=turn, n=rng.choice([1, 1, 3]), max_tokens=rng.randrange(1, 20))
            try:
                engine.add_request(f"r{turn}", prompt, params)
                added.append((f"r{turn}", params.n))
            except Exception as error:
                assert "waiting already" in str(error) or isinstance(error, RequestError)
        if added and rng.random() < 0.1:
            engine.cancel(rng.choice(added)[0])
        if rng.random() < 0.05:
            engine.runner.fail_at = {engine.runner.calls + 1}
        tokens += sum(len(output.token_ids) for output in engine.step())
        check_sums(engine)
    while engine.has_unfinished():
        tokens += sum(len(output.token_ids) for output in engine.step())
        check_sums(engine)
    counters, counts, sums, gauges = told(engine)
    ended = sum(counters["request_success_total"].values()) + sum(counters["request_errors_total"].values())
    assert ended == sum(n for _, n in added) == counts["e2e_request_latency_seconds"]
    assert counters["num_preemptions_total"] > 0 and counters["kv_blocks_evicted_total"] > 0
    assert counters["generation_tokens_total"] == tokens == sums["request_generation_tokens"]
    assert sums["request_prompt_tokens"] == counters["prompt_tokens_total"]
    assert sums["request_prefill_kv_computed_tokens"] == counters["prompt_tokens_by_source_total"]["local_compute"]
    assert gauges["num_requests_running"] == gauges["num_requests_waiting"] == gauges["kv_cache_usage_perc"] == 0


VLLMS = {
    "time_to_first_token_seconds": "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160 "
    "640 2560",
    "inter_token_latency_seconds": "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80",
    "e2e_request_latency_seconds": "0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680",
    "iteration_tokens_total": "1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384",
    "request_params_n": "1 2 5 10 20",
    "request_prompt_tokens": "1 2 5 10 20 50 100 200 500 1000 2000 5000 10000 20000 50000 100000",
    "kv_block_lifetime_seconds": "0.001 0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10 20 30 60 120 300 600 1200 1800",
}


def test_bounds_rise_and_hold_all_of_vllms():
    for name, metric in METRICS.items():
        assert list(metric.bounds) == sorted(set(metric.bounds)), name
    for name, bounds in VLLMS.items():
        assert set(map(float, bounds.split())) <= set(METRICS[name].bounds), name
