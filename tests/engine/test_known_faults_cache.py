"""Ways in which prefix caches went wrong elsewhere, played on this one: foreign, stale, doubled and lost blocks."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from pagedchat.engine.errors import RequestError
from pagedchat.engine.sampling_params import SamplingParams
from support.paged_model import CheckedEngine, cold, drain, greedy, make_engine, prompt_of, run

B = 4


def note_batches(engine: CheckedEngine) -> list[Any]:
    """The batches that the model will be given."""
    batches: list[Any] = []
    real = engine.runner.execute

    def execute(batch: Any) -> np.ndarray:
        batches.append(batch)
        return real(batch)

    engine.runner.execute = execute  # type: ignore[method-assign]
    return batches


# -- a prompt that is cached whole -------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [B, 2 * B, 3 * B, 2 * B - 1, 2 * B + 1])
def test_a_prompt_that_hits_whole_runs_its_last_token_and_leaves_a_running_sharer_alone(length: int) -> None:
    engine, prompt = make_engine(), prompt_of(length, 1)
    engine.add_request("runs", prompt, greedy(30))
    for _ in range(3):
        engine.step()
    sharer = engine._replies["runs"].request
    blocks = list(sharer.blocks)
    before = engine.runner.cache[blocks].reshape(-1)[: sharer.num_computed].copy()
    batches = note_batches(engine)
    engine.add_request("again", prompt, greedy(8))
    engine.step()
    assert list(sharer.blocks)[: len(blocks)] == blocks
    assert engine.runner.cache[blocks].reshape(-1)[: len(before)].tolist() == before.tolist()
    counts = np.diff(batches[0].attention.query_start).tolist()
    starts = batches[0].attention.positions[batches[0].attention.query_start[:-1]].tolist()
    assert counts == [1, 1] and starts == [length + 2, length - 1]
    reply = sharer.token_ids
    drain(engine)
    assert reply[length:] == cold(prompt, 30)
    assert engine.probe(prompt)["cached_tokens"] == length - 1


# -- two writers of one content ----------------------------------------------------------------------------------------


def test_a_prompt_that_two_requests_computed_at_once_is_kept_once_and_both_go_on_among_others() -> None:
    engine, prompt = make_engine(14), prompt_of(3 * B, 2)
    for name in "ab":  # who asks for the logprobs of a prompt waits for nobody: both compute all of it
        engine.add_request(name, prompt, greedy(2 * B, prompt_logprobs=0))
    batches = note_batches(engine)
    engine.step()
    assert engine.runner.rows == [2 * len(prompt)]
    written = batches[0].attention.slot_mapping // B
    assert len(set(written.tolist())) == 6, "each wrote to blocks of its own"
    first, second = (engine._replies[name].request for name in "ab")
    assert list(first.blocks) == list(second.blocks) and engine.kv.pool.num_active == 3
    for turn in range(40):
        engine.add_request(f"churn{turn}", prompt_of(2 * B, 100 + turn), greedy(1))
        engine.step()
        held = [block for request in (first, second) for block in request.blocks if request.num_computed]
        assert all(engine.kv.pool.state(block) in ("active", "shared") for block in held)
    drain(engine)
    for request in (first, second):
        assert request.token_ids[len(prompt) :] == cold(prompt, 2 * B)
    assert not any(engine.kv.pool.ref_counts)


# -- blocks that are never given back ----------------------------------------------------------------------------------


class Life:
    """Hundreds of requests of every kind over a small pool, ended in every way there is."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.engine = make_engine(24, max_num_batched_tokens=8, max_num_seqs=8, end_turns=True)
        self.known = [prompt_of(self.rng.randint(4, 24), 300 + one) for one in range(6)]
        self.reasons: dict[str, list[str]] = {}
        self.aborted = dict.fromkeys(("waiting", "pending", "prefill", "decode", "preempted", "samples", "finished"), 0)
        self.refused_allocations = 0

    def add(self, number: int) -> None:
        prompt = [*self.rng.choice(self.known), *prompt_of(self.rng.choice([0, 0, 2, 12]), number % 7)]
        params = SamplingParams(
            temperature=self.rng.choice([0, 1]),
            seed=number,
            n=self.rng.choice([1, 1, 1, 3]),
            max_tokens=self.rng.randint(1, 16),
            stop=["ab", "~"] if number % 3 else [],
        )
        self.engine.add_request(f"r{number}", prompt, params, salt=self.rng.choice(["", "", "x"]))

    def step(self) -> None:
        for output in self.engine.step():
            if output.finish_reason:
                self.reasons.setdefault(output.request_id, []).append(output.finish_reason)

    def abort_one(self) -> None:
        """Cancel a request in the rarest state there is now, twice, an ended one, and one that there never was."""
        engine = self.engine
        found = self._one_of_each()
        if found:
            state = min(found, key=lambda one: self.aborted[one])
            assert engine.cancel(found[state].parent_id)
            assert not engine.cancel(found[state].parent_id)
            self.aborted[state] += 1
        ended = next(iter(self.reasons), None)
        if ended is not None and ended not in engine._samples:
            assert not engine.cancel(ended)
            self.aborted["finished"] += 1
        assert not engine.cancel("never there")

    def _one_of_each(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        scheduler = self.engine.scheduler
        pending = [one for one in scheduler.waiting if one.pending_on is not None]
        for request in pending:
            found.setdefault("pending", request)
        for request in scheduler.waiting.candidates():
            if request not in pending:
                state = "preempted" if request.metrics.preemptions else "waiting"
                found.setdefault(state, request)
        for request in scheduler.running:
            decoding = len(request.token_ids) - request.num_computed == 1 and request.num_output_tokens
            state = "decode" if decoding else "prefill"
            found.setdefault("samples" if request.params.n > 1 and decoding else state, request)
        pins = [state for state, request in found.items() if request.request_id.startswith("pin:")]
        return {one: request for one, request in found.items() if one not in pins and self.aborted[one] < 20}

    def refuse_an_allocation(self) -> None:
        """The next slots asked for are refused although there are some."""
        kv, real = self.engine.kv, self.engine.kv.append_slots

        def refuse(request: Any, num_tokens: int) -> bool:
            kv.append_slots = real  # type: ignore[method-assign]
            self.refused_allocations += 1
            return False

        kv.append_slots = refuse  # type: ignore[method-assign]


def test_whatever_ends_a_request_its_blocks_come_back() -> None:
    life = Life(5)
    engine, number = life.engine, 0
    engine.pin("system", prompt_of(7, 1))
    for turn in range(2500):
        if number >= 500 and min(count for state, count in life.aborted.items() if state != "pending") >= 20:
            break
        if len(engine.scheduler.waiting) < 8:
            life.add(number)
            number += 1
        if turn % 2 == 0:
            life.abort_one()
        if turn % 97 == 0:
            engine.runner.fail_at = {engine.runner.calls + 1}
        if turn % 40 == 0:
            life.refuse_an_allocation()
        if turn % 50 == 25:
            engine.pin("other", prompt_of(6, 2)) if turn % 100 == 25 else engine.unpin("other")
        life.step()
    for number in range(1000, 1030):  # two wait for what the first of them computes
        while engine.has_unfinished():
            life.step()
        for name in ("first", "second", "third"):
            engine.add_request(f"{name}{number}", prompt_of(7, number), greedy(3))
        life.step()
        life.abort_one()
    while engine.has_unfinished():
        life.step()
    assert min(life.aborted.values()) >= 20, life.aborted
    assert life.refused_allocations >= 10
    assert len(life.reasons) >= 500 and not engine._replies and not engine._samples
    assert {one for ends in life.reasons.values() for one in ends} == {"length", "stop", "abort", "error"}
    snapshot, pool = engine.snapshot(), engine.kv.pool
    assert snapshot["active"] == snapshot["shared"] == 0 and not any(pool.ref_counts)
    assert snapshot["free"] + snapshot["cached"] == snapshot["num_blocks"] == 24 and snapshot["conserved"]
    assert snapshot["tables"] == []
    whole = prompt_of(24 * B - 3, 99)
    assert run(engine, {"whole": whole}, 2)["whole"] == cold(whole, 2, end_turns=True)
    assert engine.stats()["pins"] == [], "a pin gives way to it"


def test_an_id_is_in_use_until_the_last_of_its_samples_has_ended() -> None:
    engine, prompt = make_engine(60, end_turns=True), prompt_of(6, 4)
    for seed in range(8):
        engine.add_request("a", prompt, SamplingParams(temperature=1, seed=seed, n=4, max_tokens=40))
        while engine.has_unfinished() and engine._samples["a"].num_unfinished == 4:
            engine.step()
        while engine.has_unfinished():
            with pytest.raises(RequestError, match="already running"):
                engine.add_request("a", prompt, greedy(3))
            engine.step()
        assert engine.snapshot()["active"] == 0 and not engine._replies and not engine._samples


# -- replies that go on with another chat ------------------------------------------------------------------------------


def test_no_chat_ever_reads_what_another_was_told() -> None:
    rng = random.Random(6)
    engine = make_engine(48, max_num_batched_tokens=16, max_num_seqs=4)
    secrets = {f"s{one}": [90, 80 + one, 70 + one, 60 + one, 91] for one in range(8)}
    chats = {name: [*prompt_of(9, 5), *secret, *prompt_of(4, 7)] for name, secret in secrets.items()}
    for turn in range(5):
        for name, chat in chats.items():
            engine.add_request(name, chat, greedy(rng.randint(3, 8)), labels={"session": name})
        replies, last = drain(engine)
        for name, ids in replies.items():
            assert ids == cold(chats[name], len(ids))
            metrics = last[name].metrics
            assert metrics is not None
            assert metrics.cached_tokens + metrics.computed_tokens == metrics.prompt_tokens == len(chats[name])
            assert metrics.cached_tokens >= (9 if turn else 0) or engine.stats()["preemptions"]
            chats[name] = [*chats[name], *ids, *prompt_of(3, turn)]
    assert engine.stats()["cached_tokens"] > 8 * 9


# -- background work ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_title_costs_the_next_turn_neither_its_cache_nor_its_time(steps: int) -> None:
    first, question = prompt_of(26, 8), prompt_of(5, 9)
    engine = make_engine(15, max_num_batched_tokens=16, max_num_seqs=4)
    reply = run(engine, {"one": first}, 10)["one"]
    engine.add_request("title", [*first, *reply, *prompt_of(8, 10)], greedy(12), priority=1)
    for _ in range(steps):
        engine.step()
    second = [*first, *reply, *question]
    assert len(second) + 8 > 11 * B, "the pool has hardly room for anything else"
    engine.add_request("two", second, greedy(8))
    at_once = [output.request_id for output in engine.step() if output.token_ids]
    assert "two" in at_once
    ids, last = drain(engine)
    metrics = last["two"].metrics
    assert metrics is not None and metrics.cached_tokens >= len(first) + len(reply) - 1
    assert metrics.preemptions == 0
    assert last["title"].finish_reason == "length"
    assert ids["two"] == cold(second, 8)[1:], "the title is no part of the chat"
