"""Contiguous and paged memory, static and continuous batches: one load in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pagedchat.app.bench.ablate import AblateLoad, full_use, run_ablate, serve_virtually
from pagedchat.app.bench.cells import CONTIGUOUS, FOUR_WAYS, PAGED, Way, engine_for
from pagedchat.app.bench.no_model import NoTokenizer
from pagedchat.app.bench.replay import Arrival, VirtualClock, replay
from pagedchat.app.bench.step_cost import SimulatedModel, StepCost, fit
from pagedchat.app.bench.traces import Lengths, chat_load

COST = StepCost(0.01, 0.001, 0.0)
SMALL = AblateLoad(
    requests=24,
    rate=0.0,
    prompts=Lengths(60, least=40, most=200),
    replies=Lengths(40, least=5, most=120),
    system=32,
    max_model_len=512,
    reservations=4,
)


def engine_and_clock(way: Way, budget: int = 1024, max_model_len: int = 256, **settings):
    clock = VirtualClock()
    engine = engine_for(
        way,
        lambda size, blocks: SimulatedModel(COST, clock),
        NoTokenizer(),
        budget,
        max_model_len,
        clock=clock,
        **settings,
    )
    return engine, clock


def arrivals(*lengths: tuple[int, int]) -> list[Arrival]:
    return [Arrival(0.0, [index] * prompt, reply) for index, (prompt, reply) in enumerate(lengths)]


@pytest.mark.parametrize("way", FOUR_WAYS, ids=str)
def test_every_way_serves_every_request_in_full(way):
    run = serve_virtually(way, SMALL, COST)
    wanted = chat_load(24, SMALL.prompts, SMALL.replies, 0.0, SMALL.seed, system=SMALL.system)
    assert [len(one.ids) for one in run.requests] == [one.max_tokens for one in wanted]
    assert not any(one.error for one in run.requests)


def test_a_reservation_holds_one_context_and_never_more_requests_than_the_budget_has_contexts():
    engine, clock = engine_and_clock(CONTIGUOUS)
    run = replay(engine, arrivals(*[(20, 30)] * 10), clock)
    assert engine.kv.block_size == 256 and engine.kv.pool.num_blocks == 4
    assert max(step.running for step in run.steps) == 4
    assert {step.slots // 256 for step in run.steps if step.running == 4} >= {4}
    assert run.preemptions == 0


def test_a_paged_budget_of_the_same_size_holds_more():
    engine, clock = engine_and_clock(PAGED)
    run = replay(engine, arrivals(*[(20, 30)] * 10), clock)
    assert max(step.running for step in run.steps) == 10


def test_a_static_batch_takes_nobody_in_until_its_last_request_has_ended():
    engine, clock = engine_and_clock(Way("contiguous", "static"))
    run = replay(engine, arrivals((20, 5), (20, 40), (20, 5), (20, 5), (20, 5), (20, 5)), clock)
    first_batch = max(one.token_times[-1] for one in run.requests[:4])
    assert all(one.admitted_s is not None and one.admitted_s >= first_batch for one in run.requests[4:])


def test_continuous_batching_takes_a_request_in_as_soon_as_another_ends():
    engine, clock = engine_and_clock(CONTIGUOUS)
    run = replay(engine, arrivals((20, 5), (20, 40), (20, 5), (20, 5), (20, 5)), clock)
    late = run.requests[4].admitted_s
    assert late is not None and late < run.requests[1].token_times[-1]


def test_a_static_batch_that_outgrows_the_pool_gets_its_own_requests_back():
    engine, clock = engine_and_clock(Way("paged", "static"), budget=256)
    run = replay(engine, arrivals(*[(30, 60)] * 6), clock)
    assert run.preemptions > 0
    assert all(len(one.ids) == 60 for one in run.requests)


def test_steps_take_as_long_as_their_cost_says():
    engine, clock = engine_and_clock(PAGED)
    run = replay(engine, arrivals((20, 3)), clock)
    assert run.seconds == pytest.approx((0.01 + 0.020) + 2 * (0.01 + 0.001))
    assert run.requests[0].itl_s == pytest.approx([0.011, 0.011])
    assert run.requests[0].ttft_s == pytest.approx(0.030)


def test_a_cost_is_found_again_in_the_steps_that_it_made():
    cost = StepCost(0.006, 0.0005, 4e-7)
    shapes = [(1, 100), (1, 1000), (16, 4000), (512, 512), (256, 900), (8, 100)]
    found = fit([(rows, slots, cost.seconds(rows, slots)) for rows, slots in shapes])
    assert (found.base_s, found.token_s, found.slot_s) == pytest.approx((0.006, 0.0005, 4e-7))
    free = StepCost(0.006, 0.0005, 0.0)
    noisy = fit([(rows, slots, free.seconds(rows, slots) - 1e-9 * slots) for rows, slots in shapes])
    assert min(noisy.base_s, noisy.token_s, noisy.slot_s) >= 0.0


def test_the_same_cost_gives_the_same_table_and_both_changes_together_bring_most():
    first, second = run_ablate(SMALL, COST), run_ablate(SMALL, COST)
    assert first.figures == second.figures and first.tables == second.tables
    ways = first.figures
    assert ways["paged, continuous"]["tokens_per_s"] == max(ways[str(way)]["tokens_per_s"] for way in FOUR_WAYS)
    assert ways["paged, continuous"]["ttft_p95_s"] < ways["contiguous, continuous"]["ttft_p95_s"]
    assert ways["contiguous, continuous"]["ttft_p95_s"] < ways["contiguous, static"]["ttft_p95_s"]
    assert ways["paged, continuous, prefix cache"]["slots_mean"] < ways["paged, continuous"]["slots_mean"]
    assert first.parameters["clock"] == "virtual" and "stated" in first.parameters["step_cost"]
    assert "tokens/s" in first.verdict


def test_requests_come_as_fast_as_contiguous_memory_with_static_batches_can_serve_whatever_a_step_costs():
    for slower in (1, 50):
        cost = StepCost(0.01 * slower, 0.001 * slower, 0.0)
        result = run_ablate(replace(SMALL, rate=None), cost)
        waiting = serve_virtually(FOUR_WAYS[0], SMALL, cost)
        assert result.parameters["rate_per_s"] == full_use(waiting) == round(24 / waiting.seconds, 3)
        assert "full use" in result.parameters["rate_rule"] and "full use" in result.verdict
        base, best = (result.figures[name] for name in ("contiguous, static", "paged, continuous"))
        assert best["ttft_p95_s"] < base["ttft_p95_s"]
        assert best["tokens_per_s_waiting"] > base["tokens_per_s_waiting"]
