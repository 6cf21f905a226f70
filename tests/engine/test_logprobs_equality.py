"""Log probabilities of a real (random) model equal transformers', in chunks, beside others and through the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pagedchat.engine.config import EngineConfig
from pagedchat.engine.engine import Engine
from pagedchat.engine.runner import ModelRunner
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.types import RequestOutput
from support.fake_checkpoint import checkpoint_of, tiny_llama
from support.sampling import vocabulary

VOCAB = 97


def engine_over(model: Any, **settings: Any) -> Engine:
    runner = ModelRunner.load(
        checkpoint_of(model), device="cpu", dtype="float32", block_size=4, num_blocks_for=lambda *_: 128
    )
    config = EngineConfig("tiny", block_size=4, num_blocks=128, **settings)
    return Engine(config, runner=runner, tokenizer=vocabulary(VOCAB), num_blocks=128)


def expected(model: Any, ids: list[int]) -> np.ndarray:
    """float32 [tokens - 1, vocab]: of what follows each token."""
    with torch.inference_mode():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0].float(), dim=-1).numpy()[:-1]


@pytest.mark.parametrize("chunk", [5, 512])
def test_prompt_and_reply_logprobs_equal_transformers(chunk: int) -> None:
    model = tiny_llama()
    engine = engine_over(model, max_num_batched_tokens=chunk, max_num_seqs=5)
    rng = np.random.default_rng(4)
    prompts = {str(length): rng.integers(VOCAB, size=length).tolist() for length in (1, 2, 9, 30)}
    controls = {"logprobs": 4, "prompt_logprobs": 2, "temperature": 0.7, "top_k": 3, "seed": 1, "max_tokens": 6}
    outputs: list[RequestOutput] = []
    for _ in range(2):  # the second time all of it is cached, and computed again nevertheless
        outputs = []
        for name, prompt in prompts.items():
            engine.add_request(name, prompt, SamplingParams(**controls, repetition_penalty=1.3))
        while engine.has_unfinished():
            outputs += engine.step()
    for name, prompt in prompts.items():
        own = [one for one in outputs if one.request_id == name]
        reply = [token for one in own for token in one.token_ids]
        told = [*(own[0].prompt_logprobs or []), *(each for one in own for each in one.logprobs or [])]
        assert told[0] is None and len(told) == len(prompt) + len(reply) == len(prompt) + 6
        for entry, token, row in zip(told[1:], [*prompt[1:], *reply], expected(model, prompt + reply), strict=True):
            assert entry is not None and entry.token_id == token
            assert entry.logprob == pytest.approx(row[token], abs=2e-4)
            top = np.sort(row)[::-1][: len(entry.top)]
            assert [one.logprob for one in entry.top] == pytest.approx(top, abs=2e-4)
            assert abs(entry.rank - 1 - np.count_nonzero(row > row[token] + 2e-4)) <= np.count_nonzero(
                np.abs(row - row[token]) <= 2e-4
            )
        assert own[-1].metrics is not None and own[-1].metrics.cached_tokens == 0
