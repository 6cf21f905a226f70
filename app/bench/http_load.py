"""The client of the load benches: streams replies over OpenAI's API and notes when each token came.

Times are taken where a user is: after the server's HTTP and the client's own parsing.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx
import orjson

from .target import Target
from .words import sentence_text

TIMEOUT_S = 600.0
CONNECTIONS = 256


@dataclass(frozen=True)
class Ask:
    """One request to send: messages of a chat, or a plain prompt.

    Attributes:
        seed, temperature: greedy unless said otherwise.
        whole: go on past the model's own end, so that the reply has exactly ``max_tokens``.
    """

    max_tokens: int
    messages: Sequence[dict[str, str]] | None = None
    prompt: str | None = None
    temperature: float = 0.0
    seed: int | None = None
    whole: bool = True
    label: str = ""


@dataclass
class Answer:
    """What came back, and when (seconds of the monotonic clock).

    Attributes:
        moments: (when, how many tokens) of each chunk that carried some.
        completion_tokens: as the server counted them; without its word, as the chunks were counted.
        error: what went wrong, in a sentence; "" if nothing did.
    """

    ask: Ask
    sent: float
    moments: list[tuple[float, int]] = field(default_factory=list)
    ended: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    completion_tokens: int = 0
    text: str = ""
    finish_reason: str | None = None
    error: str = ""

    @property
    def ttft(self) -> float | None:
        """Seconds from sending to the first token."""
        return self.moments[0][0] - self.sent if self.moments else None

    @property
    def e2e(self) -> float:
        """Seconds from sending to the end of the stream."""
        return self.ended - self.sent

    @property
    def itl(self) -> list[float]:
        """Seconds between the arrivals of tokens; tokens that came together have been waited for once."""
        return [after[0] - before[0] for before, after in zip(self.moments, self.moments[1:], strict=False)]

    @property
    def tpot(self) -> float | None:
        """Mean seconds for each token after the first; None for a reply of one."""
        if self.completion_tokens < 2 or len(self.moments) < 2:
            return None
        return (self.moments[-1][0] - self.moments[0][0]) / (self.completion_tokens - 1)

    def tokens_by(self, moment: float) -> int:
        """Prompt and reply tokens that lived in its KV at a time; 0 before the first token and after the end."""
        if not self.moments or moment < self.moments[0][0] or (self.ended and moment > self.ended):
            return 0
        return self.prompt_tokens + sum(count for when, count in self.moments if when <= moment)


class LoadClient:
    """Sends requests to one target; an async context manager.

    Attributes:
        answers: of all requests so far, running ones too, in the order they were sent.
        salt: of a peer's prefix cache; requests of one salt share what was computed, those of another find nothing.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.answers: list[Answer] = []
        self.salt = secrets.token_hex(8)
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
        self.http = httpx.AsyncClient(base_url=target.url, timeout=TIMEOUT_S, limits=limits, trust_env=False)

    async def __aenter__(self) -> LoadClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def send(self, ask: Ask) -> Answer:
        """Stream one reply to its end. Errors are in the answer, not raised."""
        answer = Answer(ask, time.monotonic())
        self.answers.append(answer)
        path = "/v1/completions" if ask.messages is None else "/v1/chat/completions"
        try:
            async with self.http.stream("POST", path, json=self._body(ask)) as reply:
                if reply.status_code != 200:
                    answer.error = _error_of(await reply.aread(), reply.status_code)
                else:
                    await _follow(reply, answer)
        except httpx.HTTPError as error:
            answer.error = f"{type(error).__name__}: {error}"
        answer.ended = time.monotonic()
        _complete(answer)
        return answer

    async def send_all(self, asks: Sequence[Ask]) -> list[Answer]:
        """Send several at once; their answers in order."""
        return list(await asyncio.gather(*(self.send(ask) for ask in asks)))

    def _body(self, ask: Ask) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.target.model,
            "max_tokens": ask.max_tokens,
            "temperature": ask.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        body |= {"prompt": ask.prompt} if ask.messages is None else {"messages": list(ask.messages)}
        if ask.seed is not None:
            body["seed"] = ask.seed
        extra: dict[str, Any] = {"return_token_ids": True, "ignore_eos": ask.whole}
        if not self.target.ours:
            extra["cache_salt"] = self.salt
        return body | {name: value for name, value in extra.items() if name in self.target.fields}

    async def tokens_per_word(self) -> float:
        """How many tokens of this target's model a word of `words` is."""
        counts = []
        for count in (20, 120):
            counts.append((await self.send(Ask(1, prompt=sentence_text(Random(0), count)))).prompt_tokens)
        return max(0.2, (counts[1] - counts[0]) / 100)


@asynccontextmanager
async def clients_for(targets: Sequence[Target]) -> AsyncIterator[list[LoadClient]]:
    """A client for each target, closed with the context."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(LoadClient(target)) for target in targets]


async def _follow(reply: httpx.Response, answer: Answer) -> None:
    parts: list[str] = []
    async for line in reply.aiter_lines():
        if not line.startswith("data:") or line.endswith("[DONE]"):
            continue
        now, chunk = time.monotonic(), orjson.loads(line[5:])
        if "error" in chunk:
            answer.error = str(chunk["error"].get("message", chunk["error"]))
            break
        _take_usage(chunk.get("usage"), answer)
        for choice in chunk.get("choices") or ():
            _take_choice(choice, chunk, now, answer, parts)
    answer.text = "".join(parts)


def _take_choice(choice: dict[str, Any], chunk: dict[str, Any], now: float, answer: Answer, parts: list[str]) -> None:
    delta = choice.get("delta") or {}
    text = (delta.get("content") or "") + (delta.get("reasoning_content") or "") if delta else choice.get("text") or ""
    parts.append(text)
    ids = choice.get("token_ids")
    count = len(ids) if ids is not None else int(bool(text))
    if count:
        answer.moments.append((now, count))
    prompt_ids = choice.get("prompt_token_ids") or chunk.get("prompt_token_ids")
    if prompt_ids:
        answer.prompt_tokens = len(prompt_ids)
    answer.finish_reason = choice.get("finish_reason") or answer.finish_reason


def _take_usage(usage: dict[str, Any] | None, answer: Answer) -> None:
    if not usage:
        return
    answer.prompt_tokens = usage.get("prompt_tokens") or answer.prompt_tokens
    answer.completion_tokens = usage.get("completion_tokens") or 0
    answer.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")


def _complete(answer: Answer) -> None:
    if not answer.completion_tokens:
        answer.completion_tokens = sum(count for _, count in answer.moments)
    if not answer.error and not answer.moments:
        answer.error = "The reply had no token."
    if not answer.error and answer.finish_reason is None:
        answer.error = "The stream ended without a finish reason."


def _error_of(body: bytes, status: int) -> str:
    try:
        return f"{status}: {orjson.loads(body)['error']['message']}"
    except (ValueError, KeyError, TypeError):
        return f"status {status}"
