"""Looks into a reply token by token, and goes on from one with another token in its place.

::

    question │ header │ The │ sea │ is │ blue         what the model gave "is": 61 %, and what else: "may" 9 % …
                                  └─ may │ be …       a sibling that goes on behind "may", as if it had been sampled

All of it is the engine's own: a reply with given ids is a request like any other (see ``GenerateRequest.begins_with``),
so that its prefix is found in the cache and its text, thinking, limits and stops are right by themselves.
"""

from __future__ import annotations

import math
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from ..engine.errors import EngineError
from ..engine.generate_request import OWN_WORK, GenerateRequest
from ..engine.reasoning import header_state, split_reasoning
from ..engine.sampling_params import SamplingParams
from ..engine.types import RequestOutput, TokenLogprob
from .errors import SessionError
from .generated import GeneratedReply
from .given import Given
from .ids import new_id
from .pieces import Piece, mark_thinking, pieces_of, shown_bytes
from .reply_service import ReplyService
from .reproduction import Reproduction
from .rows import json_object
from .service_core import ServiceCore
from .views import View

MOST_ALTERNATIVES = 20


class TokenBranches:
    """Tokens of replies, and branches at them."""

    def __init__(self, core: ServiceCore, replies: ReplyService, again: Reproduction) -> None:
        self._core = core
        self._replies = replies
        self._again = again

    async def tokens(self, message_id: str) -> View:
        """{"message_id", "tokens", "pieces"}: what a reply was generated as; ``tokens`` counts its ids.

        A piece has the ``index`` of its first token (from 0), its ``count`` of tokens, its ``text``, the ``part`` it
        is in ("thinking" or "answer") and ``control``: it is the name of a token that the text does not show. A
        character that is spelled by several tokens is one piece.

        Raises:
            SessionError: the loaded model did not write this reply, or it has not ended.
            EngineError: the engine is not ready.
        """
        reply = await self._generated(message_id)
        pieces = await self._pieces(reply)
        return {"message_id": message_id, "tokens": len(reply.ids), "pieces": [asdict(one) for one in pieces]}

    async def alternatives(self, message_id: str, index: int, k: int = 8) -> View:
        """What the model held likely in the place of a token: its own distribution, before any sampling setting.

        Returns:
            "taken": the token that came there, and "alternatives": the ``k`` likeliest ones, likeliest first; each
            with "id", "text", "control", "probability", "rank" (1 is the likeliest) and "taken". "cached_tokens" of
            "prompt_tokens" before it were found in the cache.

        Raises:
            SessionError: see ``tokens``; or there is no such token.
            EngineError: the engine is not ready, or ended it.
        """
        reply = await self._generated(message_id)
        self._check_index(reply, index)
        prompt = await self._again.prompt(reply.recipe)
        if prompt is None:
            raise SessionError(
                "The chat's beginning has changed since this reply was written, so what the model held likely there "
                "cannot be computed again; regenerate it."
            )
        count = min(max(1, k), MOST_ALTERNATIVES)
        output = await self._look(reply, [*prompt], reply.ids[: index + 1], count)
        (told,) = output.logprobs or [None]
        if told is None or output.metrics is None:
            raise EngineError("The engine did not tell how likely this token was; try again.")
        spelled = await self._core.engine.pieces([told.token_id, *(one.token_id for one in told.top)])
        taken, *others = (
            _token_view(one, hidden, told.token_id) for one, (_, hidden) in zip([told, *told.top], spelled, strict=True)
        )
        return {
            "message_id": message_id,
            "index": index,
            "taken": taken,
            "alternatives": others,
            "prompt_tokens": output.metrics.prompt_tokens,
            "cached_tokens": output.metrics.cached_tokens,
        }

    async def branch_at(self, message_id: str, index: int, token_id: int) -> View:
        """The view of a reply that begins: the old one's tokens before ``index``, ``token_id``, and what follows it.

        It goes on with the sampling of the run that it branches off, and a seed of its own. The old reply stays as it
        is beside it.

        Raises:
            SessionError: see ``tokens``; or there is no such token.
            EngineError: the engine is not ready.
        """
        return await self._core.whole(self._branch_at(message_id, index, token_id))

    async def _branch_at(self, message_id: str, index: int, token_id: int) -> View:
        reply = await self._generated(message_id)
        self._check_index(reply, index)
        await self._core.engine.pieces([token_id])  # an id that the model does not have is refused here
        content = _written_before(reply, await self._pieces(reply))
        run, begin = reply.run_at(index)
        params = dict(run.params)
        if begin and params.get("max_tokens"):
            params["max_tokens"] += begin  # a limit counts from the beginning of the run
        given = Given([*reply.ids[:index], token_id], params, json_object(run.own))
        session, made = await self._core.write(self._core.store.add_branch, message_id, content)
        return self._replies.start(session, made, given=given)

    async def _generated(self, message_id: str) -> GeneratedReply:
        status = self._core.engine.status
        if status.state != "ready":
            raise EngineError(status.message or "The engine is not ready yet; try again in a moment.")
        return await self._core.read(self._core.store.generated, message_id, self._core.fingerprint())

    async def _pieces(self, reply: GeneratedReply) -> list[Piece]:
        engine = self._core.engine
        pieces = pieces_of(await engine.pieces(reply.ids))
        if reply.message.reasoning:
            header = b"".join(data for data, _ in await engine.pieces(reply.header_ids))
            mark_thinking(pieces, header_state(header.decode("utf-8", "ignore")))
        return pieces

    async def _look(self, reply: GeneratedReply, prompt: list[int], ids: list[int], count: int) -> RequestOutput:
        """The step that gives the last of ``ids``; what had to be computed for it stays in the cache."""
        request = GenerateRequest(
            params=SamplingParams(temperature=0, max_tokens=len(ids), logprobs=count),
            request_id=f"{OWN_WORK}look-{new_id()}",
            prompt_token_ids=prompt,
            begins_with=ids,
            labels={"session": reply.message.session_id},
            salt=self._core.salt(reply.message.session_id),
            lane=reply.message.session_id,
        )
        async with aclosing(self._core.engine.generate(request)) as items:
            async for item in items:
                if isinstance(item, RequestOutput):
                    if item.finish_reason in ("abort", "error"):
                        raise EngineError(item.error or "The engine ended this look; try again in a moment.")
                    return item
        raise EngineError("The engine did not answer; try again in a moment.")

    @staticmethod
    def _check_index(reply: GeneratedReply, index: int) -> None:
        if not 0 <= index < len(reply.ids):
            raise SessionError(f"This reply has {len(reply.ids):,} tokens; there is none in place {index + 1:,}.")


def _written_before(reply: GeneratedReply, pieces: list[Piece]) -> str:
    """The part of a reply's text that stands before its generated tokens: a person wrote it, or another model.

    Raises:
        SessionError: nobody can tell what that part is.
    """
    if reply.message.reasoning:
        return ""
    text = "".join(one.text for one in pieces if not one.control).replace("\ufffd", "")
    content = reply.message.content.replace("\ufffd", "")
    if content.strip() in (text.strip(), split_reasoning(text).answer.strip()):
        return ""
    if content.endswith(text):
        return reply.message.content[: len(reply.message.content) - len(text)]
    raise SessionError("The text of this reply is not that of its tokens, so it cannot be gone on from within.")


def _token_view(one: TokenLogprob, hidden: bool, taken: int) -> View:
    view: dict[str, Any] = {"id": one.token_id, "text": shown_bytes(one.piece), "control": hidden}
    return {**view, "probability": math.exp(one.logprob), "rank": one.rank, "taken": one.token_id == taken}
