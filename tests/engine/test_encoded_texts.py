"""A history that comes back as text is tokenized once, and nothing of a chat is kept that was to be forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from pagedchat.engine.encoded_texts import KEPT_CHARACTERS, SHORTEST, EncodedTexts
from support.chat_engine import ChatEngine
from support.chat_templates import CHATML
from support.prompts import builder_of, chat

LONG = "A question of many words, and some more of them. " * 20


@pytest.fixture
def tokenized(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that reach the tokenizer."""
    texts: list[str] = []
    encoding = type(builder_of(CHATML)._tokenizer).encoding

    def noting(self: Any, text: str, **options: Any) -> Any:
        texts.append(text)
        return encoding(self, text, **options)

    monkeypatch.setattr("pagedchat.engine.tokenizer_base.Tokenizer.encoding", noting)
    return texts


def test_a_second_turn_tokenizes_only_what_is_new(tokenized: list[str]) -> None:
    builder = builder_of(CHATML)
    first = builder.build(chat(("user", LONG)))
    builder.remember([5, 6, 7], "ok")
    assert any(LONG in text for text in tokenized)
    tokenized.clear()
    second = builder.build(chat(("user", LONG), ("assistant", "ok"), ("user", "And then?")))
    assert second.token_ids[: len(first.token_ids)] == first.token_ids
    assert any("And then?" in text for text in tokenized) and not any(LONG in text for text in tokenized)
    assert builder_of(CHATML).build(chat(("user", LONG))).token_ids == first.token_ids


def test_a_caller_may_change_the_ids_that_it_got() -> None:
    builder = builder_of(CHATML)
    prompts = [builder.build(chat(("user", LONG))) for _ in range(3)]
    for prompt in prompts[:2]:
        prompt.segments[0].clear()
        prompt.token_ids.clear()
    assert builder.build(chat(("user", LONG))).token_ids == prompts[2].token_ids != []


def test_forgetting_a_chat_forgets_the_texts(tokenized: list[str]) -> None:
    engine = ChatEngine(CHATML)
    engine.say([{"role": "user", "content": LONG}], "ok", labels={"session": "s"})
    engine.engine.forget("s")
    tokenized.clear()
    engine.builder.build(chat(("user", LONG)))
    assert any(LONG in text for text in tokenized)


def test_the_newest_texts_are_kept_up_to_a_size_and_short_ones_never() -> None:
    texts, length = EncodedTexts(), KEPT_CHARACTERS // 4
    for letter in "abcd":
        texts.keep(letter * length, True, ([1], [2]))
    assert texts.find("a" * length, True) == ([1], [2])
    assert texts.find("a" * length, False) is None
    texts.keep("e" * length, True, ([3], [4]))
    assert [texts.find(letter * length, True) is not None for letter in "abcde"] == [True, False, True, True, True]
    for text in ("x" * (SHORTEST - 1), "x" * (KEPT_CHARACTERS + 1)):
        texts.keep(text, True, ([1], [2]))
        assert texts.find(text, True) is None
    texts.forget()
    assert texts.find("e" * length, True) is None
