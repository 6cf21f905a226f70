"""Models whose layers see a window, in a directory that transformers wrote: the engine's replies are its own."""

from __future__ import annotations

import random

import pytest
import torch

from pagedchat.engine.config import EngineConfig
from pagedchat.engine.engine import Engine
from pagedchat.engine.models.checkpoint import open_checkpoint
from pagedchat.engine.runner import ModelRunner
from support.paged_model import ByteTokenizer, run

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
}


def mistral():
    from transformers import MistralConfig, MistralForCausalLM

    return MistralForCausalLM(MistralConfig(**SIZES, sliding_window=9))


def qwen2():
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=7, max_window_layers=2)
    return Qwen2ForCausalLM(config)


def engine_over(model, folder, **settings) -> Engine:
    model.save_pretrained(folder)
    runner = ModelRunner.load(
        open_checkpoint(str(folder)),
        device="cpu",
        dtype="float32",
        block_size=4,
        num_blocks_for=lambda *_: settings["num_blocks"],
        max_model_len=256,
    )
    runner.kv_cache.fill_(float("nan"))
    config = EngineConfig(model=str(folder), block_size=4, **settings)
    return Engine(config, runner=runner, tokenizer=ByteTokenizer(), num_blocks=settings["num_blocks"])  # type: ignore[arg-type]


def expected(model, prompt: list[int], count: int) -> list[int]:
    ids = list(prompt)
    with torch.inference_mode():
        for _ in range(count):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt) :]


@pytest.mark.parametrize(("make", "windows"), [(mistral, (9,)), (qwen2, (None, 7))])
def test_greedy_replies_equal_transformers_past_the_window(make, windows, tmp_path):
    torch.manual_seed(5)
    model, rng = make().eval().float(), random.Random(2)
    prompts = {str(size): [rng.randrange(96) for _ in range(size)] for size in (3, 8, 21, 40)}
    wanted = {name: expected(model, prompt, 20) for name, prompt in prompts.items()}
    for settings in ({"num_blocks": 200}, {"num_blocks": 48, "max_num_batched_tokens": 16, "max_num_seqs": 4}):
        engine = engine_over(model, tmp_path / "model", **settings)
        assert engine.kv.windows == windows
        assert run(engine, prompts, 20, ignore_eos=True) == wanted
        assert run(engine, prompts, 20, ignore_eos=True) == wanted, "warm"
        assert engine.stats()["cached_tokens"] > 0 or settings["num_blocks"] < 200


def test_up_to_its_window_a_model_runs_as_if_it_had_none(tmp_path):
    torch.manual_seed(5)
    mistral().save_pretrained(tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    runner = ModelRunner.load(
        checkpoint, device="cpu", dtype="float32", block_size=4, num_blocks_for=lambda *_: 8, max_model_len=9
    )
    assert runner.windows == (None,) and runner.max_model_len == 9
