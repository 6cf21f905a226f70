"""Scheduling: budgets, preemption, cancelling and refusals."""

import random

import pytest

from pagedchat.engine.errors import EngineError, RequestError
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.types import BACKGROUND_PRIORITY
from support.paged_model import cold, drain, greedy, make_engine, prompt_of, run

B = 4


def test_a_long_prompt_runs_in_chunks_of_the_budget_and_says_the_same():
    engine, prompt = make_engine(max_num_batched_tokens=8, max_num_seqs=2), prompt_of(30, 1)
    assert run(engine, {"a": prompt}, 5)["a"] == cold(prompt, 5)
    assert max(engine.runner.rows) == 8 and engine.runner.rows[:4] == [8, 8, 8, 6]


def test_a_streaming_reply_gets_a_token_every_step_while_long_prompts_arrive():
    engine = make_engine(num_blocks=400, max_num_batched_tokens=8, max_num_seqs=8)
    engine.add_request("stream", prompt_of(4, 2), greedy(150))
    engine.step()
    finished = set()
    for turn in range(20):
        engine.add_request(f"long{turn}", prompt_of(40, 10 + turn), greedy(1))
        for _ in range(5):
            outputs = engine.step()
            assert "stream" in {output.request_id for output in outputs if output.token_ids}
            finished |= {output.request_id for output in outputs if output.finish_reason == "length"}
    assert len(finished) >= 15
    _, last = drain(engine)
    assert finished | set(last) == {"stream", *(f"long{turn}" for turn in range(20))}


def test_preempted_requests_say_what_they_would_have_said_alone_and_the_oldest_is_never_preempted():
    engine = make_engine(num_blocks=16, max_num_seqs=4)
    prompts = {f"r{i}": prompt_of(10, 30 + i) for i in range(4)}
    for name, prompt in prompts.items():
        engine.add_request(name, prompt, greedy(24))
    got, last = drain(engine)
    preemptions = {name: output.metrics.preemptions for name, output in last.items()}
    assert sum(preemptions.values()) > 0 and preemptions["r0"] == 0
    assert engine.stats()["preemptions"] == sum(preemptions.values())
    assert got == {name: cold(prompt, 24) for name, prompt in prompts.items()}
    assert all(output.metrics.cached_tokens == 0 for output in last.values())


def test_a_seeded_request_that_is_preempted_draws_the_same_tokens():
    params = SamplingParams(temperature=0.8, seed=7, max_tokens=30)
    alone = make_engine(enable_prefix_caching=False)
    alone.add_request("a", prompt_of(10, 41), params)
    expected = drain(alone)[0]["a"]
    for caching in (True, False):
        engine = make_engine(num_blocks=14, enable_prefix_caching=caching)
        engine.add_request("old", prompt_of(10, 40), greedy(30))
        engine.add_request("a", prompt_of(10, 41), params)
        got, last = drain(engine)
        assert last["a"].metrics.preemptions > 0
        assert got["a"] == expected and len(expected) == 30


def test_two_requests_that_do_not_fit_together_both_finish_with_little_work_done_twice():
    engine = make_engine(num_blocks=20)
    for name, seed in (("a", 50), ("b", 51)):
        engine.add_request(name, prompt_of(9 * B, seed), greedy(3 * B))
    got, last = drain(engine)
    assert {len(ids) for ids in got.values()} == {3 * B}
    assert engine.stats()["scheduled_tokens"] <= 3 * (2 * 12 * B)
    assert last["a"].metrics.preemptions == 0


def test_the_only_request_ends_with_a_length_reason_when_the_pool_is_full():
    engine, blocks = make_engine(num_blocks=8), 8
    engine.add_request("a", prompt_of(blocks * B - 2, 60), greedy(50))
    got, last = drain(engine)
    assert last["a"].finish_reason == "length" and len(got["a"]) in (2, 3)
    assert engine.runner.calls <= 10
    assert engine.kv.pool.num_active == 0
    assert run(engine, {"next": prompt_of(5, 61)}, 3)["next"] == cold(prompt_of(5, 61), 3)


def test_a_request_that_was_preempted_when_it_had_filled_the_pool_ends_as_if_it_had_gone_on():
    engine, prompt = make_engine(num_blocks=4), prompt_of(10, 62)
    engine.add_request("title", prompt, greedy(40), priority=BACKGROUND_PRIORITY)
    while engine.requests()[0]["num_tokens"] <= 4 * B:
        engine.step()
    engine.add_request("chat", prompt_of(2, 63), greedy(2))
    _, last = drain(engine)
    assert last["title"].metrics.preemptions == 1 and last["title"].finish_reason == "length"
    assert last["title"].metrics.completion_tokens == 4 * B + 1 - len(prompt)
    assert engine.kv.pool.num_active == 0


def test_a_prompt_that_can_never_fit_is_refused_at_once_with_both_numbers_and_blocks_nobody():
    engine = make_engine(num_blocks=10, max_model_len=40 * B)
    with pytest.raises(RequestError, match=r"41 tokens.*holds 40"):
        engine.add_request("big", prompt_of(10 * B + 1), greedy())
    with pytest.raises(RequestError, match=r"160 tokens.*context holds 160"):
        engine.add_request("huge", prompt_of(40 * B), greedy())
    assert run(engine, {"small": prompt_of(5)}, 3)["small"] == cold(prompt_of(5), 3)


@pytest.mark.parametrize("prompt", [[], [97], [-1]])
def test_a_prompt_without_tokens_or_with_unknown_ids_is_refused(prompt):
    engine = make_engine()
    with pytest.raises(RequestError):
        engine.add_request("bad", prompt, greedy())
    assert not engine.has_unfinished()


def test_cancelling_in_any_state_gives_every_block_back():
    engine = make_engine(num_blocks=12, max_num_batched_tokens=8, max_num_seqs=2)
    for turn in range(20):
        for name, length in (("decode", 5), ("prefill", 30), ("waiting", 9)):
            engine.add_request(f"{name}{turn}", prompt_of(length, turn), greedy(50))
        engine.step()
        engine.step()
        for name in ("waiting", "prefill", "decode"):
            assert engine.cancel(f"{name}{turn}")
            assert not engine.cancel(f"{name}{turn}")
        assert not engine.cancel("unknown")
        _, last = drain(engine)
        assert {output.finish_reason for output in last.values()} == {"abort"}
        assert engine.kv.pool.num_active == 0
    assert engine.kv.pool.num_free + engine.kv.pool.num_cached == 12
    engine.add_request("whole", prompt_of(12 * B - 3, 99), greedy(2))
    assert drain(engine)[1]["whole"].finish_reason == "length"


def test_hundreds_of_requests_of_all_kinds_leave_the_pool_idle():
    rng = random.Random(70)
    engine = make_engine(num_blocks=20, max_num_batched_tokens=12, max_num_seqs=5, end_turns=True)
    known = [prompt_of(rng.randint(1, 20), 300 + i) for i in range(6)]
    live, reasons = [], set()
    for turn in range(500):
        prompt = [*rng.choice(known), *prompt_of(rng.randint(0, 4), turn)]
        engine.add_request(f"r{turn}", prompt, greedy(rng.randint(1, 12), stop=["ab", "~"] if turn % 3 else []))
        live.append(f"r{turn}")
        if rng.random() < 0.1:
            engine.cancel(rng.choice(live))
        if turn % 25 == 0:
            engine.runner.fail_at = {engine.runner.calls + 2}
        reasons |= {output.finish_reason for output in engine.step()}
    _, last = drain(engine)
    reasons |= {output.finish_reason for output in last.values()}
    assert reasons >= {"length", "stop", "abort", "error"}
    pool = engine.kv.pool
    assert pool.num_active == 0 and pool.num_free + pool.num_cached == 20
    assert engine.reset_cache() and pool.num_free == 20


def test_priorities_go_before_age():
    engine = make_engine(max_num_seqs=1)
    engine.add_request("title", prompt_of(4, 1), greedy(1), priority=1)
    engine.add_request("chat", prompt_of(4, 2), greedy(1))
    assert [output.request_id for output in engine.step()] == ["chat"]


def test_sixteen_requests_at_once_all_stream():
    engine = make_engine(num_blocks=200)
    for index in range(16):
        engine.add_request(f"r{index}", prompt_of(6, index), greedy(4))
    assert len({output.request_id for output in engine.step() if output.token_ids}) == 16


def test_a_reply_ends_at_the_end_of_turn_id_which_shows_no_text():
    engine = make_engine(end_turns=True)
    seen = 0
    for index in range(120):
        engine.add_request(f"r{index}", prompt_of(5, 500 + index), greedy(60))
    got, last = drain(engine)
    for name, ids in got.items():
        if last[name].finish_reason == "stop":
            seen += 1
            assert ids[-1] == 96 and 96 not in ids[:-1]
    assert seen > 10


def test_ignoring_the_end_of_turn_runs_to_the_limit():
    engine = make_engine(end_turns=True)
    for index in range(60):
        engine.add_request(f"r{index}", prompt_of(5, 500 + index), greedy(60, ignore_eos=True))
    got, _ = drain(engine)
    assert {len(ids) for ids in got.values()} == {60}


def test_a_request_whose_logits_are_no_numbers_ends_alone():
    engine = make_engine()
    real = engine.runner.execute

    def poisoned(batch):
        logits = real(batch)
        logits[0] = float("nan")
        return logits

    for name, seed in (("a", 2), ("b", 3)):
        engine.add_request(name, prompt_of(5, seed), greedy(3))
    engine.runner.execute = poisoned
    first = {output.request_id: output for output in engine.step()}
    engine.runner.execute = real
    assert first["a"].finish_reason == "error" and first["a"].token_ids == []
    assert first["b"].token_ids == cold(prompt_of(5, 3), 1)


def test_a_full_queue_refuses_one_more_and_keeps_the_others():
    engine = make_engine(max_queue=3)
    for index in range(3):
        engine.add_request(f"r{index}", prompt_of(4, index), greedy(2))
    with pytest.raises(EngineError, match="3 requests are waiting"):
        engine.add_request("one more", prompt_of(4), greedy(2))
    assert set(drain(engine)[0]) == {"r0", "r1", "r2"}


def test_requests_that_share_almost_everything_survive_cancelled_and_failed_ones_among_them():
    cached = preemptions = compared = 0
    for seed in range(60):
        rng = random.Random(seed)
        engine = make_engine(rng.randint(5, 14), max_num_batched_tokens=rng.choice([4, 8, 16]), max_num_seqs=3)
        prompts, ids = {}, {}
        for turn in range(30):
            if rng.random() < 0.5:
                prompts[f"r{turn}"] = [one % 4 for one in prompt_of(rng.randint(1, 18), rng.randrange(4))]
                engine.add_request(f"r{turn}", prompts[f"r{turn}"], greedy(rng.randint(1, 14)))
            if rng.random() < 0.1 and prompts:
                engine.cancel(rng.choice(list(prompts)))
            if rng.random() < 0.15:
                engine.runner.fail_at = {engine.runner.calls + 1}
            for output in engine.step():
                ids.setdefault(output.request_id, []).extend(output.token_ids)
        more, _ = drain(engine)
        for name, reply in more.items():
            ids.setdefault(name, []).extend(reply)
        assert engine.kv.pool.num_active == 0
        for name, reply in ids.items():
            if seed < 6 and reply:
                assert reply == cold(prompts[name], len(reply))
                compared += 1
        cached += engine.stats()["cached_tokens"]
        preemptions += engine.stats()["preemptions"]
    assert cached > 0 and preemptions > 0 and compared > 0


def test_a_reply_cut_by_a_stop_string_names_the_ids_of_the_text_that_is_left():
    engine, prompt = make_engine(), prompt_of(6, 80)
    whole = cold(prompt, 12)
    stop = engine.tokenizer.decode(whole[4:6])
    engine.add_request("a", prompt, greedy(12, stop=[stop]))
    text, last = "", None
    while engine.has_unfinished():
        for last in engine.step():
            text += last.text
    assert last.finish_reason == "stop"
    assert text == engine.tokenizer.decode(whole).split(stop)[0]
    assert engine.tokenizer.decode(last.history_ids) == text
    assert last.history_ids == whole[: len(last.history_ids)]
