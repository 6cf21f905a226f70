"""Verdicts follow from figures; what was not measured is not judged."""

from __future__ import annotations

from typing import Any

import pytest

from pagedchat.app.bench import table_cost as table_cost_module
from pagedchat.app.bench.claim_list import (
    CLAIMS,
    Claim,
    Judgement,
    judge_7b,
    judge_block_table,
    judge_burst,
    judge_cached_prefix,
    judge_fragmentation,
    judge_one_request,
    judge_output,
    judge_sequences,
    judge_sharing,
    judge_throughput,
    judge_utilization,
    judge_waste,
)
from pagedchat.app.bench.claim_measures import (
    BURSTS,
    Burst,
    burst_figures,
    cached_prefix_figures,
    sample_blocks,
    sequences_held,
)
from pagedchat.app.bench.claims import VERDICTS, finish_claims, judge, judge_all
from pagedchat.app.bench.long import LongLoad, run_long
from pagedchat.app.bench.published import ARTICLE
from pagedchat.app.bench.random_model import random_model
from pagedchat.app.bench.report import BenchResult, Table, table_markdown, thinned
from pagedchat.app.bench.table_cost import SHORT, TableCost, attention_ratio, table_cost
from pagedchat.app.bench.traces import Lengths
from pagedchat.engine.errors import EngineError


@pytest.fixture(scope="module")
def model():
    return random_model(
        num_layers=2,
        hidden_size=32,
        intermediate_size=32,
        num_heads=2,
        num_kv_heads=1,
        head_dim=16,
        max_position=1024,
    )


def memory(waste: float, utilization: float = 0.98, most: int = 15) -> dict[str, Any]:
    reserve = {"waste_of_used": 0.7, "utilization": 0.3}
    paged = {"waste_of_used": waste, "utilization": utilization, "most_waste_a_branch": most}
    return {"reserve": reserve, "doubling": reserve, "paged": paged, "block_size": 16}


def bursts(*cells: tuple[float, float]) -> dict[str, Any]:
    """Bursts in which paging brings so many tokens a second and so slow a first token; contiguous has 100 and 10."""
    one = {"tokens_per_s": 100.0, "ttft_p95_s": 10.0, "running_peak": 4}
    return {
        str(at): {"contiguous": one, "paged": {**one, "tokens_per_s": speed, "ttft_p95_s": wait}}
        for at, (speed, wait) in enumerate(cells)
    }


def output(exact: int, rounded: int, problems: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "exact_tokens": 100,
        "exact_differences": exact,
        "rounded_tokens": 100,
        "rounded_differences": rounded,
        "problems": list(problems),
    }


def table(attention: float, step: float) -> dict[str, Any]:
    return {"attention": attention, "step": step, "context": 1024}


def known(*ratios: float) -> dict[str, Any]:
    return {str(500 * (at + 1)): {"ratio": one, "alone_s": 0.1, "after_s": 0.1} for at, one in enumerate(ratios)}


@pytest.mark.parametrize(
    ("judgement", "verdict", "goal_met"),
    [
        (judge_waste(memory(0.02)), "holds", None),
        (judge_waste(memory(0.05)), "does not", None),
        (judge_utilization(memory(0.02, 0.96)), "holds", True),
        (judge_utilization(memory(0.02, 0.90)), "does not", False),
        (judge_throughput(bursts((230, 1), (210, 1))), "holds", None),
        (judge_throughput(bursts((230, 1), (90, 1))), "partly", None),
        (judge_throughput(bursts((90, 1), (105, 1))), "does not", None),
        (judge_burst(bursts((100, 5), (100, 4))), "holds", True),
        (judge_burst(bursts((100, 7), (100, 4))), "partly", False),
        (judge_burst(bursts((100, 11), (100, 10))), "does not", False),
        (judge_sequences({"contiguous": 8, "paged": 16}), "holds", None),
        (judge_sequences({"contiguous": 8, "paged": 12}), "partly", None),
        (judge_sequences({"contiguous": 8, "paged": 8}), "does not", None),
        (judge_cached_prefix(known(1.05, 1.19)), "holds", True),
        (judge_cached_prefix(known(1.05, 1.4)), "partly", False),
        (judge_cached_prefix(known(1.3, 1.4)), "does not", False),
        (judge_block_table(table(1.25, 1.1)), "holds", False),
        (judge_block_table(table(1.1, 1.0)), "partly", False),
        (judge_block_table(table(1.02, 1.0)), "does not", True),
        (judge_7b({"bytes": 2**30, "bytes_a_token": 2**19}), "corrected", None),
        (judge_fragmentation(memory(0.02)), "partly", None),
        (judge_fragmentation(memory(0.02, most=16)), "does not", None),
        (judge_output(output(0, 0)), "holds", True),
        (judge_output(output(0, 3)), "partly", True),
        (judge_output(output(1, 0)), "does not", False),
        (judge_output(output(0, 0, ("a text differs",))), "does not", False),
        (judge_one_request(table(1.0, 1.0)), "does not", None),
        (judge_one_request(table(1.0, 0.5)), "holds", None),
        (judge_sharing({"held": 40, "alone": 100}), "holds", None),
        (judge_sharing({"held": 90, "alone": 100}), "partly", None),
    ],
)
def test_a_verdict_follows_from_the_figures(judgement: Judgement, verdict: str, goal_met: bool | None):
    assert (judgement.verdict, judgement.goal_met) == (verdict, goal_met)
    assert judgement.verdict in VERDICTS and judgement.here


def test_the_seven_billion_cache_is_one_gibibyte():
    measure = next(claim.measure for claim in CLAIMS if "7B" in claim.text)
    assert judge_7b(measure(None, 1)).here.startswith("1 GiB:")  # type: ignore[arg-type]


def test_what_cannot_be_measured_is_not_judged_and_measures_run_once(model):
    calls = []

    def fails(model, seed):
        raise EngineError("The kernels are not there.")

    def counts(model, seed):
        calls.append(seed)
        return {"value": 3}

    def fine(found):
        return Judgement(str(found["value"]), "holds", True)

    claims = (
        Claim("one", "a", "b", fails, fine),
        Claim("two", "a", "b", counts, fine),
        Claim("three", "a", "b", counts, fine),
    )
    judged = judge_all(model, 9, lambda text: None, claims)
    assert [one.verdict for one in judged] == ["not measured", "holds", "holds"]
    assert judged[0].here == "The kernels are not there." and calls == [9]
    result = finish_claims(BenchResult("claims", {}), judged)
    assert result.passed and result.figures["verdicts"]["not measured"] == 1
    assert "Of 2 goals of our own 2 are met." in result.verdict
    no = Claim("four", "a", "b", counts, lambda found: Judgement("3", "does not", False))
    missed = finish_claims(BenchResult("claims", {}), [*judged, judge(no, {"value": 3})])
    assert missed.passed is False and "Missed: four." in missed.verdict
    assert finish_claims(BenchResult("claims", {}), judged[:1]).passed is None


def test_every_claim_names_its_source_and_figure_and_there_are_twelve():
    assert len(CLAIMS) == 12
    assert all(claim.text and claim.source and claim.figure for claim in CLAIMS)


def test_the_articles_budget_holds_eight_reserved_and_sixteen_paged_sequences():
    assert sequences_held(ARTICLE, 16) == {"contiguous": 8, "paged": 16}


def test_more_of_a_burst_runs_at_once_paged_and_uses_what_it_holds(model):
    load = Burst(
        requests=6, prompts=Lengths(20, most=60), replies=Lengths(6, least=2, most=12), context=128, reservations=2
    )
    found = burst_figures(model, load)
    assert found["contiguous"]["running_peak"] == 2 and found["paged"]["running_peak"] > 2
    assert 1 <= found["rounds"] <= 2 and found["replies"] == 6 and 0 <= found["same_replies"] <= 6
    assert found["paged"]["utilization"] > found["contiguous"]["utilization"]


def test_no_burst_is_picked_by_its_result_and_all_are_told():
    told = judge_burst({str(one): bursts((100, wait))["0"] for one, wait in zip(BURSTS, (7, 4), strict=True)}).here
    assert "0.70 x for 24 of 150 + 60 tokens" in told and "0.40 x for 20 of 150 + 100 tokens" in told


def test_a_known_prefix_is_found_and_its_cost_is_a_ratio(model):
    found = cached_prefix_figures(model, known=(64, 128), new=16, rounds=2)
    assert set(found) == {64, 128}
    assert all(one["ratio"] > 0 and one["after_s"] > 0 for one in found.values())


def test_samples_of_one_prompt_hold_its_full_blocks_once():
    found = sample_blocks(prompt=64, reply=20, samples=4, block_size=16)
    assert found["held"] == 4 + 4 * 2 and found["alone"] == 4 * 6


def test_the_cost_of_a_table_is_measured_on_both_sides(model):
    cost = table_cost(model, context=300, rounds=4)
    assert cost.ratio > 0 and cost.paged_s > 0 and cost.contiguous_s > 0


def test_what_a_step_takes_beside_attention_does_not_dilute_the_tables_cost(monkeypatch):
    costs = {1000: TableCost(1000, 6.0, 5.0, 1.2), SHORT: TableCost(SHORT, 1.0, 1.0, 1.0)}
    monkeypatch.setattr(table_cost_module, "table_cost", lambda model, context, **_: costs[context])
    assert attention_ratio(None, 1000) == pytest.approx((6 - 1) / (5 - 1))  # type: ignore[arg-type]


def test_a_steps_own_memory_does_not_grow_with_the_context():
    load = LongLoad((128, 1024), reply=4, chunk=64, hidden_size=128, intermediate_size=256)
    result = run_long(load)
    assert result.passed and result.figures["activation_growth"] < 1.1
    lengths = result.figures["lengths"]
    slot = 2 * 2 * 16 * 2
    assert lengths["1024"]["kv_bytes"] == -(-(1024 + 3) // 16) * 16 * slot
    assert lengths["128"]["activation_bytes"] >= 64 * (128 + 128 + 3 * 256) * 4  # rows of the widest arrays
    assert [row[0] for row in result.tables[0].rows] == [128, 1024]


def test_a_table_is_told_in_markdown():
    told = table_markdown(Table("t", ["name", "tokens"], [["a|b", 1200], ["c", None]], "Note."))
    assert told.splitlines() == ["| name | tokens |", "| --- | ---: |", "| a\\|b | 1,200 |", "| c | - |", "", "Note."]


def test_a_long_series_keeps_its_ends_and_few_points():
    points = [(at, float(at)) for at in range(1000)]
    kept = thinned(points, 50)
    assert len(kept) == 50 and (kept[0], kept[-1]) == (points[0], points[-1])
    assert thinned(points[:50], 50) == points[:50]
