"""Penalties on the default model: it still ends its turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagedchat.engine import LLM, SamplingParams

QUESTIONS = (
    "Hi!",
    "Name a color.",
    "Name a fruit.",
    "Name an animal.",
    "Say yes.",
    "Name a city.",
    "Say no.",
    "Name a number.",
    "Thanks!",
    "Bye!",
)


@pytest.mark.timeout(600)
def test_every_one_of_ten_short_turns_ends_by_itself_at_repetition_1_5(default_model_path: Path) -> None:
    model = LLM(default_model_path, num_blocks=128, device="cpu")
    params = SamplingParams(temperature=0, max_tokens=150, repetition_penalty=1.5)
    messages: list[dict[str, str]] = []
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        reply = model.chat(messages, params)[0].outputs[0]
        assert reply.finish_reason == "stop" and reply.token_ids[-1] in model.engine.tokenizer.end_ids
        assert reply.token_ids.count(reply.token_ids[-1]) == 1
        messages.append({"role": "assistant", "content": reply.text})
