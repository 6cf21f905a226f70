"""The peer ``hf``: plain transformers behind OpenAI's API says what it says without, alone and in a batch."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import orjson
import pytest
import torch

from pagedchat.app.bench.transformers_server import Generator, make_server
from regression.tiny_set import greedy, ids, tiny_model


@pytest.fixture(scope="module")
def peer():
    model, plain = tiny_model()
    server = make_server(Generator(model, torch.float32))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", plain
    server.shutdown()


def ask(url: str, **body) -> tuple[list[int], dict]:
    """Ids of a streamed completion, and its usage."""
    answer = httpx.post(f"{url}/v1/completions", json={"max_tokens": 6, "ignore_eos": True, **body}, timeout=60)
    chunks = [orjson.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert choices[-1]["finish_reason"] == "length" and answer.text.endswith("data: [DONE]\n\n")
    return [token for choice in choices for token in choice["token_ids"]], chunks[-1]["usage"]


def test_a_batch_of_different_lengths_says_what_each_says_alone(peer):
    url, plain = peer
    draw = random.Random(3)
    prompts = [ids(draw, length) for length in (3, 17, 9, 30)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda prompt: ask(url, prompt=prompt), prompts))
    for prompt, (found, usage) in zip(prompts, together, strict=True):
        expected = greedy(plain, prompt, 6)
        assert found[: len(expected)] == expected
        assert usage == {"prompt_tokens": len(prompt), "completion_tokens": 6, "total_tokens": len(prompt) + 6}


def test_replies_of_one_batch_end_when_they_should(peer):
    url, _ = peer
    with ThreadPoolExecutor(2) as pool:
        short, long = pool.map(lambda most: ask(url, prompt=[5, 6, 7], max_tokens=most), (2, 9))
    assert len(short[0]) == 2 and len(long[0]) == 9 and long[0][:2] == short[0]
