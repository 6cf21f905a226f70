"""Small tokenizers, built in milliseconds: byte-level BPE and SentencePiece, as GGUF metadata or as a directory."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pagedchat.engine.gguf_tokenizer import tokenizer_from_gguf
from pagedchat.engine.tokenizer import Tokenizer

CONTROL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<s>",
    "</s>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<start_of_turn>",
    "<end_of_turn>",
)
_WORDS = (
    "hello",
    "Hello",
    " hello",
    " world",
    "system",
    "user",
    "assistant",
    "\n\n",
    ".\n\n",
    " the",
    "  ",
    "###",
    "ab",
)


def byte_alphabet() -> list[str]:
    """GPT-2's stand-in for each byte, in the order of the bytes."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    table = bytes_to_unicode()
    return [table[byte] for byte in range(256)]


def byte_level_metadata(
    *, pre: str | None = "smollm", words: Iterable[str] = _WORDS, user_defined: Iterable[str] = (), **changes: Any
) -> dict[str, Any]:
    """GGUF metadata of a byte-level BPE tokenizer whose merges spell ``words``. ``changes`` replace whole entries."""
    alphabet = byte_alphabet()
    tokens, merges = [*CONTROL, *alphabet], []
    for word in words:
        spelled = [alphabet[byte] for byte in word.encode()]
        for end in range(2, len(spelled) + 1):
            joined = "".join(spelled[:end])
            if joined not in tokens:
                tokens.append(joined)
                merges.append(f"{''.join(spelled[: end - 1])} {spelled[end - 1]}")
    types = [3] * len(CONTROL) + [1] * (len(tokens) - len(CONTROL))
    for token in user_defined:
        tokens.append(token)
        types.append(4)
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": tokens.index("<s>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.ggml.add_bos_token": False,
    }
    metadata = {**metadata, **{f"tokenizer.ggml.{name}": value for name, value in changes.items()}}
    return {name: value for name, value in metadata.items() if value is not None}


def sentencepiece_metadata(**changes: Any) -> dict[str, Any]:
    """GGUF metadata of a SentencePiece tokenizer with byte fallback."""
    pieces = ["▁", "H", "e", "l", "o", "w", "r", "d", "!", "x", "a", "b", "▁H", "el", "lo", "ello", "▁Hello", "▁w"]
    pieces += ["or", "ld", "orld", "▁world", "▁x", "▁▁", "<", ">", "/", "s", "</"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    types = [2, 3, 3] + [6] * 256 + [1] * len(pieces)
    scores = [0.0] * 259 + [
        -float(place) if len(piece) == 1 else float(len(piece)) for place, piece in enumerate(pieces)
    ]
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    return {**metadata, **{f"tokenizer.ggml.{name}": value for name, value in changes.items()}}


def byte_level_tokenizer(template: str | None = None, **changes: Any) -> Tokenizer:
    """A byte-level tokenizer; ``template`` becomes its chat template."""
    metadata = byte_level_metadata(**changes)
    if template is not None:
        metadata["tokenizer.chat_template"] = template
    return tokenizer_from_gguf(metadata)


def sentencepiece_tokenizer(template: str | None = None, **changes: Any) -> Tokenizer:
    """A SentencePiece tokenizer; ``template`` becomes its chat template."""
    metadata = sentencepiece_metadata(**changes)
    if template is not None:
        metadata["tokenizer.chat_template"] = template
    return tokenizer_from_gguf(metadata)


def save_directory(tokenizer: Tokenizer, folder: Path, config: dict[str, Any] | None = None) -> Path:
    """Write a tokenizer as Hugging Face directories hold it."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer._backend.save(str(folder / "tokenizer.json"))
    stated = {**tokenizer.special_tokens, "add_bos_token": tokenizer.add_bos, **(config or {})}
    if tokenizer.chat_template and "chat_template" not in stated:
        stated["chat_template"] = tokenizer.chat_template
    (folder / "tokenizer_config.json").write_text(json.dumps(stated))
    return folder


def transformers_tokenizer(tokenizer: Tokenizer) -> Any:
    """The same tokenizer as transformers has it, with its chat template: the oracle for rendered chats."""
    from tokenizers import Tokenizer as Backend
    from transformers import PreTrainedTokenizerFast

    backend = Backend.from_str(tokenizer._backend.to_str())
    oracle = PreTrainedTokenizerFast(tokenizer_object=backend, **tokenizer.special_tokens)
    oracle.chat_template = tokenizer.chat_template
    return oracle
