"""An engine whose memory is capped: the pool fits, and so does the largest step right after the start."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.tiny_gguf import TINY, write_gguf
from support.tiny_tokenizers import byte_level_metadata, byte_level_tokenizer

MIB = 2**20
SCRIPT = """
import json, resource, sys
import psutil
from pagedchat.engine.config import EngineConfig
from pagedchat.engine.engine import Engine
from pagedchat.engine.errors import PagedChatError
from pagedchat.engine.sampling_params import SamplingParams
import pagedchat.engine.loading
import pagedchat.kernels.cpu.kernels

free, settings, lengths = json.loads(sys.argv[1])
_, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + free, hard))
try:
    engine = Engine(EngineConfig(**settings))
except PagedChatError as error:
    print(json.dumps({"refused": str(error)}))
    sys.exit()
for number, length in enumerate(lengths):
    prompt = [20 + (number + place) % 200 for place in range(length)]
    engine.add_request(str(number), prompt, SamplingParams(temperature=0.7, seed=1, max_tokens=2, ignore_eos=True))
ends = []
while engine.has_unfinished():
    ends += [[one.finish_reason, one.error] for one in engine.step() if one.finish_reason]
print(json.dumps({"ends": ends, "rows": engine.config.max_num_batched_tokens, **engine.info()}))
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps to ulimit -v")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose steps take more than its weights: many heads, a long context. Plain torch runs it."""
    vocabulary = byte_level_tokenizer().num_tokens
    spec = replace(TINY, vocab_size=vocabulary, num_heads=16, head_dim=4, num_layers=1, max_position=4096)
    return write_gguf(tmp_path_factory.mktemp("model") / "wide.gguf", spec, metadata=byte_level_metadata())


def start(model: Path, free_mib: int, lengths: tuple[int, ...] = (), **settings: Any) -> dict[str, Any]:
    """Starts an engine with so much memory left and serves prompts of these lengths together."""
    config = {"model": str(model), "device": "cpu", "dtype": "float32", "threads": 1, **settings}
    command = [sys.executable, "-P", "-c", SCRIPT, json.dumps([free_mib * MIB, config, lengths])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_the_largest_chunk_and_batch_run_right_after_a_start_with_little_memory(model: Path) -> None:
    told = start(model, 700, lengths=(*[5] * 31, 4000))
    assert told["ends"] == [["length", None]] * 32
    assert told["kernels"] == "reference" and told["step_bytes"] > 300 * MIB
    assert told["num_blocks"] * told["block_size"] >= 4096
    assert told["kv_bytes"] + told["step_bytes"] < 700 * MIB * 0.95
    assert told["kv_bytes"] < 350 * MIB


def test_with_less_memory_than_that_the_start_is_refused_with_the_reason_and_a_smaller_step_fits(model: Path) -> None:
    refused = start(model, 400)["refused"]
    assert "no room for a KV pool" in refused and "--max-num-batched-tokens (128, say)" in refused
    told = start(model, 400, lengths=(4000, 5), max_num_batched_tokens=128)
    assert told["ends"] == [["length", None]] * 2
