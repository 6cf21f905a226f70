"""``deterministic``: the same to the bit alone and in company, in chunks of any size, after any hit, in bfloat16."""

from __future__ import annotations

import random

import pytest
import torch

from pagedchat.engine import runner as runner_module
from pagedchat.engine.config import EngineConfig
from pagedchat.engine.engine import Engine
from pagedchat.engine.runner import ModelRunner
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.kernels.reference import ReferenceKernels
from support.fake_checkpoint import checkpoint_of, tiny_llama
from support.paged_model import ByteTokenizer

SEED = random.Random(4)
LONG = [SEED.randrange(96) for _ in range(300)]
PROMPT = LONG[:45]
OTHERS = [[SEED.randrange(96) for _ in range(size)] for size in (3, 60, 17, 31)]

Replies = list[tuple[int, float, list[float]]]


def engine_over(deterministic: bool, **settings) -> Engine:
    runner = ModelRunner.load(
        checkpoint_of(tiny_llama(initializer_range=0.4, max_position_embeddings=512, head_dim=64)),
        device="cpu",
        dtype="bfloat16",
        block_size=4,
        num_blocks_for=lambda *_: 200,
        deterministic=deterministic,
    )
    config = EngineConfig(model="tiny", block_size=4, num_blocks=200, **settings)
    return Engine(config, runner=runner, tokenizer=ByteTokenizer(), num_blocks=200)  # type: ignore[arg-type]


def reply(engine: Engine, company: list[list[int]], prompt: list[int] = PROMPT) -> Replies:
    """Ids and log probabilities of a reply to the prompt, asked for while others run."""
    for index, other in enumerate(company):
        params = SamplingParams(temperature=0, max_tokens=20 + index, ignore_eos=True)
        engine.add_request(f"other{index}", other, params)
    for _ in range(2 if company else 0):
        engine.step()
    engine.add_request("main", prompt, SamplingParams(temperature=0, max_tokens=12, ignore_eos=True, logprobs=5))
    told: Replies = []
    while engine.has_unfinished():
        for output in engine.step():
            if output.request_id == "main":
                told += [(one.token_id, one.logprob, [top.logprob for top in one.top]) for one in output.logprobs or []]
    return told


@pytest.mark.parametrize("kernels", ["plain torch", "compiled"])
def test_the_same_bits_whatever_runs_beside_and_however_the_prompt_is_cut(kernels, monkeypatch):
    if kernels == "plain torch":
        monkeypatch.setattr(
            runner_module, "choose_kernels", lambda device, dtype, threads: ReferenceKernels(device, dtype)
        )
    is_plain = kernels == "plain torch"  # which takes its time: less of everything
    prompt, others = (PROMPT, OTHERS[::2]) if is_plain else (LONG, OTHERS)
    expected = reply(engine_over(True), [], prompt)
    assert len(expected) == 12
    chunks = ({}, {"max_num_batched_tokens": 7, "max_num_seqs": 6}, {"max_num_batched_tokens": 33})
    for settings in chunks[:2] if is_plain else chunks:
        engine = engine_over(True, **settings)
        assert reply(engine, others, prompt) == expected
        assert reply(engine, [], prompt) == expected, "and when all but one token is found"
        assert engine.stats()["cached_tokens"] >= len(prompt) - 1
        engine = engine_over(True, **settings)
        assert reply(engine, [prompt[:19] + others[0]], prompt) == expected, "and when another brought a part of it"


def test_without_it_rounding_depends_on_the_chunks():
    told = []
    for settings in ({}, {"max_num_batched_tokens": 5, "max_num_seqs": 5}):
        engine = engine_over(True, **settings)  # which waits for the compiled kernels
        engine.runner.decoder.deterministic = False
        told.append(reply(engine, [], LONG))
    assert told[0] != told[1], "else this file tests nothing"


def test_its_cost_is_told(monkeypatch):
    monkeypatch.setattr(runner_module, "choose_kernels", lambda device, dtype, threads: ReferenceKernels(device, dtype))
    assert "times as long" in engine_over(True).info()["reason"]
    assert "times as long" not in engine_over(False).info()["reason"]


def test_no_row_of_a_step_without_samples_is_lost(monkeypatch):
    monkeypatch.setattr(
        runner_module, "choose_kernels", lambda device, dtype, threads: ReferenceKernels(device, torch.float32)
    )
    engine = engine_over(True, max_num_batched_tokens=8, max_num_seqs=4)
    assert [one[0] for one in reply(engine, [])] == [one[0] for one in reply(engine_over(True), [])]
