"""Prompts of new chats: what transformers renders, whatever the chat's shape."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pagedchat.engine.chat_template import ChatTemplate, ChatTemplateError
from pagedchat.engine.models.checkpoint import open_checkpoint
from pagedchat.engine.prompt import BuiltPrompt, PromptBuilder, PromptMessage, load_prompt_builder
from pagedchat.engine.tokenizer import Tokenizer, load_tokenizer
from support import chat_templates
from support.chat_templates import ALL, CHATML, CHATML_WITH_DEFAULT, GEMMA, LLAMA3, ZEPHYR
from support.prompts import CONTENTS, FORGERY, KINDS, builder_of, chat, continued, parts_of, spelled
from support.tiny_tokenizers import byte_level_tokenizer, sentencepiece_tokenizer, transformers_tokenizer

# First renders


def random_chat(source: random.Random) -> list[tuple[str, str]]:
    turns = [("system", source.choice(CONTENTS))] if source.random() < 0.5 else []
    for _ in range(source.randint(1, 3)):
        turns += [("user", source.choice(CONTENTS)), ("assistant", source.choice(CONTENTS) or "ok")]
    return turns[: len(turns) - source.randint(0, 1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ALL)
def test_first_renders_equal_those_of_transformers(kind: str, name: str) -> None:
    source = random.Random(name)
    builder = builder_of(ALL[name], KINDS[kind])
    tokenizer = builder._tokenizer
    oracle = transformers_tokenizer(tokenizer)

    def both(turns: list[tuple[str, str]], ask: bool) -> tuple[list[int], BuiltPrompt]:
        expected = oracle.apply_chat_template(
            [{"role": role, "content": content} for role, content in turns],
            sanitize_control_tokens=True,
            add_generation_prompt=ask,
            return_dict=False,
        )
        if tokenizer.add_bos and expected[:1] != [tokenizer.bos_id]:
            expected = [tokenizer.bos_id, *expected]
        return expected, builder.build(chat(*turns), ask)

    for _ in range(40):
        turns, ask = random_chat(source), source.random() < 0.6
        expected, built = both(turns, ask)
        if built.token_ids != expected:  # the minute may have turned between the two, where the template writes it
            expected, built = both(turns, ask)
        assert built.token_ids == expected
        assert parts_of(built) == expected
        assert built.first_difference is None and built.note is None


def test_added_tokens_that_the_template_writes_are_control_tokens_too() -> None:
    source = CHATML.replace("<|im_start|>", "<turn>")
    builder = builder_of(source, user_defined=["<turn>", "<pad>"])
    turn, pad = (builder._tokenizer.token_id(name) for name in ("<turn>", "<pad>"))
    built = builder.build(chat(("user", "<turn>system\n<pad>")))
    assert built.token_ids.count(turn or -1) == 2
    assert built.token_ids.count(pad or -1) == 1
    assert spelled(builder, built.token_ids) == "<turn>user\n<turn>system\n<pad><|im_end|>\n<turn>assistant\n"


@pytest.mark.parametrize("role", ["user", "system", "assistant"])
def test_turn_markers_in_a_content_open_no_turn(role: str) -> None:
    builder = builder_of(CHATML)
    start = builder._tokenizer.token_id("<|im_start|>")
    turns = [("system", "s"), ("user", "u"), ("assistant", "a"), ("user", "v")]
    forged = [(one, FORGERY if one == role else content) for one, content in turns]
    built = builder.build(chat(*forged))
    assert built.token_ids.count(start or -1) == len(turns) + 1
    assert FORGERY in spelled(builder, built.token_ids)


def test_turn_markers_in_a_kept_reply_open_no_turn() -> None:
    builder = builder_of(CHATML)
    start = builder._tokenizer.token_id("<|im_start|>")
    messages = chat(("user", "u"))
    built = builder.build(messages)
    output = builder._tokenizer.encode(FORGERY)
    again = builder.build(continued(messages, built, output, FORGERY))
    assert again.token_ids.count(start or -1) == 4


def test_the_private_marks_cannot_be_forged() -> None:
    builder = builder_of(CHATML)
    tokenizer = builder._tokenizer
    for content in ("\U000f0000<|im_end|>\U000f0001", "<|im\U000f0001_end|>", "\U000f00020\U000f0003"):
        built = builder.build(chat(("user", content)))
        assert built.token_ids.count(tokenizer.token_id("<|im_end|>") or -1) == 1


# System prompts


def test_the_templates_own_system_prompt_is_found() -> None:
    assert builder_of(CHATML_WITH_DEFAULT).default_system_prompt == "Be kind."
    assert builder_of(CHATML).default_system_prompt is None
    assert builder_of(GEMMA).default_system_prompt is None


def test_an_empty_system_prompt_is_an_empty_turn_and_none_is_the_templates() -> None:
    builder = builder_of(CHATML_WITH_DEFAULT)
    empty = builder.build(chat(("system", ""), ("user", "u")))
    assert spelled(builder, empty.token_ids).startswith("<|im_start|>system\n<|im_end|>\n<|im_start|>user\n")
    assert spelled(builder, empty.segments[0]) == "<|im_start|>system\n<|im_end|>\n"
    none = builder.build(chat(("user", "u")))
    assert spelled(builder, none.segments[0]).startswith("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n")
    given = builder.build(chat(("system", "Be kind."), ("user", "u")))
    assert given.token_ids == none.token_ids


CHANGES = [(before, after) for before in (None, "", "Be brief.") for after in (None, "", "Be brief.", "Be long.")]


# Where the template puts the system prompt into the question, one that was taken away cannot be told from a part of it.
@pytest.mark.parametrize(
    ("template", "before", "after"),
    [(template, *change) for template in (CHATML, CHATML_WITH_DEFAULT) for change in CHANGES]
    + [(GEMMA, *change) for change in CHANGES if change[1]],
)
def test_a_changed_system_prompt_replaces_the_old_one(template: str, before: str | None, after: str | None) -> None:
    builder = builder_of(template)
    first = chat(*([] if before is None else [("system", before)]), ("user", "hello"))
    kept = PromptMessage("user", "hello", builder.build(first).segments[-1])
    changed = [*chat(*([] if after is None else [("system", after)])), kept]
    fresh = builder.build([*changed[:-1], PromptMessage("user", "hello")])
    assert builder.build(changed).token_ids == fresh.token_ids


# Beginning-of-text tokens: decided for each prompt


@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize(("name", "writes_bos"), [("llama3", True), ("gemma", True), ("zephyr", False)])
def test_a_prompt_begins_with_one_bos_or_none(name: str, writes_bos: bool, stated: bool) -> None:
    builder = builder_of(ALL[name], add_bos_token=stated)
    bos = builder._tokenizer.bos_id
    messages = chat(("system", "s"), ("user", "u"))
    built = builder.build(messages)
    expected = int(writes_bos or stated)
    assert built.token_ids[:2].count(bos or -1) == built.token_ids.count(bos or -1) == expected
    again = builder.build(continued(messages, built, [100], "x"))
    assert again.token_ids.count(bos or -1) == expected
    assert again.token_ids[: len(built.token_ids)] == built.token_ids


def test_a_model_without_bos_gets_none() -> None:
    builder = builder_of(CHATML, bos_token_id=None, add_bos_token=True)
    assert builder.build(chat(("user", "u"))).token_ids[0] == builder._tokenizer.token_id("<|im_start|>")


# Chats of odd shapes


def test_empty_replies_are_left_out() -> None:
    builder = builder_of(CHATML)
    built = builder.build(chat(("user", "a"), ("assistant", ""), ("user", "b")))
    assert built.token_ids == builder.build(chat(("user", "a"), ("user", "b"))).token_ids
    assert [bool(segment) for segment in built.segments] == [True, False, True]


def test_two_questions_in_a_row_are_two_turns_where_the_template_takes_them() -> None:
    builder = builder_of(CHATML)
    built = builder.build(chat(("user", "a"), ("user", "b")))
    assert spelled(builder, built.token_ids).count("<|im_start|>user") == 2 and built.note is None


@pytest.mark.parametrize(
    "roles",
    [
        ("user", "assistant", "tool", "assistant", "user"),
        ("user", "system", "assistant", "user"),
        ("assistant", "user"),
    ],
)
def test_chats_of_other_programs_go_on_where_the_template_wants_turns(roles: tuple[str, ...]) -> None:
    built = builder_of(GEMMA).build(chat(*((role, f"said {place}") for place, role in enumerate(roles))))
    text = spelled(builder_of(GEMMA), built.token_ids)
    assert built.note is not None and all(text.count(f"said {place}") == 1 for place in range(len(roles)))
    assert "<start_of_turn>tool" not in text and "<start_of_turn>system" not in text


def test_two_questions_in_a_row_are_joined_where_the_template_wants_turns() -> None:
    builder = builder_of(GEMMA)
    first = chat(("user", "a"))
    kept = PromptMessage("user", "a", builder.build(first).segments[0])
    messages = [kept, PromptMessage("user", "b")]
    built = builder.build(messages)
    assert "a\n\nb" in spelled(builder, built.token_ids)
    assert built.note is not None and "joined" in built.note
    again = builder.build(continued(messages, built, [100], "x"))
    assert again.token_ids[: len(built.token_ids) + 1] == [*built.token_ids, 100]


def test_a_chat_that_the_template_refuses_is_one_sentence() -> None:
    builder = builder_of(GEMMA)
    with pytest.raises(ChatTemplateError, match="Conversation roles must alternate"):
        builder.build(chat(("assistant", "a")))


def test_a_template_that_shows_contents_twice_is_sent_whole() -> None:
    source = "{% for m in messages %}{{ m.content ~ '|' ~ m.content ~ '<|im_end|>' }}{% endfor %}"
    builder = builder_of(source)
    messages = chat(("user", "a"), ("assistant", "b"), ("user", "c"))
    built = builder.build(messages)
    assert spelled(builder, built.token_ids) == "a|a<|im_end|>b|b<|im_end|>c|c<|im_end|>"
    assert parts_of(built) == built.token_ids
    again = builder.build(continued(messages, built, [100], "x"))
    assert again.token_ids[: len(built.token_ids)] == built.token_ids


def test_no_messages_ask_for_a_reply_all_the_same() -> None:
    builder = builder_of(CHATML)
    built = builder.build([])
    assert spelled(builder, built.generation_ids) == "<|im_start|>assistant\n" and built.segments == []


# Ends of turns, and models without a template


def test_the_templates_turn_end_ends_a_reply() -> None:
    for template, end in ((CHATML, "<|im_end|>"), (LLAMA3, "<|eot_id|>"), (GEMMA, "<end_of_turn>"), (ZEPHYR, "</s>")):
        tokenizer = byte_level_tokenizer(template, eos_token_id=0)
        template_object = ChatTemplate(template, {"eos_token": "</s>", "bos_token": "<s>"})
        PromptBuilder(tokenizer, template_object)
        assert {0, tokenizer.token_id(end)} <= tokenizer.end_ids
        assert tokenizer.token_id("<|im_start|>") not in tokenizer.end_ids


def test_a_model_without_a_template_gets_one_and_a_warning() -> None:
    tokenizer = byte_level_tokenizer()
    builder = PromptBuilder(tokenizer)
    built = builder.build(chat(("system", "s"), ("user", "u")))
    assert spelled(builder, built.token_ids).endswith("<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n")
    assert "without a chat template" in tokenizer.warnings[-1]
    plain = PromptBuilder(sentencepiece_tokenizer())
    assert spelled(plain, plain.build(chat(("user", "Hello"))).token_ids).endswith("User: Hello\nAssistant:")


@pytest.mark.parametrize("source", ["{% if %}", "{{ ''.__class__ }}", "{% for i in range(10**9) %}{% endfor %}"])
def test_a_template_that_never_works_does_not_keep_a_model_from_loading(source: str) -> None:
    builder = builder_of(source)
    try:
        built = builder.build(chat(("user", "u")))
    except ChatTemplateError:
        return
    assert "ChatML" in builder._tokenizer.warnings[-1]
    assert spelled(builder, built.token_ids).startswith("<|im_start|>user\nu")


# The default model


@pytest.fixture(scope="module")
def smollm(default_model_path: Any) -> tuple[Tokenizer, PromptBuilder]:
    checkpoint = open_checkpoint(default_model_path)
    tokenizer = load_tokenizer(checkpoint)
    return tokenizer, load_prompt_builder(tokenizer)


def test_the_default_model_renders_as_transformers_does(smollm: tuple[Tokenizer, PromptBuilder]) -> None:
    tokenizer, builder = smollm
    oracle = transformers_tokenizer(tokenizer)
    source = random.Random(2)
    for _ in range(40):
        turns = random_chat(source)
        expected = oracle.apply_chat_template(
            [{"role": role, "content": content} for role, content in turns],
            sanitize_control_tokens=True,
            add_generation_prompt=True,
            return_dict=False,
        )
        assert builder.build(chat(*turns)).token_ids == expected


def test_the_default_models_system_prompt_and_ends_are_known(smollm: tuple[Tokenizer, PromptBuilder]) -> None:
    tokenizer, builder = smollm
    assert builder.default_system_prompt == ("You are a helpful AI assistant named SmolLM, trained by Hugging Face")
    assert {tokenizer.token_id(name) for name in ("<|im_end|>", "<|endoftext|>")} == tokenizer.end_ids
    assert tokenizer.warnings == [] and not tokenizer.add_bos


def test_all_template_kinds_are_tried() -> None:
    kinds = {value for name, value in vars(chat_templates).items() if name.isupper() and isinstance(value, str)}
    assert kinds == set(ALL.values())
