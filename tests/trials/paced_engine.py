"""A scripted engine that gives its tokens on time, and replies whose tokens tell their number."""

from __future__ import annotations

import asyncio
import time
from itertools import count
from typing import Any

from support.paged_client import PagedFakeClient

TOKENS_PER_S = 200
PREFILL_S = 0.1
"""From a prompt's admission to its first token. Its blocks are found in the server's own process here, which holds the
page up as a real engine, a process of its own, does not: the server may catch up before the first token counts."""
INFO = {"model": "paced", "num_blocks": 12_000, "max_model_len": 30_000}


class PacedEngine(PagedFakeClient):
    """Each reply is a list of tokens, ``TOKENS_PER_S`` of them a second whatever else happens.

    Attributes:
        given_at: wall-clock seconds at which each token of a request was given, by request.
        deaf: cancelling does nothing, as in the middle of a long step.
    """

    def __init__(self, num_blocks: int = INFO["num_blocks"]) -> None:
        super().__init__(lambda request: ["Hello"], num_blocks=num_blocks, info={**INFO, "num_blocks": num_blocks})
        self.given_at: dict[str, list[float]] = {}
        self.deaf = False

    async def _wait_gate(self, request_id: str) -> None:
        given = self.given_at.setdefault(request_id, [])
        if not given:
            await asyncio.sleep(PREFILL_S)
        begun = given[0] if given else time.time()
        await asyncio.sleep(max(0.0, begun + len(given) / TOKENS_PER_S - time.time()))
        given.append(time.time())

    async def cancel(self, request_id: str) -> None:
        if not self.deaf:
            await super().cancel(request_id)


def long_reply(characters: int) -> list[str]:
    """Tokens ``w0``, ``w1`` … in paragraphs, lists, tables and code."""
    numbers, tokens, total = count(), list[str](), 0
    kinds = [_paragraph, _list, _table, _code, _paragraph, _ordered]
    while total < characters:
        for kind in kinds:
            tokens += kind(numbers)
            total = sum(map(len, tokens))
    return tokens


def plain_reply(num_tokens: int) -> list[str]:
    """So many tokens in one paragraph after the other."""
    numbers = count()
    return [token for _ in range(-(-num_tokens // 40)) for token in _paragraph(numbers)][:num_tokens]


def _paragraph(numbers: Any) -> list[str]:
    return [f"w{next(numbers)} " for _ in range(39)] + [f"w{next(numbers)}.\n\n"]


def _line(numbers: Any, begin: str, between: str, end: str, words: int) -> list[str]:
    first = [f"{begin}w{next(numbers)}{between}"]
    return first + [f"w{next(numbers)}{between}" for _ in range(words - 2)] + [f"w{next(numbers)}{end}"]


def _list(numbers: Any) -> list[str]:
    return [token for _ in range(25) for token in _line(numbers, "- ", " ", "\n", 6)] + ["\n"]


def _ordered(numbers: Any) -> list[str]:
    return [token for one in range(12) for token in _line(numbers, f"{one + 1}. ", " *and* ", "\n", 5)] + ["\n"]


def _table(numbers: Any) -> list[str]:
    rows = [token for _ in range(25) for token in _line(numbers, "| ", " | ", " |\n", 4)]
    return ["| a | b | c | d |\n", "|---|---|---|---|\n", *rows, "\n"]


def _code(numbers: Any) -> list[str]:
    lines = [token for _ in range(50) for token in _line(numbers, "    x = ", " + ", "  # so\n", 5)]
    return ["```python\n", "def f(x):\n", *lines, "```\n", "\n"]
