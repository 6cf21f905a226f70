"""Log probabilities in the shapes of OpenAI and, for prompts, of vLLM."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

from ..engine.types import TokenLogprob, TokenLogprobs

LEAST = -9999.0
"""What OpenAI says for a token that cannot come; JSON has no -inf."""


def chat_logprobs(entries: Sequence[TokenLogprobs]) -> dict[str, Any]:
    """``logprobs`` of a chat choice or chunk."""
    content = [{**_chat_token(one), "top_logprobs": [_chat_token(each) for each in one.top]} for one in entries]
    return {"content": content, "refusal": None}


def prompt_logprobs(entries: Sequence[TokenLogprobs | None]) -> list[dict[str, dict[str, Any]] | None]:
    """vLLM's ``prompt_logprobs``: for each token of the prompt its own and the likeliest ones, by id."""
    return [None if one is None else {str(each.token_id): _ranked(each) for each in (*one.top, one)} for one in entries]


class CompletionLogprobs:
    """Builds ``logprobs`` of plain completions, whose offsets go on from chunk to chunk."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._length = 0

    def of(self, entries: Sequence[TokenLogprobs]) -> dict[str, Any]:
        """``logprobs`` of a choice or chunk; the token itself is always among its ``top_logprobs``."""
        offsets = []
        for one in entries:
            offsets.append(self._length)
            self._length += len(self._decoder.decode(one.piece))
        return {
            "tokens": [_name(one) for one in entries],
            "token_logprobs": [_number(one) for one in entries],
            "top_logprobs": [{_name(each): _number(each) for each in (*one.top, one)} for one in entries],
            "text_offset": offsets,
        }


def _chat_token(one: TokenLogprob) -> dict[str, Any]:
    return {"token": one.piece.decode("utf-8", "replace"), "logprob": _number(one), "bytes": list(one.piece)}


def _ranked(one: TokenLogprob) -> dict[str, Any]:
    return {"logprob": _number(one), "rank": one.rank, "decoded_token": one.piece.decode("utf-8", "replace")}


def _name(one: TokenLogprob) -> str:
    """A token's text, or its bytes where they are no whole characters, as OpenAI writes them."""
    try:
        return one.piece.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in one.piece)


def _number(one: TokenLogprob) -> float:
    return max(one.logprob, LEAST)
