"""What the decoder takes from a checkpoint: tied and own output heads, missing, misshapen and unused tensors."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pagedchat.engine.errors import EngineError, ModelFileError
from pagedchat.engine.runner import ModelRunner
from support.fake_checkpoint import FakeCheckpoint, checkpoint_of, step_batch, tiny_llama

IDS = [3, 14, 15, 92, 65, 35]


def logits_of(checkpoint: FakeCheckpoint) -> np.ndarray:
    runner = ModelRunner.load(checkpoint, device="cpu", dtype="float32", block_size=4, num_blocks_for=lambda *_: 4)
    return runner.execute(step_batch([IDS], [[2, 0]], [(0, 6)], 4))[0]


def plain_logits(model: Any) -> np.ndarray:
    with torch.inference_mode():
        return model(torch.tensor([IDS])).logits[0, -1].numpy()


def test_a_tied_head_is_the_embedding_whether_or_not_the_file_repeats_it():
    model = tiny_llama()
    absent = checkpoint_of(model)
    present = checkpoint_of(model)
    present.tensors["lm_head.weight"] = present.tensors["model.embed_tokens.weight"].clone()
    np.testing.assert_allclose(logits_of(absent), plain_logits(model), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(logits_of(absent), logits_of(present))


def test_a_differing_head_in_a_file_that_says_tied_is_used_and_reported(caplog):
    model = tiny_llama(tie_word_embeddings=False)
    checkpoint = checkpoint_of(model)
    checkpoint.spec = replace(checkpoint.spec, tie_word_embeddings=True)
    with caplog.at_level(logging.WARNING):
        got = logits_of(checkpoint)
    np.testing.assert_allclose(got, plain_logits(model), rtol=1e-4, atol=1e-4)
    assert "lm_head.weight" in caplog.text


def test_an_untied_head_that_is_absent_is_refused_by_name():
    checkpoint = checkpoint_of(tiny_llama(tie_word_embeddings=False))
    del checkpoint.tensors["lm_head.weight"]
    with pytest.raises(ModelFileError, match=r"lm_head\.weight"):
        logits_of(checkpoint)


def test_a_missing_parameter_is_refused_by_name():
    checkpoint = checkpoint_of(tiny_llama())
    del checkpoint.tensors["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(ModelFileError, match=r"model\.layers\.1\.mlp\.up_proj\.weight"):
        logits_of(checkpoint)


def test_a_parameter_of_another_shape_is_refused_with_both_shapes():
    checkpoint = checkpoint_of(tiny_llama())
    checkpoint.tensors["model.norm.weight"] = torch.ones(31)
    with pytest.raises(ModelFileError, match=r"\(31,\).*\(32,\)"):
        logits_of(checkpoint)


def test_a_tensor_that_nothing_uses_is_refused():
    checkpoint = checkpoint_of(tiny_llama())
    checkpoint.tensors["model.layers.0.self_attn.q_norm.weight"] = torch.ones(8)
    with pytest.raises(ModelFileError, match="q_norm"):
        logits_of(checkpoint)


def test_an_unknown_rope_variant_is_refused_by_name():
    checkpoint = checkpoint_of(tiny_llama())
    with pytest.raises(ModelFileError, match="spiral"):
        replace(checkpoint.spec, rope_scaling={"rope_type": "spiral", "factor": 2.0})


def test_a_named_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(EngineError, match="cuda"):
        ModelRunner.load(
            checkpoint_of(tiny_llama()), device="cuda", dtype="float32", block_size=4, num_blocks_for=lambda *_: 4
        )


def test_cuda_that_raises_at_its_start_falls_back_to_the_cpu_and_says_so(monkeypatch):
    def broken() -> bool:
        raise RuntimeError("driver too old")

    monkeypatch.setattr(torch.cuda, "is_available", broken)
    runner = ModelRunner.load(
        checkpoint_of(tiny_llama()), device="auto", dtype="float32", block_size=4, num_blocks_for=lambda *_: 4
    )
    facts = runner.describe()
    assert facts["device"] == "cpu"
    assert "driver too old" in facts["reason"]
