"""Ways in which schedulers got stuck elsewhere: chats that preempt each other without end, replies that freeze while
prompts arrive, newcomers that wait for ever."""

from __future__ import annotations

import math

import pytest

from support.paged_model import cold, drain, greedy, make_engine, prompt_of

B = 4


@pytest.mark.parametrize(("first", "second"), [(9, 7), (7, 9), (9, 9), (4, 8), (8, 3)])
@pytest.mark.parametrize("windows", [(None,), (None, 2 * B)])
def test_two_chats_of_different_length_that_do_not_fit_together_both_finish(
    first: int, second: int, windows: tuple[int | None, ...]
) -> None:
    """Each needs about 60 % of the pool in the end, with its reply of three blocks."""
    groups = len(windows)
    pool = groups * math.ceil((max(first, second) + 3) / 0.6)
    engine = make_engine(pool, windows=windows, max_num_batched_tokens=16, max_num_seqs=4)
    prompts = {"old": prompt_of(first * B, 50), "new": prompt_of(second * B + 1, 51)}
    for name, prompt in prompts.items():
        engine.add_request(name, prompt, greedy(3 * B))
    got: dict[str, list[int]] = {"old": [], "new": []}
    last, stalled = {}, 0
    while engine.has_unfinished():
        before = engine._replies["old"].request.num_computed if "old" in engine._replies else None
        for output in engine.step():
            got[output.request_id] += output.token_ids
            last[output.request_id] = output
        if before is not None and "old" in engine._replies:
            stalled = stalled + 1 if engine._replies["old"].request.num_computed <= before else 0
            assert stalled == 0, "the oldest goes on in every step"
    assert got == {name: cold(prompt, 3 * B, windows=windows) for name, prompt in prompts.items()}
    ideal = sum(len(prompt) + 3 * B for prompt in prompts.values())
    stats = engine.stats()
    assert stats["scheduled_tokens"] <= 3 * ideal
    told = {name: output.metrics.preemptions for name, output in last.items()}
    assert told["old"] == 0 and stats["preemptions"] == told["new"] <= 2


def test_the_pair_above_does_preempt_where_both_begin() -> None:
    """Admission holds most such pairs apart; a reply that outgrows its prompt by far is what it cannot foresee."""
    engine = make_engine(12, max_num_batched_tokens=16, max_num_seqs=4)
    prompts = {"old": prompt_of(3 * B, 50), "new": prompt_of(2 * B + 1, 51)}
    for name, prompt in prompts.items():
        engine.add_request(name, prompt, greedy(6 * B))
    got, last = drain(engine)
    assert got == {name: cold(prompt, 6 * B) for name, prompt in prompts.items()}
    assert last["new"].metrics.preemptions == engine.stats()["preemptions"] >= 1
    assert last["old"].metrics.preemptions == 0
    assert engine.stats()["scheduled_tokens"] <= 3 * (5 * B + 1 + 12 * B)


def test_a_reply_streams_on_while_prompts_of_eight_chunks_arrive_faster_than_they_can_be_served() -> None:
    budget, chunks, pause, newcomers = 8, 8, 5, 20
    engine = make_engine(1000, max_num_batched_tokens=budget, max_num_seqs=32)
    engine.add_request("stream", prompt_of(3, 1), greedy(400))
    engine.step()
    begun: dict[str, int] = {}
    for step in range(newcomers * 2 * chunks):
        if step % pause == 0 and step // pause < newcomers:
            engine.add_request(f"long{step // pause}", prompt_of(chunks * budget, 100 + step), greedy(1))
        told = {output.request_id for output in engine.step() if output.token_ids}
        assert "stream" in told, "a token in every step: one decode is less than half of the budget"
        begun |= {name: step for name in told if name not in begun}
    each = math.ceil(chunks * budget / (budget - 1))
    for number in range(newcomers):
        assert begun[f"long{number}"] <= (number + 1) * each + 1, "in the order of arrival, none starved"


def test_many_replies_each_get_a_token_at_least_every_second_step_while_prompts_are_computed() -> None:
    """Decodes that are more than half of the budget take turns: k = 2, as the scheduler's docstring says."""
    engine = make_engine(1000, max_num_batched_tokens=8, max_num_seqs=8)
    for number in range(7):
        engine.add_request(f"stream{number}", prompt_of(2, number), greedy(200))
    for _ in range(7):
        engine.step()
    engine.add_request("long", prompt_of(64, 90), greedy(1))
    silent = {f"stream{number}": 0 for number in range(7)}
    begun = None
    for step in range(40):
        told = {output.request_id for output in engine.step() if output.token_ids}
        begun = step if "long" in told and begun is None else begun
        for name in silent:
            silent[name] = 0 if name in told else silent[name] + 1
            assert silent[name] < 2
    assert begun is not None and begun <= math.ceil(64 / 4) + 1
