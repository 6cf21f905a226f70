"""From engine outputs to OpenAI's objects: whole replies and chunks of streams."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import orjson

from ..engine.client import EngineClient
from ..engine.generate_request import GenerateRequest, RequestStarted
from ..engine.reasoning import Parts, ReasoningSplitter
from ..engine.types import RequestOutput, TokenLogprobs
from .api_errors import ApiError, api_error
from .api_v1_logprobs import CompletionLogprobs, chat_logprobs, prompt_logprobs
from .api_v1_request import ApiRequest

DONE = b"data: [DONE]\n\n"


@dataclass
class Choice:
    """One reply as it grows; a prompt has as many as ``n`` says, side by side.

    Attributes:
        text: the reply, in a chat without the thinking.
        reasoning: in a chat, what a model that marks its thinking thought before.
    """

    index: int
    chat: bool = True
    prompt_token_ids: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    cached_tokens: int = 0
    begun: bool = False
    logprobs: list[TokenLogprobs] | None = None
    prompt_logprobs: list[TokenLogprobs | None] | None = None
    offsets: CompletionLogprobs = field(default_factory=CompletionLogprobs)
    splitter: ReasoningSplitter | None = None

    def start(self, started: RequestStarted) -> None:
        """Take the prompt, and where the reply begins."""
        self.prompt_token_ids = started.prompt_token_ids
        if self.chat and started.reasoning_state is not None:
            self.splitter = ReasoningSplitter(state=started.reasoning_state, held=started.reasoning_held)

    def take(self, output: RequestOutput) -> Parts:
        """Add an output; returns the text that is certain now.

        Raises:
            ApiError: 500 if the engine gave up.
        """
        parts = self._split(output)
        self.reasoning.append(parts.reasoning)
        self.text.append(parts.answer)
        self.token_ids += output.token_ids
        self.finish_reason = output.finish_reason
        if output.logprobs is not None:
            self.logprobs = [*(self.logprobs or []), *output.logprobs]
        self.prompt_logprobs = output.prompt_logprobs or self.prompt_logprobs
        if output.metrics is not None:
            self.cached_tokens = output.metrics.cached_tokens
        if output.finish_reason == "error":
            raise ApiError(500, output.error or "The engine could not finish this reply.")
        return parts

    def _split(self, output: RequestOutput) -> Parts:
        if self.splitter is None:
            return Parts(answer=output.text)
        parts = self.splitter.feed(output.text)
        if output.finish_reason is not None:
            rest = self.splitter.end()
            parts = Parts(parts.reasoning + rest.reasoning, parts.answer + rest.answer)
        return parts

    def told(self, entries: list[TokenLogprobs] | None) -> dict[str, Any] | None:
        """``logprobs`` of these tokens, the next ones of the reply."""
        if entries is None:
            return None
        return chat_logprobs(entries) if self.chat else self.offsets.of(entries)


class Reply:
    """All choices of one request, for chat or for plain completions.

    Attributes:
        chat: whether the objects are those of chat completions.
    """

    def __init__(self, client: EngineClient, asked: ApiRequest, model: str, *, chat: bool) -> None:
        self.chat = chat
        self._client = client
        self._asked = asked
        self._choices = [Choice(index, chat) for index in range(sum(one.params.n for one in asked.requests))]
        prefix, kind = ("chatcmpl-", "chat.completion") if chat else ("cmpl-", "text_completion")
        self._head = {"id": prefix + uuid4().hex, "object": kind, "created": int(time.time()), "model": model}

    # -- running ----------------------------------------------------------------------------------------------------

    async def whole(self) -> dict[str, Any]:
        """Run to the end; the response object.

        Raises:
            ApiError, PagedChatError: if a prompt is refused or the engine gives up.
        """
        async with contextlib.aclosing(self._outputs()) as outputs:
            async for choice, output in outputs:
                if output is not None:
                    choice.take(output)
        answer = {**self._head, "choices": [self._whole_choice(one) for one in self._choices], "usage": self._usage()}
        if self.chat and self._asked.return_token_ids:
            answer["prompt_token_ids"] = self._choices[0].prompt_token_ids
        if self.chat and self._choices[0].prompt_logprobs is not None:
            answer["prompt_logprobs"] = prompt_logprobs(self._choices[0].prompt_logprobs)
        return answer

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Server-sent events. The first item comes when all prompts are accepted; it may be empty.

        Raises:
            ApiError, PagedChatError: before the first item; later errors are sent as an event.
        """
        waiting, early = len(self._asked.requests), b""
        if self.chat:
            self._head["object"] = "chat.completion.chunk"
        async with contextlib.aclosing(self._outputs()) as outputs:
            try:
                async for choice, output in outputs:
                    if output is None:
                        waiting -= 1
                        if waiting == 0:
                            yield early
                        continue
                    parts = choice.take(output)
                    event = self._event(self._chunk(choice, output, parts))
                    if waiting:
                        early += event
                    else:
                        yield event
                if self._asked.include_usage:
                    yield self._event({**self._head, "choices": [], "usage": self._usage()})
            except Exception as error:
                if waiting:
                    raise
                yield self._event(api_error(error).body)
        yield DONE

    async def _outputs(self) -> AsyncGenerator[tuple[Choice, RequestOutput | None], None]:
        """Outputs of all prompts as they come; None once for each prompt that starts."""
        sources, first = [], 0
        for request in self._asked.requests:
            sources.append(self._one(request, self._choices[first : first + request.params.n]))
            first += request.params.n
        merged = sources[0] if len(sources) == 1 else _merged(sources)
        async with contextlib.aclosing(merged):
            async for item in merged:
                yield item

    async def _one(
        self, request: GenerateRequest, choices: list[Choice]
    ) -> AsyncGenerator[tuple[Choice, RequestOutput | None], None]:
        async with contextlib.aclosing(self._client.generate(request)) as items:
            async for item in items:
                if isinstance(item, RequestStarted):
                    for choice in choices:
                        choice.start(item)
                    yield choices[0], None
                else:
                    yield choices[item.index], item

    # -- objects ----------------------------------------------------------------------------------------------------

    def _whole_choice(self, choice: Choice) -> dict[str, Any]:
        text = "".join(choice.text)
        fields: dict[str, Any] = {"index": choice.index}
        if self.chat:
            fields["message"] = {"role": "assistant", "content": text, "refusal": None}
            if reasoning := "".join(choice.reasoning):
                fields["message"]["reasoning_content"] = reasoning
        else:
            fields["text"] = text
        fields |= {"logprobs": choice.told(choice.logprobs), "finish_reason": choice.finish_reason}
        first = self._choices[choice.index - choice.index % self._asked.requests[0].params.n]
        if not self.chat and first.prompt_logprobs is not None:  # samples share their prompt
            fields["prompt_logprobs"] = prompt_logprobs(first.prompt_logprobs)
        if self._asked.return_token_ids:
            fields["token_ids"] = choice.token_ids
            if not self.chat:
                fields["prompt_token_ids"] = choice.prompt_token_ids
        return fields

    def _chunk(self, choice: Choice, output: RequestOutput, parts: Parts) -> dict[str, Any]:
        first, choice.begun = not choice.begun, True
        fields: dict[str, Any] = {"index": choice.index}
        if self.chat:
            fields["delta"] = {"role": "assistant", **_delta(parts)} if first else _delta(parts)
        else:
            fields["text"] = parts.answer
        fields |= {"logprobs": choice.told(output.logprobs), "finish_reason": output.finish_reason}
        chunk: dict[str, Any] = {**self._head, "choices": [fields]}
        if self._asked.return_token_ids:
            fields["token_ids"] = output.token_ids
            if first:
                (chunk if self.chat else fields)["prompt_token_ids"] = choice.prompt_token_ids
        if self._asked.include_usage:
            chunk["usage"] = None
        return chunk

    def _usage(self) -> dict[str, Any]:
        firsts = self._choices[:: self._asked.requests[0].params.n]  # samples share their prompt
        prompt = sum(len(one.prompt_token_ids) for one in firsts)
        completion = sum(len(one.token_ids) for one in self._choices)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": sum(one.cached_tokens for one in firsts)},
        }

    @staticmethod
    def _event(value: dict[str, Any]) -> bytes:
        return b"data: " + orjson.dumps(value) + b"\n\n"


def _delta(parts: Parts) -> dict[str, str]:
    """Thinking apart from content, under the name that vLLM and DeepSeek gave it."""
    if not parts.reasoning:
        return {"content": parts.answer}
    return {"reasoning_content": parts.reasoning, **({"content": parts.answer} if parts.answer else {})}


async def _merged(sources: list[AsyncGenerator[Any, None]]) -> AsyncGenerator[Any, None]:
    """Items of all sources as they come; the first error ends all."""
    queue: asyncio.Queue[Any] = asyncio.Queue()

    async def pump(source: AsyncGenerator[Any, None]) -> None:
        try:
            async for item in source:
                queue.put_nowait((item, None))
        except Exception as error:
            queue.put_nowait((None, error))
        else:
            queue.put_nowait((None, None))

    tasks = [asyncio.create_task(pump(source)) for source in sources]
    try:
        running = len(tasks)
        while running:
            item, error = await queue.get()
            if error is not None:
                raise error
            if item is None:
                running -= 1
            else:
                yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
