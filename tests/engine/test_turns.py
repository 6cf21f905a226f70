"""Whose turn it is: salts and chats take turns, background work makes way, nobody starves."""

from __future__ import annotations

import random

import pytest

from pagedchat.engine.request import Request
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.types import BACKGROUND_PRIORITY
from pagedchat.engine.waiting import REMEMBERED_LANES, WaitingQueue
from support.paged_model import cold, drain, greedy, make_engine, prompt_of

B = 4


def started_order(engine) -> list[str]:
    """Request ids in the order of their first tokens."""
    order = []
    while engine.has_unfinished():
        order += [one.request_id for one in engine.step() if one.token_ids and one.request_id not in order]
    return order


def test_a_tenant_with_one_request_does_not_wait_behind_anothers_twenty():
    for seats in (1, 2, 4):
        engine = make_engine(200, max_num_seqs=seats)
        for index in range(20):
            engine.add_request(f"a{index}", prompt_of(6, index), greedy(5), salt="a")
        for _ in range(3):
            engine.step()
        running = len(engine.scheduler.running)
        before = [request.request_id for request in engine.scheduler.running]
        engine.add_request("b", prompt_of(6, 99), greedy(5), salt="b")
        after = [name for name in started_order(engine) if name not in before]
        assert running == seats and "b" in after[:2]


def test_tenants_that_come_together_take_turns():
    engine = make_engine(200, max_num_seqs=1)
    for index in range(4):
        engine.add_request(f"a{index}", prompt_of(6, index), greedy(2), salt="a")
    for index in range(2):
        engine.add_request(f"b{index}", prompt_of(6, 50 + index), greedy(2), salt="b")
    assert started_order(engine) == ["a0", "b0", "a1", "b1", "a2", "a3"]


def test_chats_of_one_tenant_take_turns_and_keep_their_own_order():
    engine = make_engine(200, max_num_seqs=1)
    for index in range(3):
        engine.add_request(f"one{index}", prompt_of(6, index), greedy(2), lane="one")
    engine.add_request("two0", prompt_of(6, 60), greedy(2), lane="two")
    engine.add_request("alone", prompt_of(6, 61), greedy(2))
    assert started_order(engine) == ["one0", "two0", "alone", "one1", "one2"]


def test_background_work_makes_way_for_a_chat_that_has_no_seat():
    engine = make_engine(200, max_num_seqs=2)
    for index in range(2):
        engine.add_request(f"title{index}", prompt_of(6, index), greedy(30), priority=BACKGROUND_PRIORITY)
    for _ in range(3):
        engine.step()
    engine.add_request("chat", prompt_of(6, 9), greedy(5))
    outputs = [engine.step() for _ in range(2)]
    assert any(one.request_id == "chat" and one.token_ids for step in outputs for one in step)
    ids, last = drain(engine)
    assert last["title1"].metrics.preemptions == 1 and last["title0"].metrics.preemptions == 0
    events = [entry.event for entry in last["title1"].metrics.timeline]
    assert events == ["queued", "scheduled", "first_token", "preempted", "restored", "finished"]
    assert len(ids["title0"]) > 20


def test_background_work_makes_way_for_a_chat_that_has_no_room():
    engine = make_engine(16)
    engine.add_request("title", prompt_of(30, 1), greedy(20), priority=BACKGROUND_PRIORITY)
    engine.step()
    engine.add_request("chat", prompt_of(30, 2), greedy(20))
    first = [one.request_id for one in engine.step() if one.token_ids]
    assert first == ["chat"]
    ids, last = drain(engine)
    assert last["title"].metrics.preemptions == 1
    assert ids["title"] == cold(prompt_of(30, 1), 20)[1:] and last["chat"].metrics.preemptions == 0


def test_decodes_get_a_token_every_second_step_when_they_fill_the_budget():
    engine = make_engine(400, max_num_seqs=8, max_num_batched_tokens=8)
    for index in range(6):
        engine.add_request(f"r{index}", prompt_of(3, index), greedy(60))
    while len(engine.scheduler.running) < 6 or any(one.num_to_compute > 1 for one in engine.scheduler.running):
        engine.step()
    for index in range(3):
        engine.add_request(f"long{index}", prompt_of(40, 90 + index), greedy(3))
    silent, started = dict.fromkeys((f"r{index}" for index in range(6)), 0), {}
    for step in range(45):
        told = {one.request_id for one in engine.step() if one.token_ids}
        for name in silent:
            silent[name] = 0 if name in told else silent[name] + 1
            assert silent[name] < 2, "a running reply gets a token at least every second step"
        started.update(dict.fromkeys(told - set(started), step))
    assert {"long0", "long1", "long2"} <= set(started), "and prompts get on all the while"
    drain(engine)


@pytest.mark.parametrize("seed", range(3))
def test_nobody_is_forgotten_among_many_lanes_salts_and_priorities(seed):
    rng, engine = random.Random(seed), make_engine(24, max_num_seqs=3, max_num_batched_tokens=8)
    prompts, ended = {}, {}
    for index in range(60):
        prompts[str(index)] = prompt_of(rng.randint(1, 20), rng.randint(0, 20))
        salt, lane, priority = rng.choice("xyz"), rng.choice(["", "p", "q"]), rng.choice([0, 0, BACKGROUND_PRIORITY])
        engine.add_request(str(index), prompts[str(index)], greedy(6), salt=salt, lane=lane, priority=priority)
        if rng.random() < 0.5:
            ended |= {one.request_id: one.finish_reason for one in engine.step() if one.finish_reason}
    ended |= {name: last.finish_reason for name, last in drain(engine)[1].items()}
    assert ended == dict.fromkeys(prompts, "length")
    assert not engine.scheduler.running and len(engine.scheduler.waiting) == 0
    assert engine.snapshot()["active"] == 0


def test_the_queue_remembers_a_bounded_number_of_lanes():
    queue = WaitingQueue()
    for index in range(3 * REMEMBERED_LANES):
        request = Request(str(index), [1], SamplingParams(), index, 0.0, 0, 1, lane=f"lane{index}")
        queue.add(request)
        assert queue.candidates() == [request]
        queue.served(request)
    assert len(queue) == 0 and len(queue._served) <= REMEMBERED_LANES and not queue._lanes
