"""Sharing, copy-on-write and eviction change where KV lies, never what is said: each reply equals its cold run."""

import random

import pytest

from pagedchat.engine.sampling_params import SamplingParams
from support.paged_model import cold, drain, make_engine, prompt_of, run

B = 4


def cached_of(engine, prompt, name="probe", **params):
    """Serve one prompt; (ids, cached tokens)."""
    engine.add_request(name, prompt, SamplingParams(temperature=0, max_tokens=params.pop("max_tokens", 8)), **params)
    ids, last = drain(engine)
    metrics = last[name].metrics
    assert metrics.cached_tokens + metrics.computed_tokens == len(prompt)
    return ids[name], metrics.cached_tokens


@pytest.mark.parametrize("length", [1, B, 2 * B, 3 * B, 2 * B - 1, 2 * B + 1])
def test_a_prompt_sent_again_computes_one_token_and_says_the_same(length):
    engine, prompt = make_engine(), prompt_of(length, 1)
    replies = [cached_of(engine, prompt, f"r{i}") for i in range(3)]
    assert [cached for _, cached in replies] == [0, length - 1, length - 1]
    assert all(ids == cold(prompt) for ids, _ in replies)


def test_a_full_hit_a_partial_hit_and_a_miss_run_in_one_batch():
    engine, known = make_engine(), prompt_of(3 * B, 2)
    run(engine, {"warm": known})
    prompts = {"full": known, "part": [*known[: B + 2], *prompt_of(5, 3)], "miss": prompt_of(9, 4)}
    assert run(engine, prompts) == {name: cold(prompt) for name, prompt in prompts.items()}
    assert engine.stats()["cached_tokens"] == 3 * B - 1 + B + 2


def test_a_second_turn_reuses_all_that_the_first_fed_and_produced_but_its_last_token():
    engine, first = make_engine(), prompt_of(2 * B + 3, 5)
    reply = run(engine, {"one": first}, max_tokens=7)["one"]
    second = [*first, *reply, *prompt_of(3, 6)]
    ids, cached = cached_of(engine, second)
    assert cached == len(first) + len(reply) - 1
    assert ids == cold(second)


def test_a_recycled_block_is_not_found_under_its_old_content():
    engine, old = make_engine(num_blocks=6), prompt_of(2 * B, 7)
    run(engine, {"x": old}, max_tokens=2)
    run(engine, {"y": prompt_of(5 * B, 8)}, max_tokens=4)
    ids, cached = cached_of(engine, old, max_tokens=2)
    assert cached == 0
    assert ids == cold(old, 2)


def test_prompts_that_differ_in_their_first_block_share_nothing_after_it():
    engine, common = make_engine(), prompt_of(2 * B, 9)
    run(engine, {"a": [*prompt_of(B, 10), *common]})
    other = [*prompt_of(B, 11), *common]
    ids, cached = cached_of(engine, other)
    assert cached == 0
    assert ids == cold(other)


def test_branches_of_one_part_filled_block_diverge_without_touching_each_other():
    engine, history = make_engine(), prompt_of(2 * B + 3, 12)
    run(engine, {"first": history}, max_tokens=3)
    for seed in (1, 2, 3):
        engine.add_request(f"s{seed}", history, SamplingParams(temperature=1, seed=seed, max_tokens=9))
    engine.add_request("early", history[: B + 1], SamplingParams(temperature=1, seed=4, max_tokens=9))
    engine.step()
    tables = {table["request_id"]: table["blocks"] for table in engine.snapshot()["tables"]}
    heads = {tuple(tables[f"s{seed}"][:2]) for seed in (1, 2, 3)}
    assert len(heads) == 1
    first, second = next(iter(heads))
    assert (engine.kv.pool.ref_counts[first], engine.kv.pool.ref_counts[second]) == (4, 3)
    assert len({tables[f"s{seed}"][2] for seed in (1, 2, 3)}) == 3
    together, last = drain_with_first(engine)
    assert [last[f"s{seed}"].metrics.cached_tokens for seed in (1, 2, 3)] == [len(history) - 1] * 3
    assert all(count == 0 for count in engine.kv.pool.ref_counts)
    replies = set()
    for name, ids in together.items():
        seed, prompt = (4, history[: B + 1]) if name == "early" else (int(name[1]), history)
        alone = make_engine(enable_prefix_caching=False)
        alone.add_request("alone", prompt, SamplingParams(temperature=1, seed=seed, max_tokens=9))
        assert drain(alone)[0]["alone"] == ids
        replies.add(tuple(ids))
    assert len(replies) == 4


def drain_with_first(engine):
    """Ids and last outputs of requests whose first step already ran, ids taken from the requests themselves."""
    requests = {reply.request.request_id: reply.request for reply in engine._replies.values()}
    _, last = drain(engine)
    return {name: one.token_ids[one.num_prompt_tokens :] for name, one in requests.items()}, last


def test_a_running_reply_can_be_branched_while_it_grows():
    engine, history = make_engine(), prompt_of(B + 2, 13)
    engine.add_request("a", history, SamplingParams(temperature=0, max_tokens=20))
    for _ in range(4):
        engine.step()
    request = engine._replies["a"].request
    branch = [*request.token_ids[: request.num_computed - 1], 3]
    engine.add_request("b", branch, SamplingParams(temperature=0, max_tokens=12))
    _, last = drain(engine)
    assert last["b"].metrics.cached_tokens == len(branch) - 1
    assert request.token_ids[len(history) :] == cold(history, 20)


def test_a_fork_shares_the_tail_until_someone_writes_and_both_go_on_alone():
    engine, history = make_engine(), prompt_of(B + 2, 14)
    engine.add_request("a", history, SamplingParams(temperature=0, max_tokens=10))
    engine.step()
    source = engine._replies["a"].request
    engine.add_request("b", source.token_ids, SamplingParams(temperature=0, max_tokens=10, seed=5))
    target = engine._replies["b"].request
    engine.kv.fork(source, target)
    assert target.blocks == source.blocks and engine.kv.pool.state(source.blocks[-1]) == "shared"
    engine.scheduler.waiting.remove(target)
    engine.scheduler.running.append(target)
    target.state = source.state
    source.token_ids[-1] = (source.token_ids[-1] + 1) % 96  # identical writers would prove nothing
    expected = {"a": cold(source.token_ids, 9), "b": cold(target.token_ids, 10)}
    engine.step()
    assert source.blocks[-1] != target.blocks[-1]
    drain(engine)
    assert source.token_ids[len(history) + 1 :] == expected["a"]
    assert target.token_ids[target.num_prompt_tokens :] == expected["b"]


def test_two_equal_prompts_at_once_are_stored_once_and_survive_a_churning_third():
    engine, prompt = make_engine(num_blocks=14), prompt_of(3 * B, 15)
    for name in ("a", "b"):
        engine.add_request(name, prompt, SamplingParams(temperature=0, max_tokens=2 * B))
    engine.step()
    engine.step()
    tables = {table["request_id"]: table["blocks"] for table in engine.snapshot()["tables"]}
    assert tables["a"][:3] == tables["b"][:3], "the second waited for the first one's blocks"
    pair = [engine._replies[name].request for name in ("a", "b")]
    for turn in range(30):
        engine.add_request(f"churn{turn}", prompt_of(2 * B, 100 + turn), SamplingParams(temperature=0, max_tokens=1))
        engine.step()
    drain(engine)
    for request in pair:
        assert request.token_ids[len(prompt) :] == cold(prompt, 2 * B)


def test_equal_prompts_in_one_step_equal_their_solo_runs():
    engine, prompt = make_engine(), prompt_of(3 * B, 16)
    got = run(engine, dict.fromkeys("abcd", prompt), max_tokens=2 * B)
    assert all(ids == cold(prompt, 2 * B) for ids in got.values())


def test_nothing_is_published_before_it_is_computed_when_a_prefill_is_aborted_or_fails():
    prompt = prompt_of(6 * B, 17)
    for end in ("abort", "raise"):
        engine = make_engine(max_num_batched_tokens=2 * B, max_num_seqs=2)
        engine.runner.fail_at = {2} if end == "raise" else set()
        engine.add_request("first", prompt, SamplingParams(temperature=0, max_tokens=4))
        engine.step()
        if end == "abort":
            engine.cancel("first")
        _, last = drain(engine)
        assert last["first"].finish_reason == ("abort" if end == "abort" else "error")
        assert len(engine.kv.index) == 2
        ids, cached = cached_of(engine, prompt, max_tokens=4)
        assert cached == 2 * B
        assert ids == cold(prompt, 4)


def test_a_failed_copy_on_write_step_publishes_no_tail():
    engine, prompt = make_engine(), prompt_of(2 * B + 3, 18)
    run(engine, {"warm": prompt}, max_tokens=1)
    engine.runner.fail_at = {engine.runner.calls + 1}
    engine.add_request("bad", [*prompt[:-1], 50], SamplingParams(temperature=0, max_tokens=4))
    drain(engine)
    for again in ([*prompt[:-1], 50], prompt):
        assert cached_of(engine, again, f"again{again[-1]}")[0] == cold(again)


def test_after_a_failed_copy_on_write_step_a_chain_still_loses_its_tail_before_its_head():
    engine, prompt = make_engine(num_blocks=6), prompt_of(2 * B, 26)
    run(engine, {"warm": prompt}, max_tokens=1)
    engine.runner.fail_at = {engine.runner.calls + 1}
    engine.add_request("bad", [*prompt[: B + 2], 50, 51], SamplingParams(temperature=0, max_tokens=4))
    drain(engine)
    assert "copied" in {event["type"] for event in engine.events_since(0)}
    other = prompt_of(6 * B - 1, 27)
    assert run(engine, {"other": other}, max_tokens=1)["other"] == cold(other, 1)
    evicted = [event["parent"] for event in engine.events_since(0) if event["type"] == "evicted"]
    assert len(evicted) == 2 and evicted[0] is not None and evicted[1] is None


def test_a_prompt_that_fills_the_pool_can_be_sent_again():
    engine, prompt = make_engine(num_blocks=5), prompt_of(5 * B - 2, 19)
    first, _ = cached_of(engine, prompt, "one", max_tokens=2)
    again, cached = cached_of(engine, prompt, "two", max_tokens=2)
    assert again == first == cold(prompt, 2)
    assert cached == 4 * B


def test_salted_requests_do_not_share():
    engine, prompt = make_engine(), prompt_of(2 * B, 20)
    cached_of(engine, prompt, "a", salt="alice")
    assert cached_of(engine, prompt, "b", salt="bob")[1] == 0
    assert cached_of(engine, prompt, "c", salt="alice")[1] == 2 * B - 1


def test_without_prefix_caching_nothing_is_found_and_nothing_is_kept():
    engine, prompt = make_engine(enable_prefix_caching=False), prompt_of(3 * B, 21)
    run(engine, {"a": prompt})
    ids, cached = cached_of(engine, prompt)
    assert (cached, engine.kv.pool.num_cached) == (0, 0)
    assert ids == cold(prompt)


def test_many_sessions_over_a_small_pool_each_equal_their_solo_run():
    rng = random.Random(22)
    engine = make_engine(num_blocks=40, max_num_batched_tokens=16, max_num_seqs=4)
    histories = {f"s{i}": prompt_of(rng.randint(3, 14), 200 + i) for i in range(8)}
    for turn in range(5):
        got = run(engine, dict(histories), max_tokens=5)
        for name, ids in got.items():
            assert ids == cold(histories[name], 5)
            histories[name] = [*histories[name], *ids, *prompt_of(2, turn)]
    assert engine.stats()["cached_tokens"] > 0


def test_the_probe_promises_what_the_request_then_finds():
    engine, prompt = make_engine(), prompt_of(2 * B + 2, 23)
    assert engine.probe(prompt)["cached_tokens"] == 0
    run(engine, {"a": prompt})
    query = [*prompt[:-1], 77, 78]
    promised = engine.probe(query)
    assert promised == {
        "prompt_tokens": len(query),
        "cached_tokens": len(prompt) - 1,
        "to_compute": 2,
        "first_difference": len(prompt) - 1,
        "reason": "other_text",
    }
    assert cached_of(engine, query)[1] == promised["cached_tokens"]


def test_a_snapshot_with_its_later_events_gives_the_pool_exactly():
    engine = make_engine(num_blocks=24, max_num_batched_tokens=8, max_num_seqs=4)
    snapshot = engine.snapshot()
    state = {block["id"]: (block["ref_count"], block["state"][0]) for block in snapshot["blocks"]}
    shared = prompt_of(9, 24)
    for turn in range(6):
        engine.add_request(f"r{turn}", [*shared, *prompt_of(turn, 25)], SamplingParams(temperature=0, max_tokens=9))
        engine.step()
    drain(engine)
    events = engine.events_since(snapshot["seq"])
    assert {"allocated", "shared", "copied", "stored", "released"} <= {event["type"] for event in events}
    for event in events:
        for block, count, letter in zip(event["blocks"], event["ref_counts"], event["states"], strict=True):
            state[block] = (count, letter)
    now = engine.snapshot()
    assert state == {block["id"]: (block["ref_count"], block["state"][0]) for block in now["blocks"]}
    assert [event["seq"] for event in events] == list(range(snapshot["seq"] + 1, now["seq"] + 1))


def test_eight_chats_visited_in_turn_compute_only_what_is_new():
    engine = make_engine(num_blocks=1200, block_size=16, max_model_len=8192)
    histories = {f"chat{i}": prompt_of(2000, 400 + i) for i in range(8)}
    for turn in range(3):
        for name, history in histories.items():
            ids, cached = cached_of(engine, history, name, max_tokens=4)
            known = 0 if turn == 0 else len(history) - 21
            assert cached == known
            histories[name] = [*history, *ids, *prompt_of(20, turn)]
    assert engine.stats()["preemptions"] == 0
