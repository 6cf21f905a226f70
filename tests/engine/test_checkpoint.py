"""The same weights out of a GGUF file and a Hugging Face directory, and what is refused on the way."""

from __future__ import annotations

import json
import pickle
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from pagedchat.engine.errors import ModelFileError
from pagedchat.engine.models.checkpoint import Checkpoint, open_checkpoint
from pagedchat.engine.models.quantized import QuantizedTensor
from support.tiny_gguf import TINY, gguf_name, random_weights, to_gguf_rows, write_gguf
from support.tiny_hf_dir import write_hf_dir

HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
QWEN2 = replace(TINY, architecture="qwen2", attention_bias=True)
TIED = replace(TINY, tie_word_embeddings=True)


def plain(checkpoint: Checkpoint, name: str) -> torch.Tensor:
    """One tensor as float32."""
    tensor = checkpoint.tensor(name)
    return tensor.dequantize() if isinstance(tensor, QuantizedTensor) else tensor.float()


@pytest.mark.parametrize("spec", [TINY, TIED, QWEN2], ids=["llama", "tied llama", "qwen2"])
def test_gguf_and_directory_give_the_same_tensors_and_spec(tmp_path: Path, spec: Any) -> None:
    weights = random_weights(spec)
    from_gguf = open_checkpoint(write_gguf(tmp_path / "tiny.gguf", spec, weights))
    from_directory = open_checkpoint(write_hf_dir(tmp_path / "tiny", spec, weights))
    assert from_gguf.spec == replace(from_directory.spec, rms_eps=from_gguf.spec.rms_eps)
    assert from_gguf.spec.rms_eps == pytest.approx(spec.rms_eps)
    assert set(from_gguf.names()) == set(from_directory.names()) == set(weights)
    for name, weight in weights.items():
        assert np.array_equal(plain(from_gguf, name).numpy(), weight), name
        assert np.array_equal(plain(from_directory, name).numpy(), weight), name


def test_the_row_order_of_llama_files_is_not_that_of_directories(tmp_path: Path) -> None:
    name = "model.layers.0.self_attn.k_proj.weight"
    weights = random_weights(TINY)
    assert not np.array_equal(to_gguf_rows(weights[name], TINY.num_kv_heads), weights[name])
    # Written as they are, the rows come out in another order: the file is believed to be in llama.cpp's.
    swapped = {**weights, name: to_gguf_rows(weights[name], TINY.num_kv_heads)}
    tensor = open_checkpoint(write_gguf(tmp_path / "tiny.gguf", TINY, swapped)).tensor(name)
    assert not np.array_equal(np.asarray(tensor), weights[name])


def test_quantized_query_rows_are_put_in_order_block_by_block(tmp_path: Path) -> None:
    name = "model.layers.1.self_attn.q_proj.weight"
    weights = random_weights(TINY)
    checkpoint = open_checkpoint(write_gguf(tmp_path / "tiny.gguf", TINY, weights, kinds={name: "Q8_0"}))
    assert np.abs(plain(checkpoint, name).numpy() - weights[name]).max() < 0.005


def test_llama_three_frequency_factors_of_a_gguf_reach_the_spec(tmp_path: Path) -> None:
    factors = np.linspace(1, 8, TINY.head_dim // 2, dtype=np.float32)
    weights = {**random_weights(TINY), "rope_freqs.weight": factors}
    checkpoint = open_checkpoint(write_gguf(tmp_path / "tiny.gguf", TINY, weights))
    assert checkpoint.spec.rope_scaling == {"rope_type": "factors", "factors": factors.tolist()}
    assert "rope_freqs.weight" not in checkpoint.names()


def test_an_unknown_rope_scaling_is_named(tmp_path: Path) -> None:
    folder = write_hf_dir(tmp_path / "tiny", config={"rope_scaling": {"rope_type": "longrope", "factor": 4.0}})
    with pytest.raises(ModelFileError, match="'longrope', which is not supported"):
        open_checkpoint(folder)


def test_both_spellings_of_rope_settings_are_read(tmp_path: Path) -> None:
    scaling = {"rope_type": "linear", "factor": 2.0}
    old = write_hf_dir(tmp_path / "old", config={"rope_theta": 5e4, "rope_scaling": scaling})
    new = write_hf_dir(tmp_path / "new", config={"rope_theta": None, "rope_parameters": {**scaling, "rope_theta": 5e4}})
    for folder in (old, new):
        spec = open_checkpoint(folder).spec
        assert spec.rope_theta == 5e4
        assert spec.rope_scaling is not None and spec.rope_scaling["factor"] == 2.0


# Output heads: tied or not, present or not.


def test_a_tied_head_that_is_also_in_the_file_is_tied(tmp_path: Path) -> None:
    weights = random_weights(TIED)
    checkpoint = open_checkpoint(write_hf_dir(tmp_path / "tiny", TIED, {**weights, HEAD: weights[EMBEDDING].copy()}))
    assert checkpoint.spec.tie_word_embeddings and not checkpoint.warnings
    assert HEAD not in checkpoint.names()


def test_a_tied_head_that_differs_in_the_file_is_used_and_said(tmp_path: Path) -> None:
    weights = random_weights(TINY)
    checkpoint = open_checkpoint(write_hf_dir(tmp_path / "tiny", TIED, weights))
    assert not checkpoint.spec.tie_word_embeddings
    assert np.array_equal(plain(checkpoint, HEAD).numpy(), weights[HEAD])
    assert "the head of the files is used" in checkpoint.warnings[0]


def test_an_untied_head_that_is_missing_is_refused_by_name(tmp_path: Path) -> None:
    folder = write_hf_dir(tmp_path / "tiny", TINY, random_weights(TIED))
    with pytest.raises(ModelFileError, match=r"no tensor for 'lm_head.weight'"):
        open_checkpoint(folder)


def test_a_gguf_without_an_output_tensor_is_tied(tmp_path: Path) -> None:
    assert open_checkpoint(write_gguf(tmp_path / "tiny.gguf", TIED)).spec.tie_word_embeddings
    assert not open_checkpoint(write_gguf(tmp_path / "own.gguf", TINY)).spec.tie_word_embeddings


@pytest.mark.parametrize("name", ["model.norm.weight", "model.layers.1.mlp.up_proj.weight"])
def test_a_parameter_that_nothing_fills_is_refused_by_name(tmp_path: Path, name: str) -> None:
    weights = random_weights(TINY)
    del weights[name]
    for path in (write_gguf(tmp_path / "tiny.gguf", TINY, weights), write_hf_dir(tmp_path / "tiny", TINY, weights)):
        with pytest.raises(ModelFileError, match=name):
            open_checkpoint(path)


def test_a_tensor_that_nothing_uses_is_refused_by_name(tmp_path: Path) -> None:
    weights = {**random_weights(TINY), "model.layers.0.extra.weight": np.zeros(4, np.float32)}
    checkpoint = open_checkpoint(write_hf_dir(tmp_path / "tiny", TINY, weights))
    with pytest.raises(ModelFileError, match=r"'model.layers.0.extra.weight'"):
        checkpoint.check_all_used(TINY.parameter_shapes())
    open_checkpoint(write_hf_dir(tmp_path / "other")).check_all_used(TINY.parameter_shapes())


def test_a_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    weights = {**random_weights(TINY), "model.norm.weight": np.zeros(3, np.float32)}
    with pytest.raises(ModelFileError, match=r"'model.norm.weight' has shape \[3\]"):
        open_checkpoint(write_hf_dir(tmp_path / "tiny", TINY, weights))


# Directories


def test_shards_hold_together_what_one_file_holds(tmp_path: Path) -> None:
    weights = random_weights(TINY)
    checkpoint = open_checkpoint(write_hf_dir(tmp_path / "tiny", TINY, weights, shards=3))
    assert set(checkpoint.names()) == set(weights)
    for name, weight in weights.items():
        assert np.array_equal(plain(checkpoint, name).numpy(), weight)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = write_hf_dir(tmp_path / "tiny", shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"model-00002-of-00003.safetensors is missing"):
        open_checkpoint(folder)


def test_a_stray_shard_is_named(tmp_path: Path) -> None:
    folder = write_hf_dir(tmp_path / "tiny", shards=3)
    save_file({"x": np.zeros(2, np.float32)}, folder / "model-00004-of-00004.safetensors")
    with pytest.raises(ModelFileError, match=r"model-00004-of-00004.safetensors is a shard that belongs to no index"):
        open_checkpoint(folder)


def test_an_index_that_does_not_fit_its_shards_is_refused(tmp_path: Path) -> None:
    folder = write_hf_dir(tmp_path / "tiny", shards=2)
    shard = folder / "model-00001-of-00002.safetensors"
    held = load_file(shard)
    name, weight = held.popitem()
    save_file(held, shard)
    with pytest.raises(ModelFileError, match=f"lacks '{name}'"):
        open_checkpoint(folder)
    save_file({**held, name: weight, "extra.weight": weight}, shard)
    with pytest.raises(ModelFileError, match=r"'extra\.weight', which"):
        open_checkpoint(folder)


def test_an_index_may_not_name_files_outside_the_folder(tmp_path: Path) -> None:
    folder = write_hf_dir(tmp_path / "tiny", shards=2)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {HEAD: "../elsewhere.safetensors"}}))
    with pytest.raises(ModelFileError, match="outside the folder"):
        open_checkpoint(folder)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 0.99])
def test_a_cut_safetensors_file_is_refused(tmp_path: Path, share: float) -> None:
    folder = write_hf_dir(tmp_path / "tiny")
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * share)])
    start = time.monotonic()
    with pytest.raises(ModelFileError, match=r"model.safetensors is cut short"):
        open_checkpoint(folder)
    assert time.monotonic() - start < 3


def test_pickled_weights_are_refused_and_not_run(tmp_path: Path) -> None:
    folder = write_hf_dir(tmp_path / "tiny")
    (folder / "model.safetensors").unlink()
    marker = tmp_path / "marker"
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Opens(str(marker))))
    with pytest.raises(ModelFileError, match=r"pickle \(pytorch_model.bin\)"):
        open_checkpoint(folder)
    assert not marker.exists()


def test_code_in_the_folder_is_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    folder = write_hf_dir(tmp_path / "tiny", config={"auto_map": {"AutoModelForCausalLM": "code.Model"}})
    (folder / "code.py").write_text(f"open({str(marker)!r}, 'w')")
    assert set(open_checkpoint(folder).names()) == set(TINY.parameter_shapes())
    assert not marker.exists()


def test_an_unsupported_family_is_named(tmp_path: Path) -> None:
    folder = write_hf_dir(tmp_path / "tiny", config={"architectures": ["MambaForCausalLM"]})
    with pytest.raises(ModelFileError, match="'MambaForCausalLM', which is not supported"):
        open_checkpoint(folder)


def test_a_folder_that_is_no_model_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"no config.json"):
        open_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelFileError, match=r"an empty config.json"):
        open_checkpoint(tmp_path)


class _Opens:
    """Creates a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return open, (self._path, "w")


# What the files say about use


def test_sampling_defaults_come_from_either_kind_of_file(tmp_path: Path) -> None:
    stated = {"general.sampling.temp": 0.5, "general.sampling.top_k": 20}
    from_gguf = open_checkpoint(write_gguf(tmp_path / "tiny.gguf", metadata=stated))
    assert from_gguf.generation_defaults == {"temperature": 0.5, "top_k": 20}
    folder = write_hf_dir(tmp_path / "tiny")
    (folder / "generation_config.json").write_text(json.dumps({"do_sample": True, "temperature": 0.5, "top_p": 0.8}))
    assert open_checkpoint(folder).generation_defaults == {"temperature": 0.5, "top_p": 0.8}
    (folder / "generation_config.json").write_text("not json")
    with pytest.raises(ModelFileError, match=r"generation_config.json"):
        open_checkpoint(folder)


def test_the_fingerprint_changes_with_the_weights_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = random_weights(TINY)
    changed = {**weights, HEAD: weights[HEAD] + 1}
    for whole in (True, False):
        monkeypatch.setattr("pagedchat.engine.models.fingerprint.WHOLE_LIMIT", 1 << 30 if whole else 0)
        for write, name in ((write_gguf, "tiny.gguf"), (write_hf_dir, "tiny")):
            path = write(tmp_path / name, TINY, weights)
            first = open_checkpoint(path).fingerprint
            assert open_checkpoint(path).fingerprint == first
            write(tmp_path / name, TINY, changed)
            assert open_checkpoint(path).fingerprint != first
            if whole:
                write(tmp_path / name, TINY, weights)
                assert open_checkpoint(path).fingerprint == first


def test_the_default_model_is_what_it_is_known_to_be(default_model_path: Path) -> None:
    checkpoint = open_checkpoint(default_model_path)
    spec = checkpoint.spec
    assert (spec.num_layers, spec.hidden_size, spec.num_heads, spec.num_kv_heads, spec.head_dim) == (30, 576, 9, 3, 64)
    assert (spec.vocab_size, spec.max_position, spec.rope_theta) == (49152, 8192, 100000.0)
    assert spec.tie_word_embeddings and checkpoint.name == "SmolLM2-135M-Instruct.Q4_1"
    assert checkpoint.generation_defaults == {"temperature": 0.2, "top_p": 0.9}
    kinds = {getattr(checkpoint.tensor(name), "kind", "plain") for name in checkpoint.names()}
    assert kinds == {"plain", "Q4_1", "Q8_0"}
    assert gguf_name("model.layers.3.mlp.up_proj.weight") == "blk.3.ffn_up.weight"
