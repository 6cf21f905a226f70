"""Forgetting a session: what only it had leaves the cache, to the token, and nothing else does."""

from __future__ import annotations

import json
import random

import pytest

from pagedchat.engine.cache_users import MOST_USERS
from pagedchat.engine.sampling_params import SamplingParams
from support.paged_model import cold, drain, make_engine, prompt_of, run

B = 4
SYSTEM = prompt_of(10, 1)


def say(engine, session: str, prompt: list[int], name: str = "", max_tokens: int = 6, **params) -> list[int]:
    """One whole turn of a session (of nobody if it has no name); the ids of prompt and reply."""
    name = name or f"{session}{engine._num_added}"
    labels = {"session": session, "message": f"message of {session}"} if session else {}
    engine.add_request(name, prompt, SamplingParams(temperature=0, max_tokens=max_tokens, **params), labels=labels)
    return [*prompt, *drain(engine)[0][name]]


def found(engine, tokens: list[int]) -> int:
    """Leading tokens that are cached."""
    return engine.kv.match(tokens).num_tokens(B)


def paths(engine) -> set[tuple[int, ...]]:
    """The whole sequence that each indexed block stands for the end of."""
    index = engine.kv.index
    ends = set()
    for block in index.blocks():
        node = before = index._owners[block][0]
        tokens = node.tokens
        while (before := before.parent) is not None:
            tokens = before.tokens + tokens
        ends.add(tokens)
    return ends


def test_a_session_alone_leaves_an_empty_pool():
    engine = make_engine()
    sent = say(engine, "a", prompt_of(21, 2))
    say(engine, "a", [*sent, 1, 2, 3])
    say(engine, "a", [*sent, 1, 5, 3])
    cached = engine.snapshot()["cached"]
    assert cached > 8
    assert engine.forget("a") == {"blocks": cached}
    snapshot = engine.snapshot()
    assert snapshot["free"] == snapshot["num_blocks"] and snapshot["conserved"]
    assert all(row["num_tokens"] == 0 for row in snapshot["blocks"])
    assert engine.probe(sent)["cached_tokens"] == 0 and engine.branch(sent)[0]["state"] == "missing"
    assert engine.forget("a") == {"blocks": 0}


@pytest.mark.parametrize("first", ["a", "b"])
def test_what_two_sessions_share_stays_until_both_are_forgotten(first):
    engine = make_engine()
    sent = {name: say(engine, name, [*SYSTEM, *prompt_of(9, seed)]) for seed, name in ((2, "a"), (3, "b"))}
    second = {"a": "b", "b": "a"}[first]
    hit = found(engine, sent[second])
    engine.forget(first)
    assert found(engine, sent[second]) == hit > len(SYSTEM)
    assert found(engine, sent[first]) == len(SYSTEM), "only what the other has, too, and that to the token"
    assert say(engine, second, [*sent[second], 7, 8])[-6:] == cold([*sent[second], 7, 8], 6)
    engine.forget(second)
    assert engine.snapshot()["free"] == engine.snapshot()["num_blocks"]


def test_of_a_block_that_another_needs_only_in_part_the_rest_is_forgotten():
    engine = make_engine()
    say(engine, "a", [1, 2, 3, 4, 5, 6, 7], max_tokens=4)
    say(engine, "b", [1, 2, 3, 4, 5, 6], max_tokens=1)
    engine.forget("a")
    assert found(engine, [1, 2, 3, 4, 5, 6, 7]) == 6
    assert paths(engine) == {(1, 2, 3, 4), (1, 2, 3, 4, 5, 6)}


def test_a_tail_that_another_session_goes_on_from_stays_that_long():
    engine = make_engine()
    sent = say(engine, "a", prompt_of(9, 2), max_tokens=2)  # 10 tokens are computed: two and a half blocks
    say(engine, "b", [*sent[:10], 5, 6, 7], max_tokens=3)
    hit = found(engine, sent)
    engine.forget("b")
    assert found(engine, sent) == hit == 10
    assert found(engine, [*sent[:10], 5, 6, 7]) == 10


def test_a_tail_that_another_sessions_full_block_stands_for_stays_as_long_as_it_was():
    engine, whole = make_engine(), [*prompt_of(9, 2), *cold(prompt_of(9, 2), 6)]
    engine.add_request("a", whole[:9], SamplingParams(temperature=0, max_tokens=3), labels={"session": "a"})
    engine.step()
    engine.step()
    engine.add_request("b", whole[:10], SamplingParams(temperature=0, max_tokens=5), labels={"session": "b"})
    drain(engine)
    assert max(map(len, paths(engine))) > 12 and tuple(whole[:11]) not in paths(engine), "b's block has both"
    engine.forget("b")
    assert found(engine, whole) == 11 and tuple(whole[:11]) in paths(engine)


def test_blocks_that_requests_without_a_session_use_are_nobodys_to_forget():
    engine = make_engine()
    nobody = say(engine, "", [*SYSTEM, *prompt_of(9, 2)])
    named = say(engine, "a", [*SYSTEM, *prompt_of(9, 3)])
    before = found(engine, nobody)
    engine.forget("a")
    assert found(engine, nobody) == before and found(engine, named) == len(SYSTEM)
    events = engine.events_since(0)
    assert engine.forget("") == {"blocks": 0} and found(engine, nobody) == before
    assert engine.events_since(0) == events and not engine._forgetting


def test_under_another_salt_the_same_words_stay():
    engine = make_engine()
    engine.add_request("salted", SYSTEM, SamplingParams(temperature=0, max_tokens=3), salt="key")
    drain(engine)
    say(engine, "a", SYSTEM)
    engine.forget("a")
    assert found(engine, SYSTEM) == 0 and engine.probe(SYSTEM, "key")["cached_tokens"] == len(SYSTEM) - 1


def test_what_a_running_request_holds_goes_when_it_has_ended():
    engine = make_engine()
    old = say(engine, "a", [*SYSTEM, *prompt_of(9, 2)])
    labels = {"session": "a"}
    engine.add_request("runs", [*SYSTEM, 1, 2, 3], SamplingParams(temperature=0, max_tokens=50), labels=labels)
    engine.step()
    assert engine.forget("a")["blocks"] > 0
    assert found(engine, old) == len(SYSTEM) and engine.snapshot()["conserved"]
    engine.step()
    engine.cancel("runs")
    drain(engine)
    assert engine.snapshot()["free"] == engine.snapshot()["num_blocks"]
    assert "a" not in {event["labels"].get("session") for event in engine.events_since(0) or []}
    say(engine, "a", SYSTEM)
    assert found(engine, SYSTEM) == len(SYSTEM), "a session that comes back is kept again"


def test_samples_and_waiting_requests_leave_nothing_either():
    engine = make_engine(12, max_num_seqs=2)
    for number in range(4):
        params = SamplingParams(temperature=1, seed=number, max_tokens=9, n=2)
        engine.add_request(f"r{number}", [*SYSTEM, number], params, labels={"session": "a"})
    for _ in range(3):
        engine.step()
    engine.forget("a")
    drain(engine)
    assert engine.snapshot()["free"] == 12 and engine.snapshot()["conserved"]


def test_a_pin_of_what_only_this_session_begins_with_goes_and_others_stay():
    engine = make_engine(80)
    engine.pin("mine", SYSTEM)
    drain(engine)
    engine.pin("another", prompt_of(10, 7))
    drain(engine)
    say(engine, "a", [*SYSTEM, 1, 2, 3])
    say(engine, "b", [*SYSTEM, 1, 5])
    engine.forget("a")
    assert [one["name"] for one in engine.stats()["pins"]] == ["mine", "another"], "b begins with it, too"
    engine.forget("b")
    assert [one["name"] for one in engine.stats()["pins"]] == ["another"]
    assert found(engine, SYSTEM) == 0 and engine.snapshot()["pinned"] == 3


def test_a_pin_that_somebody_without_a_session_uses_stays():
    engine = make_engine(80)
    engine.pin("system", SYSTEM)
    drain(engine)
    say(engine, "", [*SYSTEM, 8, 8])
    say(engine, "a", [*SYSTEM, 1, 2, 3])
    engine.forget("a")
    assert [one["name"] for one in engine.stats()["pins"]] == ["system"] and found(engine, SYSTEM) == len(SYSTEM)


def test_nothing_that_is_told_afterwards_names_the_session():
    engine = make_engine(16)
    for number in range(4):
        say(engine, "sessionA", prompt_of(20, number), name=f"requestA{number}")
        say(engine, "sessionB", prompt_of(20, 50 + number), name=f"requestB{number}")
    engine.add_request("writer", [*SYSTEM, 1], SamplingParams(max_tokens=3), labels={"session": "sessionA"})
    engine.add_request("waits", [*SYSTEM, 2], SamplingParams(max_tokens=3), labels={"session": "sessionB"})
    drain(engine)
    before = engine.events_since(0) or []
    shapes = [{**event, "labels": {}, "request_id": None} for event in before]
    assert any(one["detail"] == "writer" for row in engine.requests() for one in row["timeline"])
    engine.forget("sessionA")
    told = json.dumps([engine.events_since(0), engine.drain_events(), engine.requests(), engine.snapshot()])
    assert not any(word in told for word in ("sessionA", "requestA", "message of sessionA", "writer"))
    assert told.count("sessionB") > 20
    after = [{**event, "labels": {}, "request_id": None} for event in engine.events_since(0) or []]
    assert after[: len(shapes)] == shapes and [one["seq"] for one in after] == list(range(1, len(after) + 1))


def test_nobody_can_tell_any_more_that_it_was_computed():
    engine = make_engine(8)
    secret, shared = prompt_of(16, 2), prompt_of(8, 3)
    say(engine, "a", secret, max_tokens=2)
    say(engine, "a", shared, max_tokens=2)
    say(engine, "b", shared, max_tokens=2)
    for seed in range(9, 14):
        run(engine, {f"other{seed}": prompt_of(16, seed)}, 2)
    assert engine.probe(secret)["reason"] == engine.probe(shared)["reason"] == "evicted"
    engine.forget("a")
    assert engine.probe(secret)["reason"] == "not_computed" and engine.probe(shared)["reason"] == "evicted"


def test_a_block_that_very_many_sessions_end_at_is_everybodys():
    engine = make_engine(2048)
    for number in range(MOST_USERS + 1):
        say(engine, f"s{number}", SYSTEM[:9], max_tokens=1)
    for number in range(MOST_USERS + 1):
        engine.forget(f"s{number}")
    assert found(engine, SYSTEM[:9]) == 9 and engine.kv.users._nodes.keys() == {""}


def test_a_request_that_keeps_nothing_uses_what_is_cached_and_leaves_it_as_it_was():
    engine = make_engine()
    sent = say(engine, "a", prompt_of(22, 2), max_tokens=5)
    before, rows = paths(engine), engine.snapshot()["cached"]
    for number, prompt in enumerate(([*sent, 1, 2, 3], sent[:26], sent[:9], prompt_of(30, 5))):
        params = SamplingParams(temperature=0, max_tokens=11)
        engine.add_request(f"aside{number}", prompt, params, labels={"session": "a"}, keep=False)
        ids, last = drain(engine)
        assert ids[f"aside{number}"] == cold(prompt, 11)
        assert last[f"aside{number}"].metrics.cached_tokens == min(found(engine, prompt), len(prompt) - 1)  # type: ignore[union-attr]
        assert paths(engine) == before and engine.snapshot()["cached"] == rows
    assert engine.probe(prompt_of(30, 5))["reason"] == "not_computed"


def test_what_a_request_that_keeps_nothing_looks_at_is_given_up_when_it_has_ended():
    engine = make_engine()
    sent = say(engine, "a", prompt_of(21, 2))
    params = SamplingParams(temperature=0, max_tokens=9)
    engine.add_request("aside", [*sent[:-1], 1, 2, 3], params, labels={"session": "a"}, keep=False)
    engine.step()
    free, done = engine.snapshot()["free"], engine.forget("a")
    assert engine.snapshot()["free"] == free + done["blocks"]
    drain(engine)
    assert engine.snapshot()["free"] == engine.snapshot()["num_blocks"] and not engine._forgetting


def test_nobody_waits_for_what_a_request_computes_that_keeps_nothing():
    engine = make_engine(max_num_batched_tokens=8, max_num_seqs=4)
    engine.add_request("aside", prompt_of(60, 2), SamplingParams(temperature=0, max_tokens=2), priority=10, keep=False)
    engine.step()
    engine.add_request("chat", [*prompt_of(60, 2), 1], SamplingParams(temperature=0, max_tokens=2))
    engine.step()
    assert not engine.scheduler.num_pending and engine._replies["chat"].request.num_computed
    assert drain(engine)[0]["chat"] == cold([*prompt_of(60, 2), 1], 2)


@pytest.mark.parametrize(("seed", "windows"), [(seed, (None,)) for seed in range(6)] + [(9, (None, 6)), (8, (5,))])
def test_random_sessions_with_shared_beginnings_forget_all_and_only_what_is_theirs(seed, windows):
    """Chats under two system prompts, branches, copies of other chats and samples; then some are forgotten."""
    rng = random.Random(seed)
    engine = make_engine(1200, max_num_seqs=4, max_num_batched_tokens=24, windows=windows)
    chats: dict[str, list[list[int]]] = {name: [prompt_of(rng.randrange(6, 14), rng.randrange(2))] for name in "abcde"}
    had: dict[str, list[tuple[int, ...]]] = {name: [] for name in chats}
    for turn in range(14):
        names = rng.sample(sorted(chats), rng.randrange(1, 4))
        for name in names:
            begin = rng.choice(chats[rng.choice(sorted(chats))] if rng.random() < 0.2 else chats[name])
            begin = begin[: rng.randrange(len(begin) // 2, len(begin)) + 1] if rng.random() < 0.3 else begin
            prompt = [*begin, *(rng.randrange(3) for _ in range(rng.randrange(1, 7)))]
            params = SamplingParams(temperature=0.7, seed=turn, max_tokens=rng.randrange(1, 7), n=rng.choice([1, 1, 2]))
            engine.add_request(f"{name}{turn}", prompt, params, labels={"session": name})
        seen = {}
        while engine.has_unfinished():
            live = [(one.labels["session"], one.request_id, one) for one in engine._requests()]
            engine.step()
            seen |= {request_id: (name, one) for name, request_id, one in live}
        for name, one in seen.values():
            chats[name].append(list(one.token_ids))
            had[name].append(tuple(one.token_ids[: one.num_tokens - 1]))
    for name in rng.sample(sorted(chats), 4):
        others = {one: list(had[one]) for one in had if one != name}
        before = {tokens: found(engine, list(tokens)) for every in others.values() for tokens in every}
        engine.forget(name)
        had.pop(name)
        assert before == {tokens: found(engine, list(tokens)) for tokens in before}, "others find what they found"
        kept = {tokens[:end] for every in had.values() for tokens in every for end in range(len(tokens) + 1)}
        assert paths(engine) <= kept, "nothing is left that only it had"
        assert engine.snapshot()["conserved"] and not engine.kv.users.knows(name)


@pytest.mark.parametrize("seed", range(4))
def test_in_a_pool_that_is_too_small_nothing_is_left_either(seed):
    rng = random.Random(seed)
    engine = make_engine(18, max_num_seqs=5)
    had: dict[str, list[tuple[int, ...]]] = {name: [] for name in "abc"}
    for turn in range(8):
        seen = {}
        for name in "abc":
            prompt = [*SYSTEM, *prompt_of(rng.randrange(2, 16), rng.randrange(4))]
            engine.add_request(
                f"{name}{turn}", prompt, SamplingParams(temperature=0, max_tokens=22), labels={"session": name}
            )
        while engine.has_unfinished():
            seen |= {one.request_id: one for one in engine._requests()}
            engine.step()
        for one in seen.values():
            had[one.labels["session"]].append(tuple(one.token_ids))
    assert engine.stats()["preemptions"]
    for name in "abc":
        engine.forget(name)
        had.pop(name)
        kept = {tokens[:end] for every in had.values() for tokens in every for end in range(len(tokens) + 1)}
        assert paths(engine) <= kept
    assert engine.snapshot()["free"] == 18
