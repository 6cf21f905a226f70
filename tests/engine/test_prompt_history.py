"""Turn n + 1 extends what turn n fed and sampled, whatever was sampled."""

from __future__ import annotations

import random

import pytest

from pagedchat.engine.prompt import PromptMessage
from support.chat_templates import ALL, CHATML, LLAMA3, PLAIN_LINES, THINKING, ZEPHYR
from support.prompts import CONTENTS, KINDS, builder_of, builder_of_a_kept_chat, chat, continued, parts_of, spelled


@pytest.mark.parametrize("way", ["stored ids", "remembered text"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ALL)
def test_every_turn_strictly_extends_what_was_fed_and_sampled(kind: str, name: str, way: str) -> None:
    source = random.Random(name)
    builder = builder_of_a_kept_chat(ALL[name], KINDS[kind])
    tokenizer = builder._tokenizer
    ends = sorted(tokenizer.end_ids)
    extended = 0
    for _ in range(15):
        messages = chat(("system", source.choice(CONTENTS))) if source.random() < 0.5 else []
        messages.append(PromptMessage("user", source.choice(CONTENTS)))
        fed: list[int] = []
        for turn in range(4):
            built = builder.build(messages)
            assert parts_of(built) == built.token_ids
            assert built.token_ids[: len(fed)] == fed
            extended += bool(fed)
            # Random ids are no tokenizer's split of their text; half the replies are cut before their end. Each text
            # is another one, as the text alone is what finds remembered ids.
            output = [source.randrange(20, tokenizer.num_tokens) for _ in range(8)]
            output += [source.choice(ends)] * source.randint(0, 1)
            text = f"{turn}{tokenizer.decode(output)}" if way == "remembered text" else tokenizer.decode(output)
            fed = built.token_ids + output
            if way == "stored ids":
                messages = continued(messages, built, output, text)
            else:
                builder.remember(output, text)
                messages = [*messages, PromptMessage("assistant", text), PromptMessage("user", "And then?")]
    assert extended == 45


@pytest.mark.parametrize("template", [CHATML, LLAMA3])
def test_a_non_canonical_reply_is_kept_id_by_id(template: str) -> None:
    builder = builder_of(template)
    tokenizer = builder._tokenizer
    text = " hello  hello\n\n"
    output = [tokenizer.encode(letter)[0] for letter in text]
    assert output != tokenizer.encode(text) and tokenizer.decode(output) == text
    end = tokenizer.token_id("<|im_end|>" if template == CHATML else "<|eot_id|>")
    messages = chat(("user", "Say it."))
    built = builder.build(messages)
    again = builder.build(continued(messages, built, [*output, end or 0], text))
    assert again.token_ids[: len(built.token_ids) + len(output) + 1] == [*built.token_ids, *output, end]
    if template == CHATML:
        assert again.first_difference is None and again.note is None
    else:  # the template trims: said, and located at the blank that it would not write
        assert again.first_difference == len(built.token_ids)
        assert again.note is not None and f"from token {again.first_difference} on" in again.note


def test_a_template_that_drops_thinking_is_overruled_and_said_so() -> None:
    builder = builder_of(THINKING)
    tokenizer = builder._tokenizer
    text = "<think>\nhm\n</think>\n\nYes."
    messages = chat(("user", "Well?"))
    built = builder.build(messages)
    output = [*tokenizer.encode(text), tokenizer.token_id("<|im_end|>") or 0]
    again = builder.build(continued(messages, built, output, text))
    assert again.token_ids[: len(built.token_ids) + len(output)] == built.token_ids + output
    assert again.first_difference == len(built.token_ids) and again.note


def test_what_closes_a_reply_goes_with_the_next_question() -> None:
    builder = builder_of(CHATML)
    tokenizer = builder._tokenizer
    end = tokenizer.token_id("<|im_end|>") or 0
    messages = chat(("user", "u"))
    built = builder.build(messages)
    hello = tokenizer.encode("hello")
    ended = builder.build(continued(messages, built, [*hello, end], "hello"))
    stopped = builder.build(continued(messages, built, hello, "hello"))
    assert spelled(builder, ended.segments[2]) == "\n<|im_start|>user\nAnd then?<|im_end|>\n"
    assert spelled(builder, stopped.segments[2]) == "<|im_end|>\n<|im_start|>user\nAnd then?<|im_end|>\n"
    assert ended.token_ids == stopped.token_ids
    assert ended.first_difference is None and stopped.first_difference is None
    assert spelled(builder, ended.generation_ids) == "<|im_start|>assistant\n"


def test_a_reply_that_ended_with_another_marker_gets_its_turn_closed() -> None:
    builder = builder_of(CHATML)
    tokenizer = builder._tokenizer
    messages = chat(("user", "u"))
    built = builder.build(messages)
    other = tokenizer.token_id("<|endoftext|>") or 0
    again = builder.build(continued(messages, built, [*tokenizer.encode("hello"), other], "hello"))
    assert "hello<|endoftext|><|im_end|>\n<|im_start|>user\n" in spelled(builder, again.token_ids)
    assert again.first_difference == len(built.token_ids) + len(tokenizer.encode("hello"))


@pytest.mark.parametrize("template", [CHATML, PLAIN_LINES, ZEPHYR])
def test_regenerating_feeds_the_same_prompt(template: str) -> None:
    builder = builder_of(template)
    messages = chat(("system", "s"), ("user", "hello."))
    built = builder.build(messages)
    kept = [messages[0], PromptMessage("user", "hello.", built.segments[1])]
    assert builder.build(kept).token_ids == built.token_ids


def test_a_reply_can_be_continued_where_it_was_cut() -> None:
    builder = builder_of(CHATML)
    tokenizer = builder._tokenizer
    messages = chat(("user", "u"))
    built = builder.build(messages)
    output = tokenizer.encode("hello wor")
    kept = continued(messages, built, output, "hello wor")[:-1]
    for again in (builder.build(kept, False), builder.build(kept, continue_last=True)):
        assert again.token_ids == built.token_ids + output and again.generation_ids == []
        assert again.first_difference is None
    # The question that followed the cut reply keeps one closing when the reply has got its own since.
    followed = continued(messages, built, output, "hello wor")
    question = builder.build(followed).segments[2]
    ended = [*built.generation_ids, *output, *tokenizer.encode("ld"), tokenizer.token_id("<|im_end|>") or 0]
    whole = builder.build(
        [*kept[:1], PromptMessage("assistant", "hello world", ended), PromptMessage("user", "And then?", question)]
    )
    assert spelled(builder, whole.token_ids).count("<|im_end|><|im_end|>") == 0
    assert whole.first_difference is None


def test_a_reply_without_ids_can_be_continued() -> None:
    builder = builder_of(CHATML)
    built = builder.build(chat(("user", "u"), ("assistant", "hello wor")), continue_last=True)
    assert spelled(builder, built.token_ids).endswith("<|im_start|>assistant\nhello wor")


def test_an_edited_reply_is_written_by_the_template_and_then_kept() -> None:
    builder = builder_of(CHATML)
    messages = chat(("user", "u"), ("assistant", "My own words."), ("user", "v"))
    built = builder.build(messages)
    assert spelled(builder, built.segments[1]) == "<|im_start|>assistant\nMy own words.<|im_end|>"
    again = builder.build(continued(messages, built, builder._tokenizer.encode("ok"), "ok"))
    assert again.token_ids[: len(built.token_ids)] == built.token_ids
    # The store may keep no ids for it: it is written the same again.
    kept = continued(messages, built, [], "ok")
    kept[1].token_ids = None
    assert builder.build(kept[:3]).token_ids == built.token_ids


def test_a_history_without_ids_meets_the_ids_it_was_made_of() -> None:
    builder = builder_of(CHATML)
    tokenizer = builder._tokenizer
    built = builder.build(chat(("user", "u")))
    output = [*(tokenizer.encode(letter)[0] for letter in "hello"), tokenizer.token_id("<|im_end|>") or 0]
    builder.remember(output, "hello")
    again = builder.build(chat(("user", "u"), ("assistant", "hello"), ("user", "v")))
    assert again.token_ids[: len(built.token_ids) + len(output)] == built.token_ids + output
    # A text that was never generated is tokenized.
    other = builder.build(chat(("user", "u"), ("assistant", "hello!"), ("user", "v")))
    assert other.token_ids[: len(built.token_ids) + 2] == built.token_ids + tokenizer.encode("hello!")


def test_only_the_newest_replies_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pagedchat.engine.prompt.REMEMBERED_REPLIES", 3)
    builder = builder_of(CHATML)
    for number in range(5):
        builder.remember([number], f"text {number}")
    assert list(builder._replies) == ["text 2", "text 3", "text 4"]
