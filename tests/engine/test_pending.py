"""A prefix that another request is just computing is waited for, not computed again."""

from __future__ import annotations

import pytest

from pagedchat.engine.types import BACKGROUND_PRIORITY
from support.paged_model import cold, drain, greedy, make_engine, prompt_of

B = 4


def timeline(output) -> list[tuple[str, str]]:
    return [(entry.event, entry.detail) for entry in output.metrics.timeline]


@pytest.mark.parametrize("length", [2, B, 3 * B, 5 * B + 2])
def test_equal_prompts_at_once_compute_their_common_part_once(length):
    engine, prompt = make_engine(max_num_batched_tokens=8, max_num_seqs=8), prompt_of(length, length)
    for name in "abcd":
        engine.add_request(name, prompt, greedy(1))
    ids, last = drain(engine)
    assert set(map(tuple, ids.values())) == {tuple(cold(prompt, 1))}
    assert sum(engine.runner.rows) == length + 3, "the others compute their last token only"
    for name in "bcd":
        assert last[name].metrics.cached_tokens == length - 1
        assert ("pending", "a") in timeline(last[name])
        assert timeline(last[name])[0] == ("queued", "")
    assert ("pending", "a") not in timeline(last["a"])


def test_prompts_that_part_wait_for_the_common_part_only():
    engine, root = make_engine(max_num_batched_tokens=8, max_num_seqs=8), prompt_of(6 * B + 1, 1)
    prompts = {name: [*root, *prompt_of(3, index)] for index, name in enumerate("abc", 10)}
    for name, prompt in prompts.items():
        engine.add_request(name, prompt, greedy(5))
    ids, last = drain(engine)
    assert ids == {name: cold(prompt, 5) for name, prompt in prompts.items()}
    assert [last[name].metrics.cached_tokens for name in "abc"] == [0, len(root), len(root)]


@pytest.mark.parametrize("end", ["cancel", "fail", "preempt"])
def test_when_the_writer_ends_early_the_first_waiter_takes_over(end):
    engine, prompt = make_engine(max_num_batched_tokens=8, max_num_seqs=8), prompt_of(8 * B + 2, 2)
    for name in "abc":
        engine.add_request(name, prompt, greedy(3))
    engine.runner.fail_at = {2} if end == "fail" else set()
    engine.step()
    assert [request.request_id for request in engine.scheduler.running] == ["a"]
    if end == "cancel":
        engine.cancel("a")
    elif end == "preempt":
        engine.scheduler._preempt(engine.scheduler.running[0])
    ids, last = drain(engine)
    for name in "abc" if end == "preempt" else "bc":
        assert ids[name] == cold(prompt, 3)
    if end != "preempt":
        assert ("pending", "b") in timeline(last["c"])
    computed = sum(engine.runner.rows)
    assert computed <= len(prompt) + 8 + 3 * 3, "what the first had written was not lost"


def test_a_pending_request_holds_up_nobody_behind_it():
    engine = make_engine(max_num_batched_tokens=8, max_num_seqs=8)
    long = prompt_of(30, 3)
    engine.add_request("writer", long, greedy(2))
    engine.add_request("waits", long, greedy(2))
    engine.add_request("other", prompt_of(3, 4), greedy(2))
    order = []
    while engine.has_unfinished():
        order += [output.request_id for output in engine.step() if output.metrics and not output.finish_reason]
    assert order.index("other") < order.index("waits")


def test_nobody_waits_for_another_salt_or_for_a_few_tokens():
    engine, prompt = make_engine(), prompt_of(20, 5)
    engine.add_request("a", prompt, greedy(1), salt="x")
    engine.add_request("b", prompt, greedy(1), salt="y")
    engine.add_request("c", [*prompt[:2], *prompt_of(30, 6)], greedy(1), salt="x")
    engine.step()
    assert engine.runner.rows == [20 + 20 + 32]
    drain(engine)


def test_without_prefix_caching_nobody_waits():
    engine, prompt = make_engine(enable_prefix_caching=False), prompt_of(20, 5)
    for name in "ab":
        engine.add_request(name, prompt, greedy(1))
    engine.step()
    assert engine.runner.rows == [40]


def test_a_background_writer_runs_with_the_priority_of_the_chat_that_waits_for_it():
    order = {}
    for asks in (False, True):
        engine, shared = make_engine(400, max_num_batched_tokens=8, max_num_seqs=8), prompt_of(40, 8)
        engine.add_request("title", [*shared, 1], greedy(2), priority=BACKGROUND_PRIORITY)
        engine.step()
        engine.add_request("other", prompt_of(60, 9), greedy(2))
        if asks:
            engine.add_request("chat", [*shared, 2], greedy(2), lane="chat")
            engine.add_request("later", prompt_of(60, 10), greedy(2))
        told, waited = [], 0
        while engine.has_unfinished():
            told += [one.request_id for one in engine.step() if one.token_ids and one.request_id not in told]
            waited = max(waited, engine.stats()["pending"])
        order[asks] = told
        assert waited == (1 if asks else 0)
    assert order[False] == ["other", "title"]
    assert order[True][0] == "title" and order[True].index("chat") < order[True].index("later")
