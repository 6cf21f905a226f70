"""For which models a reply is split into thinking and answer, and where the split begins."""

from __future__ import annotations

import pytest

from pagedchat.engine.reasoning import ReasoningSplitter
from support.chat_engine import ChatEngine, said
from support.chat_templates import CHATML, QWEN3, THINKING

HEADER = "{{- '<|im_start|>assistant\n' }}"
OPENED = QWEN3.replace(HEADER, HEADER.replace("\n'", "\n<think>\n'"))
CHAT = [said("user", "Why?")]


def state(template: str, **fields: object) -> tuple[str | None, str]:
    started = ChatEngine(template).prompting.start(ChatEngine(template).request(CHAT, **fields))
    return started.reasoning_state, started.reasoning_held


def test_only_a_model_that_knows_the_tags_is_split() -> None:
    assert state(CHATML) == (None, "")
    assert state(THINKING) == state(QWEN3) == ("begin", "")


def test_the_header_tells_where_a_reply_begins() -> None:
    assert OPENED != QWEN3
    assert state(OPENED) == ("thinking", "")
    assert state(QWEN3, template_args={"enable_thinking": False}) == ("answer", "")


def test_a_prompt_without_messages_is_raw() -> None:
    chat = ChatEngine(QWEN3)
    request = chat.request(CHAT)
    request.messages, request.prompt = None, "Once"
    assert chat.prompting.start(request).reasoning_state is None


@pytest.mark.parametrize("template", [QWEN3, OPENED])
@pytest.mark.parametrize("text", ["<think>plan", "plan</th", "</think>\n", "plan</think>\n\nDone </think> x", "<th"])
def test_a_reply_goes_on_where_it_stood(template: str, text: str) -> None:
    chat = ChatEngine(template)
    started, _, output = chat.say(CHAT, text)
    ids = started.generation_ids + output[:-1]
    resumed = chat.prompting.start(chat.request([*CHAT, said("assistant", "shown", ids)], add_generation_prompt=False))
    expected = ReasoningSplitter(inside=template == OPENED)
    expected.feed(text)
    assert (resumed.reasoning_state, resumed.reasoning_held) == (expected.state, expected.held)
