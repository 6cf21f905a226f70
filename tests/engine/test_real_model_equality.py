"""Promise 1 on the default model: paging changes where KV lies, never what is said.

Expected ids are transformers' greedy ids on the same dequantized float32 weights (tests/data). How many of the prompts
run is set by PAGEDCHAT_TRIALS (shortest first; all when it is 20 or more).
"""

import json
import os
from pathlib import Path

import pytest

from pagedchat.engine import Engine, EngineConfig, SamplingParams

DATA = Path(__file__).parents[1] / "data" / "smollm2_greedy_float32.json"
TRIALS = int(os.environ.get("PAGEDCHAT_TRIALS", "6"))


def cases():
    every = sorted(json.loads(DATA.read_text())["cases"], key=lambda case: len(case["prompt"]))
    step = max(1, len(every) // max(1, TRIALS))
    return every[::step][:TRIALS] if len(every) > TRIALS else every


def engine_for(path, **settings):
    settings = {"num_blocks": 1200, "max_num_batched_tokens": 512, **settings}
    return Engine(EngineConfig(model=str(path), dtype="float32", device="cpu", **settings))


@pytest.fixture(scope="module")
def engine(default_model_path):
    return engine_for(default_model_path)


def serve(engine, chosen):
    """Serve all cases at once; (ids, last output) by case index."""
    ids, last = {index: [] for index in chosen}, {}
    for index, case in chosen.items():
        params = SamplingParams(temperature=0, max_tokens=len(case["greedy"]), ignore_eos=True)
        engine.add_request(str(index), case["prompt"], params)
    while engine.has_unfinished():
        for output in engine.step():
            ids[int(output.request_id)] += output.token_ids
            last[int(output.request_id)] = output
    assert engine.snapshot()["conserved"]
    return ids, last


def expected(chosen):
    return {index: case["greedy"] for index, case in chosen.items()}


@pytest.mark.timeout(900)
def test_each_prompt_alone_and_again_from_the_cache(engine):
    for index, case in enumerate(cases()):
        engine.reset_cache()
        first, _ = serve(engine, {index: case})
        again, last = serve(engine, {index: case})
        assert first[index] == case["greedy"], f"prompt of {len(case['prompt'])} tokens"
        assert again[index] == case["greedy"], f"prompt of {len(case['prompt'])} tokens, cached"
        assert last[index].metrics.cached_tokens == len(case["prompt"]) - 1


@pytest.mark.timeout(900)
def test_all_prompts_in_one_batch(engine):
    engine.reset_cache()
    chosen = dict(enumerate(cases()))
    assert serve(engine, chosen)[0] == expected(chosen)


@pytest.mark.timeout(900)
def test_all_prompts_in_chunks_of_32_tokens(default_model_path):
    chosen = dict(enumerate(cases()))
    engine = engine_for(default_model_path, max_num_batched_tokens=32)
    assert serve(engine, chosen)[0] == expected(chosen)


@pytest.mark.timeout(900)
def test_all_prompts_in_a_pool_so_small_that_it_preempts(default_model_path):
    chosen = dict(enumerate(cases()))
    blocks = [-(-(len(case["prompt"]) + 1) // 16) for case in chosen.values()]
    num_blocks = max(max(blocks) + 4, sum(blocks) + len(blocks) + 1)  # all prompts fit, their replies do not
    engine = engine_for(default_model_path, num_blocks=num_blocks)
    ids, last = serve(engine, chosen)
    assert sum(output.metrics.preemptions for output in last.values()) > 0
    assert ids == expected(chosen)
