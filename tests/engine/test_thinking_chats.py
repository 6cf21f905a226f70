"""Chats with models that think: what is sent, what is found cached, and what is said where the template rewrites."""

from __future__ import annotations

from typing import Any

import pytest

from support.chat_engine import ChatEngine, said
from support.chat_templates import QWEN3
from support.tiny_tokenizers import transformers_tokenizer

THOUGHT = "<think>\nHm, let me see about that.\n</think>\n\n"
NO_THOUGHT = {"enable_thinking": False}
MODES = {"on": [True] * 5, "off": [False] * 5, "toggled": [True, True, False, True, False]}


def common(first: list[int], second: list[int]) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )


def play(chat: ChatEngine, thinking: list[bool], *, stored: bool) -> list[dict[str, Any]]:
    """Five turns; returns for each its messages, prompt, metrics and what was fed before."""
    messages: list[dict[str, Any]] = [said("system", "Be brief.")]
    fed: list[list[int]] = []
    turns = []
    for number, thinks in enumerate(thinking):
        messages = [*messages, said("user", f"Question number {number}?")]
        args = {} if thinks else NO_THOUGHT
        text = (THOUGHT if thinks else "") + f"Answer number {number}."
        started, metrics, output = chat.say(messages, text, template_args=args)
        turns.append({"messages": messages, "args": args, "started": started, "metrics": metrics, "fed": list(fed)})
        fed.append(started.prompt_token_ids + output[:-1])  # the last one was never fed
        if stored:
            messages = [
                said(one["role"], one["content"], one["token_ids"] or ids)
                for one, ids in zip(messages, started.segments, strict=True)
            ]
            messages.append(said("assistant", text, started.generation_ids + output))
        else:
            messages = [*messages, said("assistant", text)]
    return turns


@pytest.mark.parametrize("mode", MODES)
def test_histories_without_ids_are_what_the_template_writes_and_hits_are_exact(mode: str) -> None:
    chat = ChatEngine(QWEN3)
    oracle = transformers_tokenizer(chat.tokenizer)
    for turn in play(chat, MODES[mode], stored=False):
        started = turn["started"]
        expected = oracle.apply_chat_template(
            [{"role": one["role"], "content": one["content"]} for one in turn["messages"]],
            add_generation_prompt=True,
            sanitize_control_tokens=True,
            return_dict=False,
            **turn["args"],
        )
        assert started.prompt_token_ids == expected
        best = max((common(one, expected) for one in turn["fed"]), default=0)
        assert turn["metrics"].cached_tokens == min(best, len(expected) - 1)
        number_of_answers = len(turn["messages"]) // 2 - 1
        thoughts = [place for place, one in enumerate(turn["messages"]) if "<think>" in one["content"]]
        assert started.rewritten == thoughts
        assert number_of_answers == len(turn["fed"])


@pytest.mark.parametrize("mode", MODES)
def test_stored_replies_stay_as_they_were_and_the_note_names_where_the_template_would_differ(mode: str) -> None:
    chat = ChatEngine(QWEN3)
    oracle = transformers_tokenizer(chat.tokenizer)
    for turn in play(chat, MODES[mode], stored=True):
        started, fed = turn["started"], turn["fed"]
        prompt = started.prompt_token_ids
        if fed:
            assert prompt[: len(fed[-1])] == fed[-1]
            assert turn["metrics"].cached_tokens == len(fed[-1])
        written = oracle.apply_chat_template(
            [{"role": one["role"], "content": one["content"]} for one in turn["messages"]],
            add_generation_prompt=True,
            tokenize=False,
            **turn["args"],
        )
        spelled, position = oracle.decode(prompt), started.first_difference
        assert (position is None) == (spelled == written)
        if position is not None:
            assert written.startswith(oracle.decode(prompt[:position]))
            assert not written.startswith(oracle.decode(prompt[: position + 1]))
            assert f"from token {position} on" in (started.note or "")
        kept = [one["content"] for one in turn["messages"] if one["role"] == "assistant"]
        assert all("<think>" in one for one, thinks in zip(kept, MODES[mode], strict=False) if thinks)


def test_the_probe_names_the_turn_that_the_template_rewrote() -> None:
    chat = ChatEngine(QWEN3)
    turns = play(chat, [True, True, True], stored=False)
    messages = [*turns[-1]["messages"], said("assistant", THOUGHT + "Answer number 2."), said("user", "Why?")]
    found = chat.probe(messages)
    assert found["message_role"] == "assistant" and found["message_index"] == 6
    assert found["reason"] == "template"
    assert found["cached_tokens"] == found["first_difference"]
