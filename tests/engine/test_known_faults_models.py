"""Ways in which models were loaded or replaced wrongly elsewhere, played on this engine with tiny files."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pytest

from pagedchat.engine import LLM, SamplingParams
from pagedchat.engine.client import EngineClient
from pagedchat.engine.config import EngineConfig
from pagedchat.engine.generate_request import GenerateRequest
from pagedchat.engine.models.checkpoint import open_checkpoint
from pagedchat.engine.models.spec import ModelSpec
from pagedchat.engine.prompt import load_prompt_builder
from pagedchat.engine.runner import ModelRunner
from pagedchat.engine.tokenizer import load_tokenizer
from support.chat_templates import LLAMA3, ZEPHYR
from support.engine_process import answer
from support.fake_checkpoint import step_batch
from support.prompts import chat
from support.tiny_gguf import TINY, random_weights, write_gguf
from support.tiny_hf_dir import write_hf_dir
from support.tiny_tokenizers import byte_level_metadata, byte_level_tokenizer, save_directory

SPEC = replace(TINY, vocab_size=byte_level_tokenizer().num_tokens, max_position=512)
IDS = [random.Random(3).randrange(20, 250) for _ in range(64)]
PARAMS = SamplingParams(temperature=0.7, seed=5, max_tokens=12, ignore_eos=True)
SETTINGS: dict[str, Any] = {"dtype": "float32", "device": "cpu", "num_blocks": 64, "block_size": 16}
ROPE = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}


def lively_weights(spec: ModelSpec, seed: int = 1) -> dict[str, np.ndarray]:
    """Random weights whose replies depend on all of the context."""
    return {
        name: weight + 1 if weight.ndim == 1 and "norm" in name else weight * (4 if "attn" in name else 2)
        for name, weight in random_weights(spec, seed).items()
    }


def write_dir(folder: Path, seed: int = 1, **config: Any) -> Path:
    write_hf_dir(folder, SPEC, lively_weights(SPEC, seed), config=config)
    return save_directory(byte_level_tokenizer(), folder)


def write_file(path: Path, seed: int = 1, kind: str | None = None) -> Path:
    weights = lively_weights(SPEC, seed)
    kinds = {name: kind for name, weight in weights.items() if kind and weight.ndim == 2}
    return write_gguf(path, SPEC, weights, metadata=byte_level_metadata(), kinds=kinds)


def reply(model: LLM) -> tuple[list[int], int]:
    """(ids, cached tokens) of the prompt of four blocks."""
    (result,) = model.generate(IDS, PARAMS)
    assert result.metrics is not None
    return result.outputs[0].token_ids, result.metrics.cached_tokens


# -- weights replaced under the same name ------------------------------------------------------------------------------

CHANGES: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any], dict[str, Any]]] = {
    "weights of a directory": (write_dir, lambda path: write_dir(path, seed=2), {}),
    "weights of a file": (write_file, lambda path: write_file(path, seed=2), {}),
    "quantization": (write_file, lambda path: write_file(path, kind="Q4_0"), {}),
    "rope": (write_dir, lambda path: write_dir(path, rope_parameters=ROPE, rope_theta=None), {}),
    "dtype": (write_dir, lambda path: path, {"dtype": "bfloat16"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_reload_nothing_of_the_model_before_is_used(tmp_path: Path, change: str) -> None:
    write, rewrite, settings = CHANGES[change]
    path = tmp_path / ("model.gguf" if write is write_file else "model")
    write(path)
    old = LLM(path, **SETTINGS)
    before, _ = reply(old)
    assert len(set(before)) > 6 and reply(old) == (before, len(IDS) - 1), "warm"
    rewrite(path)
    reloaded = LLM(path, **{**SETTINGS, **settings})
    ids, cached = reply(reloaded)
    assert cached == 0
    elsewhere = tmp_path / "elsewhere" / path.name
    elsewhere.parent.mkdir()
    write(elsewhere)
    rewrite(elsewhere)
    assert ids == reply(LLM(elsewhere, **{**SETTINGS, **settings}))[0]
    if not settings:
        assert ids != before, "the change can be seen"
        assert reloaded.engine.info()["fingerprint"] != old.engine.info()["fingerprint"]
    again, cached = reply(reloaded)
    assert cached == len(IDS) - 1
    assert settings or again == ids, "in bfloat16 a row alone is rounded otherwise than among many"


def test_the_engine_process_reloads_what_lies_under_the_name_now(tmp_path: Path) -> None:
    path = write_dir(tmp_path / "model")
    config = EngineConfig(str(path), **SETTINGS)
    told: list[tuple[list[int], int, str]] = []

    async def ask(client: EngineClient) -> None:
        _, outputs = await answer(client, GenerateRequest(PARAMS, prompt_token_ids=IDS))
        metrics = outputs[-1].metrics
        assert metrics is not None
        ids = [token for output in outputs for token in output.token_ids]
        told.append((ids, metrics.cached_tokens, client.status.info["fingerprint"]))

    async def play() -> None:
        client = EngineClient(env={"OMP_NUM_THREADS": "1"})
        try:
            for seed in (1, 2):
                write_dir(path, seed)
                await client.start(config)
                await client.wait_ready()
                await ask(client)
                await ask(client)
        finally:
            await client.close()

    asyncio.run(asyncio.wait_for(play(), 120))
    first, again, second, warm = told
    assert [one[1] for one in told] == [0, len(IDS) - 1, 0, len(IDS) - 1]
    assert first[0] == again[0] != second[0] == warm[0] and first[2] != second[2]
    assert second[0] == reply(LLM(path, **SETTINGS))[0]


def test_a_file_that_is_replaced_does_not_change_the_model_that_runs(tmp_path: Path) -> None:
    path = write_file(tmp_path / "model.gguf", kind="Q8_0")
    model = LLM(path, **SETTINGS)
    before, _ = reply(model)
    os.replace(write_file(tmp_path / "new.gguf", seed=2, kind="Q8_0"), path)
    assert reply(model) == (before, len(IDS) - 1)
    model.engine.reset_cache()
    assert reply(model) == (before, 0)


# -- many chats at once, in real arithmetic ----------------------------------------------------------------------------


def test_eight_chats_on_a_small_pool_say_what_each_says_alone(tmp_path: Path) -> None:
    path = write_dir(tmp_path / "model")
    crowded = LLM(path, **{**SETTINGS, "num_blocks": 40, "block_size": 8, "max_num_batched_tokens": 64})
    alone = LLM(path, **{**SETTINGS, "enable_prefix_caching": False})
    rng = random.Random(8)
    chats = {f"chat{one}": [*IDS[:11], 240 - one, 200 + one, 230 - one, *IDS[:4]] for one in range(8)}
    cached = 0
    for turn in range(5):
        params = [replace(PARAMS, max_tokens=rng.randint(2, 6)) for _ in chats]
        together = crowded.generate(list(chats.values()), params)
        for result, (name, prompt), one in zip(together, list(chats.items()), params, strict=True):
            (solo,) = alone.generate([prompt], one)
            assert result.outputs[0].token_ids == solo.outputs[0].token_ids
            metrics = result.metrics
            assert metrics is not None and metrics.cached_tokens + metrics.computed_tokens == len(prompt)
            cached += metrics.cached_tokens
            chats[name] = [*prompt, *result.outputs[0].token_ids, 100 + turn, 110 + turn]
    assert cached > 8 * 11
    assert crowded.engine.snapshot()["active"] == 0


# -- the same model as a file and as a directory -----------------------------------------------------------------------


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_file_and_a_directory_give_the_logits_of_transformers_at_every_position(tmp_path: Path, family: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    spec = replace(SPEC, architecture=family, attention_bias=family == "qwen2", num_heads=8, num_kv_heads=2)
    weights = lively_weights(spec)
    folder = write_hf_dir(tmp_path / "model", spec, weights)
    paths = [write_gguf(tmp_path / "model.gguf", spec, weights), folder]
    with torch.inference_mode():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        expected = model(torch.tensor([IDS[:41]])).logits[0].numpy()
    for path in paths:
        runner = ModelRunner.load(
            open_checkpoint(path), device="cpu", dtype="float32", block_size=4, num_blocks_for=lambda *_: 16
        )
        batch = step_batch([IDS[:41]], [random.Random(1).sample(range(16), 11)], [(0, 41)], 4, list(range(41)))
        np.testing.assert_allclose(runner.execute(batch), expected, atol=1e-4 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize(
    ("template", "stated", "count"), [(LLAMA3, True, 1), (LLAMA3, False, 1), (ZEPHYR, True, 1), (ZEPHYR, False, 0)]
)
def test_a_file_and_a_directory_begin_a_chat_with_the_same_ids(
    tmp_path: Path, template: str, stated: bool, count: int
) -> None:
    metadata = {**byte_level_metadata(add_bos_token=stated), "tokenizer.chat_template": template}
    from_file = load_tokenizer(write_gguf(tmp_path / "model.gguf", SPEC, metadata=metadata))
    folder = save_directory(
        byte_level_tokenizer(template, add_bos_token=stated), write_hf_dir(tmp_path / "model", SPEC)
    )
    assert json.loads((folder / "tokenizer_config.json").read_text())["add_bos_token"] is stated
    prompts = []
    for tokenizer in (from_file, load_tokenizer(folder)):
        ids = load_prompt_builder(tokenizer).build(chat(("user", "Hello"))).token_ids
        assert ids.count(tokenizer.bos_id or -1) == ids[:count].count(tokenizer.bos_id or -1) == count
        prompts.append(ids)
    assert prompts[0] == prompts[1]


# -- machines that lack something --------------------------------------------------------------------------------------

STRANGE = """
import json, sys, tempfile
sys.modules["triton"] = None
import torch
def broken(*_):
    raise RuntimeError("driver too old")
torch.cuda.is_available = broken
from pagedchat.engine import LLM, SamplingParams
results = []
for path in sys.argv[2:]:
    model = LLM(path, device="auto", **json.loads(sys.argv[1]))
    (result,) = model.generate([IDS], SamplingParams(temperature=0.7, seed=5, max_tokens=12, ignore_eos=True))
    facts = model.engine.info()
    results.append([result.outputs[0].token_ids, facts["device"], facts["reason"], facts["dtype"], facts["kernels"]])
print(json.dumps(results))
"""


def test_models_run_from_strange_folders_and_links_without_triton_or_a_working_cuda(tmp_path: Path) -> None:
    home = tmp_path / "zkouška ß 模型 dir"
    home.mkdir()
    folder, file = write_dir(home / "model ž"), write_file(home / "模型.gguf")
    linked_folder, linked_file = home / "odkaz", home / "odkaz ß.gguf"
    linked_folder.symlink_to(folder, target_is_directory=True)
    linked_file.symlink_to(file)
    places = {name: str(home) for name in ("HOME", "TMPDIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    settings = {name: value for name, value in SETTINGS.items() if name != "device"}
    ran = subprocess.run(
        [sys.executable, "-c", STRANGE.replace("IDS", str(IDS)), json.dumps(settings)]
        + [str(one) for one in (folder, linked_folder, file, linked_file)],
        env={**os.environ, **places, "XDG_CACHE_HOME": str(platformdirs.user_cache_path()), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    told = json.loads(ran.stdout.splitlines()[-1])
    wanted, _ = reply(LLM(folder, **SETTINGS))
    assert [one[0] for one in told] == [wanted] * 4
    for _, device, reason, dtype, kernels in told:
        assert (device, dtype) == ("cpu", "float32") and "driver too old" in reason and kernels
