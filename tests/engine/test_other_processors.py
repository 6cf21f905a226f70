"""Float32 ids are the same on processors that this one can stand in for: those without its vector instructions.

How many of the default model's prompts run is set by PAGEDCHAT_TRIALS (a sixth of it; all from 120 on); in few trials
it runs on the plainest processor alone.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from support.float32_ids import ids_of
from support.tiny_gguf import write_gguf
from support.tiny_tokenizers import byte_level_metadata

TRIALS = int(os.environ.get("PAGEDCHAT_TRIALS", "6"))
TOKENS = 32 if TRIALS < 120 else 64
DATA = Path(__file__).parents[1] / "data" / "smollm2_greedy_float32.json"
ALONE = {"OMP_NUM_THREADS": "1"}  # threads that wait for each other are slow where other tests run beside this one
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"} | ALONE
NONE = {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41"} | ALONE
GENERIC = {"NUMBA_CPU_NAME": "generic"}
PROCESSORS = {
    "plain torch with AVX2": (AVX2, True),
    "plain torch without vectors": (NONE, True),
    "compiled, torch without vectors": (NONE, False),
    "compiled without vectors": (GENERIC | NONE, False),
}


def check_processor(told: dict[str, Any], environment: dict[str, str], plain: bool) -> None:
    """The environment did what it is for."""
    assert told["kernels"] == ("reference" if plain else "numba")
    assert told["aten"] == environment["ATEN_CPU_CAPABILITY"].upper()
    assert plain or bool(told["vectors"]) == ("NUMBA_CPU_NAME" not in environment)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[int]], list[list[int]]]:
    """A model, prompts, and what is said to them here."""
    path = write_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf", metadata=byte_level_metadata())
    source = random.Random(3)
    prompts = [[source.randrange(300) for _ in range(length)] for length in (1, 7, 33, 64, 120)]
    told = ids_of(path, prompts, 40, {}, plain=True)
    assert len({tuple(ids) for ids in told["ids"]}) == len(prompts)
    return path, prompts, told["ids"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_tiny_model_says_the_same(tiny: tuple[Path, list[list[int]], list[list[int]]], processor: str) -> None:
    path, prompts, expected = tiny
    environment, plain = PROCESSORS[processor]
    told = ids_of(path, prompts, 40, environment, plain=plain)
    check_processor(told, environment, plain)
    assert told["ids"] == expected


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("processor", PROCESSORS if TRIALS >= 5 else ["compiled without vectors"])
def test_the_default_model_says_what_transformers_says(default_model_path: Path, processor: str) -> None:
    every = sorted(json.loads(DATA.read_text())["cases"], key=lambda case: len(case["prompt"]))
    count = max(1, TRIALS // 6)
    cases = every[len(every) // 2 :: max(1, len(every) // 2 // count)][:count] if count < len(every) else every
    environment, plain = PROCESSORS[processor]
    told = ids_of(default_model_path, [case["prompt"] for case in cases], TOKENS, environment, plain=plain)
    check_processor(told, environment, plain)
    assert told["ids"] == [case["greedy"][:TOKENS] for case in cases]
