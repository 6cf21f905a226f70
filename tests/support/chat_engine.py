"""Chats over an engine whose tokens, blocks and prompts are real and whose model is scripted."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from pagedchat.engine.config import EngineConfig
from pagedchat.engine.generate_request import GenerateRequest, RequestStarted
from pagedchat.engine.prompting import Prompting
from pagedchat.engine.sampling_params import SamplingParams
from support.paged_model import CheckedEngine, PagedModel, drain
from support.prompts import builder_of


class ScriptedModel(PagedModel):
    """Says what it was told to, token by token; reads its context as ``PagedModel`` does.

    Left to itself it never says one of ``end_ids``: no reply ends by chance.
    """

    def __init__(self, num_blocks: int, block_size: int, vocab_size: int, end_ids: set[int]) -> None:
        super().__init__(num_blocks, block_size)
        self.vocab_size = vocab_size
        self.end_ids = sorted(end_ids)
        self.script: list[int] = []

    def _logits(self, groups: Any, row: int) -> np.ndarray:
        seen = b"".join(self._context(group, row).tobytes() for group in groups)
        logits = np.random.default_rng(zlib.crc32(seen)).normal(size=self.vocab_size)
        logits[self.end_ids] = -1e6
        if self.script:
            logits[self.script.pop(0)] = 1e6
        return logits


class ChatEngine:
    """``say`` sends a request for a chat and returns the prompt, its metrics and the reply's ids."""

    def __init__(self, template: str, *, num_blocks: int = 512, block_size: int = 4, **settings: Any) -> None:
        self.builder = builder_of(template)
        self.tokenizer = self.builder._tokenizer
        config = EngineConfig(model="scripted", block_size=block_size, num_blocks=num_blocks, **settings)
        self.model = ScriptedModel(num_blocks, block_size, self.tokenizer.num_tokens, self.tokenizer.end_ids)
        self.engine = CheckedEngine(
            config, runner=self.model, tokenizer=self.tokenizer, prompt_builder=self.builder, num_blocks=num_blocks
        )  # type: ignore[arg-type]
        self.prompting = Prompting(self.engine)
        self.end = self.tokenizer.token_id(self.builder._layout.turn_end() or "") or 0

    def request(self, messages: list[dict[str, Any]], **fields: Any) -> GenerateRequest:
        params = SamplingParams(temperature=0, max_tokens=fields.pop("max_tokens", 200))
        return GenerateRequest(params, messages=messages, **fields)

    def say(
        self, messages: list[dict[str, Any]], text: str, *, ids: list[int] | None = None, **fields: Any
    ) -> tuple[RequestStarted, Any, list[int]]:
        request = self.request(messages, **fields)
        started = self.prompting.start(request)
        self.model.script = [*(self.tokenizer.encode(text) if ids is None else ids), self.end]
        self.engine.add_request(
            request.request_id,
            started.prompt_token_ids,
            request.params,
            salt=request.salt,
            continues=not request.add_generation_prompt,
        )
        produced, last = drain(self.engine)
        output = produced[request.request_id]
        if request.remember:
            self.builder.remember(output, text)
        return started, last[request.request_id].metrics, output

    def probe(self, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        return self.prompting.probe(self.request(messages, **fields))


def said(role: str, content: str, token_ids: list[int] | None = None) -> dict[str, Any]:
    """A message of a chat."""
    return {"role": role, "content": content, "token_ids": token_ids}
