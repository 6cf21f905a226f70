"""GGUF files: read as the gguf package reads them, and refused in plain words when they are not what they should be."""

from __future__ import annotations

import time
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize

from pagedchat.engine.errors import ModelFileError
from pagedchat.engine.models.checkpoint import open_checkpoint
from pagedchat.engine.models.gguf_reader import GGUFReader
from pagedchat.engine.models.quantized import GGML_TYPES, QuantizedTensor, dequantize_blocks
from support.tiny_gguf import TINY, random_weights, write_gguf


def test_metadata_and_tensors_equal_those_of_the_gguf_package(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", metadata={"x.text": "é", "x.numbers": [1, 2], "x.texts": ["a", ""]})
    ours, theirs = GGUFReader(path), gguf.GGUFReader(path)
    for name, field in theirs.fields.items():
        if not name.startswith("GGUF."):
            assert ours.metadata[name] == field.contents()
    assert len(ours.tensors) == len(theirs.tensors) > 0
    for tensor in theirs.tensors:
        entry = ours.tensors[tensor.name]
        assert (entry.kind, entry.offset, entry.num_bytes) == (
            tensor.tensor_type.name,
            tensor.data_offset,
            tensor.n_bytes,
        )
        assert ours.data(tensor.name).tobytes() == tensor.data.tobytes()


def test_the_type_table_agrees_with_the_gguf_package() -> None:
    for kind, (block_size, block_bytes) in gguf.GGML_QUANT_SIZES.items():
        assert GGML_TYPES[kind.value] == (kind.name, block_size, block_bytes)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K"])
def test_blocks_mean_the_numbers_that_the_gguf_package_reads(kind: str) -> None:
    chosen = gguf.GGMLQuantizationType[kind]
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[chosen]
    columns = block_size * 2
    raw = np.random.default_rng(1).integers(0, 120, (5, columns // block_size * block_bytes), dtype=np.uint8)
    expected = dequantize(raw, chosen)
    assert expected.shape == (5, columns)
    assert np.array_equal(dequantize_blocks(kind, raw), expected)


def test_a_quantized_tensor_of_a_file_keeps_its_blocks(tmp_path: Path) -> None:
    name = "model.layers.0.mlp.down_proj.weight"
    path = write_gguf(tmp_path / "tiny.gguf", kinds={name: "Q8_0"})
    tensor = open_checkpoint(path).tensor(name)
    assert isinstance(tensor, QuantizedTensor)
    assert tensor.kind == "Q8_0" and tensor.shape == (TINY.hidden_size, TINY.intermediate_size)
    assert tensor.data.shape == (TINY.hidden_size, TINY.intermediate_size // 32 * 34)
    assert np.abs(tensor.dequantize().numpy() - random_weights(TINY)[name]).max() < 0.005


@pytest.mark.parametrize("share", [0.10, 0.60, 0.99])
def test_a_cut_file_is_refused_with_its_name_and_both_sizes(
    default_model_path: Path, tmp_path: Path, share: float
) -> None:
    size = int(default_model_path.stat().st_size * share)
    cut = tmp_path / "cut.gguf"
    with default_model_path.open("rb") as source, cut.open("wb") as target:
        target.write(source.read(size))
    start = time.monotonic()
    with pytest.raises(ModelFileError) as refused:
        open_checkpoint(cut)
    assert time.monotonic() - start < 3
    assert str(cut) in str(refused.value) and "cut short" in str(refused.value)
    assert f"{size:,}" in str(refused.value)


def test_a_file_cut_anywhere_in_its_header_is_called_cut(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "tiny.gguf").read_bytes()
    reader = GGUFReader(tmp_path / "tiny.gguf")
    cut = tmp_path / "cut.gguf"
    for size in range(4, reader.data_start, 61):
        cut.write_bytes(whole[:size])
        with pytest.raises(ModelFileError, match=r"cut short|too short"):
            GGUFReader(cut)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"<!DOCTYPE html><html><body>Sign in</body></html>", "web page"),
        (b"\n\n<html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (b"PK\x03\x04" + b"\0" * 100, "does not begin with the letters GGUF"),
        (b"GGUF\x01\0\0\0" + b"\0" * 100, "version 1"),
        (b"GGUF\0\0\0\x03" + b"\0" * 100, "big-endian"),
        (b"GGUF\x03\0\0\0" + b"\xff" * 16, "damaged"),
    ],
)
def test_a_file_that_is_no_gguf_says_what_it_is(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=reason) as refused:
        open_checkpoint(path)
    assert str(path) in str(refused.value)


def test_a_missing_file_is_called_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no model file at"):
        open_checkpoint(tmp_path / "gone.gguf")


def test_random_damage_of_a_header_never_ends_in_another_error(tmp_path: Path) -> None:
    whole = bytearray(write_gguf(tmp_path / "tiny.gguf").read_bytes())
    header = GGUFReader(tmp_path / "tiny.gguf").data_start
    source = np.random.default_rng(3)
    damaged = tmp_path / "damaged.gguf"
    refused = 0
    for _ in range(150):
        copy = bytearray(whole)
        for place in source.integers(4, header, 3):
            copy[place] = source.integers(0, 256)
        damaged.write_bytes(copy)
        try:
            open_checkpoint(damaged)
        except ModelFileError:
            refused += 1
    assert refused > 50


def test_an_unsupported_architecture_is_named_and_the_file_called_sound(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "moe.gguf", architecture="qwen2moe")
    with pytest.raises(ModelFileError, match=r"sound.*'qwen2moe' is not supported"):
        open_checkpoint(path)


def test_a_mixture_of_experts_is_refused_as_such(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "moe.gguf", metadata={"llama.expert_count": 8})
    with pytest.raises(ModelFileError, match=r"sound.*mixture of experts"):
        open_checkpoint(path)


def test_an_unsupported_quantization_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tq.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    kind = gguf.GGMLQuantizationType.TQ1_0
    writer.add_tensor("token_embd.weight", np.zeros((2, 54), np.uint8), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelFileError, match=r"'token_embd.weight' is stored as TQ1_0, which is not supported"):
        open_checkpoint(path)
