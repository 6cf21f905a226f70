"""A reply that goes on where it was cut: the engine process keeps the space between the two parts."""

from __future__ import annotations

import queue
from typing import Any

import numpy as np
import pytest

from pagedchat.engine import wire
from pagedchat.engine.config import EngineConfig
from pagedchat.engine.engine import Engine
from pagedchat.engine.generate_request import GenerateRequest
from pagedchat.engine.prompt import PromptBuilder
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.types import StepBatch
from pagedchat.engine.worker_loop import WorkerLoop
from support.tiny_tokenizers import sentencepiece_tokenizer


class OneToken:
    """A runner whose every next token is ``token_id``."""

    max_model_len = 256

    def __init__(self, token_id: int, vocab_size: int) -> None:
        self._logits = np.zeros(vocab_size, np.float32)
        self._logits[token_id] = 1

    def execute(self, batch: StepBatch) -> np.ndarray:
        return np.stack([self._logits] * len(batch.sample_rows))

    def describe(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(("asks", "text"), [(True, "world world"), (False, " world world")])
def test_only_a_new_reply_drops_the_space_that_sentencepiece_puts_first(asks: bool, text: str) -> None:
    tokenizer = sentencepiece_tokenizer()
    runner = OneToken(tokenizer.token_id("▁world") or 0, tokenizer.num_tokens)
    engine = Engine(
        EngineConfig("scripted"),
        runner=runner,  # type: ignore[arg-type]
        tokenizer=tokenizer,
        prompt_builder=PromptBuilder(tokenizer),
        num_blocks=16,
    )
    sent: list[dict[str, Any]] = []
    commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    loop = WorkerLoop(engine, commands, sent.append)
    messages = [{"role": "user", "content": "Hello"}]
    if not asks:
        messages.append({"role": "assistant", "content": "Hello"})
    params = SamplingParams(temperature=0, max_tokens=2)
    request = GenerateRequest(params, messages=messages, add_generation_prompt=asks)
    commands.put({"op": "add", "request": wire.request_to_wire(request)})
    loop.turn()
    while engine.has_unfinished():
        loop.turn()
    outputs = [wire.output_from_wire(one) for message in sent for one in message.get("outputs", [])]
    assert "".join(output.text for output in outputs) == text
