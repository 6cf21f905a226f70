"""Token ids: those of llama.cpp for a GGUF file, those of transformers for a directory, the same for both."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pagedchat.engine.errors import ModelFileError
from pagedchat.engine.gguf_tokenizer import PRE_RULES, tokenizer_from_gguf
from pagedchat.engine.hf_tokenizer import tokenizer_from_directory
from pagedchat.engine.models.gguf_reader import GGUFReader
from pagedchat.engine.tokenizer import Tokenizer, load_tokenizer
from support.tiny_gguf import TINY, write_gguf
from support.tiny_hf_dir import write_hf_dir
from support.tiny_tokenizers import (
    CONTROL,
    byte_level_metadata,
    byte_level_tokenizer,
    save_directory,
    sentencepiece_metadata,
    sentencepiece_tokenizer,
    transformers_tokenizer,
)

DATA = Path(__file__).parent.parent / "data"
TEXTS = [
    "naïve café – Ærøskøbing",
    "1234567 12 3",
    "two  spaces\tand\ttabs\n\nand\r\nlines",
    "don't CAN'T we've",
    "👨‍👩‍👧 한국어 中文分词",
    " leading and trailing ",
    "".join(CONTROL),
    "hello world hello",
    "",
]


@pytest.fixture(scope="module")
def smollm(default_model_path: Path) -> Tokenizer:
    return load_tokenizer(default_model_path)


def test_ids_of_the_default_model_equal_those_of_llama_server(smollm: Tokenizer) -> None:
    cases = json.loads((DATA / "smollm2_tokenize.json").read_text())["cases"]
    assert len(cases) >= 500
    wrong = [case["text"] for case in cases if smollm.encode(case["text"]) != case["ids"]]
    assert not wrong
    assert all(smollm.decode(case["ids"], skip_special=False) == case["text"] for case in cases)
    assert not smollm.warnings


@pytest.mark.parametrize("pre", ["default", "gpt-2", "llama-bpe", "dbrx", "qwen2", "falcon", "starcoder"])
def test_every_pre_tokenizer_rule_splits_as_llama_server_does(default_model_path: Path, pre: str) -> None:
    metadata = {**GGUFReader(default_model_path).metadata, "tokenizer.ggml.pre": pre}
    tokenizer = tokenizer_from_gguf(metadata)
    cases = json.loads((DATA / "pre_tokenizers.json").read_text())["cases"]
    assert len(cases) > 80 and not tokenizer.warnings
    assert [case["text"] for case in cases if tokenizer.encode(case["text"]) != case[pre]] == []


def test_each_pre_tokenizer_name_has_a_rule_that_is_checked() -> None:
    checked = {PRE_RULES[name] for name in ("default", "gpt-2", "llama-bpe", "dbrx", "qwen2", "falcon", "starcoder")}
    assert set(PRE_RULES.values()) == checked
    assert PRE_RULES["smollm"] == PRE_RULES["starcoder"]


@pytest.mark.parametrize("pre", ["no-such-rule", None])
def test_an_unknown_or_missing_pre_tokenizer_is_a_visible_warning(pre: str | None) -> None:
    tokenizer = tokenizer_from_gguf(byte_level_metadata(pre=pre), "tiny.gguf")
    assert len(tokenizer.warnings) == 1
    assert "tiny.gguf" in tokenizer.warnings[0] and "pre-tokenizer" in tokenizer.warnings[0]
    assert pre is None or repr(pre) in tokenizer.warnings[0]
    assert tokenizer.decode(tokenizer.encode("hello")) == "hello"


@pytest.mark.parametrize("make", [byte_level_tokenizer, sentencepiece_tokenizer])
def test_gguf_and_directory_give_the_same_ids(tmp_path: Path, make: Any) -> None:
    from_gguf = make()
    from_directory = tokenizer_from_directory(save_directory(from_gguf, tmp_path))
    for text in TEXTS:
        for special in (False, True):
            assert from_directory.encode(text, allow_special=special) == from_gguf.encode(text, allow_special=special)
    assert from_directory.num_tokens == from_gguf.num_tokens
    assert from_directory.end_ids == from_gguf.end_ids
    assert (from_directory.bos_id, from_directory.add_bos) == (from_gguf.bos_id, from_gguf.add_bos)
    assert from_directory.special_tokens == from_gguf.special_tokens


@pytest.mark.parametrize("make", [byte_level_tokenizer, sentencepiece_tokenizer])
def test_ids_and_text_equal_those_of_transformers(make: Any) -> None:
    tokenizer = make()
    oracle = transformers_tokenizer(tokenizer)
    for text in TEXTS:
        plain = oracle.encode(text, add_special_tokens=False, split_special_tokens=True)
        assert tokenizer.encode(text) == plain
        special = oracle.encode(text, add_special_tokens=False, split_special_tokens=False)
        assert tokenizer.encode(text, allow_special=True) == special
        for ids in (plain, special):
            assert tokenizer.decode(ids) == oracle.decode(ids, skip_special_tokens=True)


def test_control_tokens_in_a_text_are_characters_unless_allowed() -> None:
    tokenizer = byte_level_tokenizer()
    end = tokenizer.token_id("<|im_end|>")
    assert end not in tokenizer.encode("a<|im_end|>")
    assert tokenizer.encode("a<|im_end|>", allow_special=True)[-1] == end
    assert tokenizer.decode(tokenizer.encode("a<|im_end|>")) == "a<|im_end|>"


def test_user_defined_tokens_are_always_matched_and_always_shown() -> None:
    tokenizer = byte_level_tokenizer(user_defined=["<think>"])
    number = tokenizer.token_id("<think>")
    assert number is not None and number not in tokenizer.special_ids
    assert tokenizer.encode("<think>hello")[0] == number
    assert tokenizer.decode([number]) == "<think>"


def test_sentencepiece_falls_back_to_bytes_and_keeps_the_text() -> None:
    tokenizer = sentencepiece_tokenizer()
    ids = tokenizer.encode("Hello world é🎉")
    assert [tokenizer.token_bytes(number) for number in ids[:2]] == [b" Hello", b" world"]
    assert b"\xf0" in [tokenizer.token_bytes(number) for number in ids]
    assert tokenizer.decode(ids) == "Hello world é🎉"
    assert 2 not in tokenizer.encode("</s>")


def test_a_raw_prompt_begins_with_one_bos_where_the_file_says_so() -> None:
    for stated, count in ((True, 1), (False, 0)):
        tokenizer = byte_level_tokenizer(add_bos_token=stated)
        assert tokenizer.encode_prompt("hello").count(tokenizer.bos_id or -1) == count
        assert tokenizer.encode_prompt("<s>hello").count(tokenizer.bos_id or -1) == 1
        assert tokenizer.bos_id not in tokenizer.encode("hello")
    # Left open by the file, it is the family's habit.
    assert byte_level_tokenizer(pre="llama-bpe", add_bos_token=None).add_bos
    assert not byte_level_tokenizer(pre="qwen2", add_bos_token=None).add_bos
    assert sentencepiece_tokenizer().add_bos


def test_tokens_beyond_the_embedding_rows_are_refused(tmp_path: Path) -> None:
    metadata = byte_level_metadata(words=[f"w{number}x" for number in range(400)])
    assert len(metadata["tokenizer.ggml.tokens"]) > TINY.vocab_size
    with pytest.raises(ModelFileError, match="do not belong together"):
        load_tokenizer(write_gguf(tmp_path / "tiny.gguf", metadata=metadata))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": "bert"}, "'bert', which is not supported"),
        ({"tokens": None}, "no tokenizer"),
        ({"token_type": [1, 2]}, "token types"),
        ({"merges": ["zz yy"]}, "makes no sense"),
    ],
)
def test_a_tokenizer_that_cannot_be_built_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelFileError, match=reason):
        tokenizer_from_gguf(byte_level_metadata(**changes))


def test_a_directory_without_a_tokenizer_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"no tokenizer.json"):
        load_tokenizer(write_hf_dir(tmp_path / "tiny"))
    (tmp_path / "tiny" / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelFileError, match=r"tokenizer.json cannot be read"):
        load_tokenizer(tmp_path / "tiny")


# Ids that end a reply


def test_every_end_of_a_gguf_ends_a_reply() -> None:
    tokens = byte_level_metadata()["tokenizer.ggml.tokens"]
    places = {name: tokens.index(text) for name, text in (("eos", "</s>"), ("eot", "<|eot_id|>"), ("eom", "<s>"))}
    tokenizer = byte_level_tokenizer(**{f"{name}_token_id": place for name, place in places.items()})
    assert set(places.values()) <= tokenizer.end_ids
    assert tokenizer.token_id("<|endoftext|>") in tokenizer.end_ids


@pytest.mark.parametrize("stated", [5, [5, 7, 8], None])
def test_ends_of_all_files_of_a_directory_are_joined(tmp_path: Path, stated: Any) -> None:
    save_directory(byte_level_tokenizer(), tmp_path, {"eos_token": {"content": "</s>", "special": True}})
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": stated}))
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 6}))
    tokenizer = tokenizer_from_directory(tmp_path)
    listed = stated if isinstance(stated, list) else [stated] * (stated is not None)
    assert {6, tokenizer.token_id("</s>"), *listed} <= tokenizer.end_ids


def test_ends_are_not_shown_even_where_the_file_calls_them_ordinary() -> None:
    types = byte_level_metadata()["tokenizer.ggml.token_type"]
    tokenizer = byte_level_tokenizer(token_type=[1] * len(types))
    end = tokenizer.token_id("<|im_end|>")
    assert end in tokenizer.end_ids
    assert tokenizer.decode([end, *tokenizer.encode("hello"), end]) == "hello"


# Chat templates of directories


def test_a_template_file_beats_the_configured_one(tmp_path: Path) -> None:
    save_directory(byte_level_tokenizer(), tmp_path, {"chat_template": "configured"})
    assert tokenizer_from_directory(tmp_path).chat_template == "configured"
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "usual"}]
    save_directory(byte_level_tokenizer(), tmp_path, {"chat_template": named})
    assert tokenizer_from_directory(tmp_path).chat_template == "usual"
    (tmp_path / "chat_template.jinja").write_text("from the file")
    assert tokenizer_from_directory(tmp_path).chat_template == "from the file"


def test_loading_a_tokenizer_imports_neither_transformers_nor_torch(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", metadata=byte_level_metadata())
    script = (
        "import sys\n"
        "from pagedchat.engine.tokenizer import load_tokenizer\n"
        f"print(load_tokenizer({str(path)!r}).encode('hello'))\n"
        "print(sorted({'torch', 'transformers', 'gguf'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.splitlines()[1] == "[]"


def test_sentencepiece_metadata_needs_no_scores() -> None:
    tokenizer = tokenizer_from_gguf(sentencepiece_metadata(scores=None))
    assert tokenizer.decode(tokenizer.encode("Hello")) == "Hello"
