"""Several samples of one request: the prompt is computed and stored once, each sample is as if it were alone."""

from __future__ import annotations

import pytest

from pagedchat.engine.llm import LLM
from pagedchat.engine.sampling_params import SamplingParams
from support.paged_model import make_engine, prompt_of

B = 4


def drain_samples(engine) -> tuple[dict[tuple[str, int], list[int]], list]:
    """Ids by (request, sample), and all outputs in order."""
    ids, outputs = {}, []
    for _ in range(10_000):
        if not engine.has_unfinished():
            return ids, outputs
        for output in engine.step():
            outputs.append(output)
            ids.setdefault((output.request_id, output.index), []).extend(output.token_ids)
    raise AssertionError("the engine does not come to an end")


def alone(prompt: list[int], seed: int, max_tokens: int) -> list[int]:
    engine = make_engine(512, enable_prefix_caching=False)
    engine.add_request("a", prompt, SamplingParams(temperature=1, seed=seed, max_tokens=max_tokens))
    return drain_samples(engine)[0]["a", 0]


@pytest.mark.parametrize("length", [1, B - 1, B, 2 * B + 3])
@pytest.mark.parametrize("caching", [True, False])
def test_each_sample_equals_the_request_with_its_seed_alone(length, caching):
    engine, prompt = make_engine(100, enable_prefix_caching=caching), prompt_of(length, length)
    engine.add_request("a", prompt, SamplingParams(temperature=1, seed=40, n=4, max_tokens=3 * B))
    ids, outputs = drain_samples(engine)
    assert ids == {("a", index): alone(prompt, 40 + index, 3 * B) for index in range(4)}
    assert sum(engine.runner.rows) == length + 4 * (3 * B - 1), "the prompt is computed once"
    endings = [output for output in outputs if output.finish_reason]
    assert [output.more for output in endings] == [True, True, True, False]
    assert engine.snapshot()["active"] == 0


def test_samples_share_the_prompts_blocks_and_copy_only_its_tail():
    engine, prompt = make_engine(100), prompt_of(2 * B + 3, 1)
    engine.add_request("a", prompt, SamplingParams(temperature=1, seed=1, n=4, max_tokens=20))
    engine.step()
    tables = {table["request_id"]: table["blocks"] for table in engine.snapshot()["tables"]}
    assert len(tables) == 4 and len({tuple(blocks) for blocks in tables.values()}) == 1
    assert engine.snapshot()["active"] == 3, "three blocks for four samples"
    engine.step()
    tables = {table["request_id"]: table["blocks"] for table in engine.snapshot()["tables"]}
    assert len({blocks[2] for blocks in tables.values()}) == 4
    assert len({tuple(blocks[:2]) for blocks in tables.values()}) == 1
    assert all(engine.kv.pool.ref_counts[block] == 4 for block in tables["a"][:2])
    copied = [event for event in engine.drain_events() if event["type"] == "copied"]
    assert len(copied) == 3, "the last writer keeps the original"


def test_samples_without_a_seat_run_when_there_is_one():
    engine, prompt = make_engine(100, max_num_seqs=2), prompt_of(9, 3)
    engine.add_request("a", prompt, SamplingParams(temperature=1, seed=7, n=5, max_tokens=6))
    ids, _ = drain_samples(engine)
    assert ids == {("a", index): alone(prompt, 7 + index, 6) for index in range(5)}


def test_samples_that_come_later_find_the_prompt_though_its_logits_are_wanted():
    engine, prompt = make_engine(100, max_num_seqs=1), prompt_of(20, 3)
    engine.add_request("a", prompt, SamplingParams(temperature=1, seed=7, n=3, max_tokens=1, prompt_logprobs=0))
    ids, outputs = drain_samples(engine)
    assert ids == {("a", index): alone(prompt, 7 + index, 1) for index in range(3)}
    assert engine.runner.rows == [20, 1, 1]
    assert [len(output.prompt_logprobs or []) for output in outputs] == [20, 0, 0]


def test_samples_survive_a_shortage_of_blocks():
    engine, prompt = make_engine(9), prompt_of(9, 3)
    engine.add_request("a", prompt, SamplingParams(temperature=1, seed=7, n=4, max_tokens=16))
    ids, _ = drain_samples(engine)
    assert engine.stats()["preemptions"] > 0
    assert ids == {("a", index): alone(prompt, 7 + index, 16) for index in range(4)}


def test_the_prompt_counts_once_and_cancelling_ends_all():
    engine, prompt = make_engine(100), prompt_of(10, 4)
    engine.add_request("a", prompt, SamplingParams(temperature=1, n=3, max_tokens=50))
    engine.step()
    stats = engine.stats()
    assert (stats["prompt_tokens"], stats["cached_tokens"]) == (10, 0)
    assert engine.cancel("a") and not engine.cancel("a")
    ended = engine.step()
    assert [(output.index, output.finish_reason) for output in ended] == [(0, "abort"), (1, "abort"), (2, "abort")]
    assert not engine.has_unfinished() and engine.snapshot()["active"] == 0
    engine.add_request("a", prompt, SamplingParams(temperature=0, n=2, max_tokens=2))
    assert engine.cancel("a"), "also while it waits"
    assert len(engine.step()) == 2


def test_a_step_that_fails_in_the_prompt_ends_every_sample():
    engine = make_engine(100, max_num_batched_tokens=4, max_num_seqs=4)
    engine.runner.fail_at = {2}
    engine.add_request("a", prompt_of(10, 4), SamplingParams(temperature=1, n=3, max_tokens=5))
    _, outputs = drain_samples(engine)
    assert [(output.index, output.finish_reason) for output in outputs] == [(0, "error"), (1, "error"), (2, "error")]
    assert all("failed on purpose" in output.error for output in outputs)
    assert engine.snapshot()["active"] == 0


def test_a_first_sample_that_ends_at_once_leaves_the_others_their_prompt():
    engine, prompt = make_engine(100), prompt_of(10, 4)
    engine.add_request("a", prompt, SamplingParams(temperature=1, seed=1, n=3, max_tokens=1))
    ids, _ = drain_samples(engine)
    assert ids == {("a", index): alone(prompt, 1 + index, 1) for index in range(3)}
    assert sum(engine.runner.rows) == 10


def test_the_library_gives_one_output_a_sample():
    model = LLM.__new__(LLM)
    model.engine, model._count = make_engine(100), 0
    (result,) = model.generate([prompt_of(10, 6)], SamplingParams(temperature=1, seed=3, n=3, max_tokens=4))
    assert [one.index for one in result.outputs] == [0, 1, 2]
    assert [one.token_ids for one in result.outputs] == [alone(prompt_of(10, 6), 3 + index, 4) for index in range(3)]
    assert result.metrics is not None and result.metrics.prompt_tokens == 10
