"""From a stored branch to the request that the engine gets, and from its answer to the ids to store."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from ..engine.generate_request import GenerateRequest, RequestStarted
from ..engine.sampling_params import SamplingParams
from .errors import SessionError
from .ids import now
from .rows import Generation, Message, PromptPath, ReplyTokens, pack
from .views import effective_params

_SEED_BITS = 48


@dataclass
class Prompt:
    """A request and what belongs to it.

    Attributes:
        unknown: for each message of the request, its id if it was sent without ids ("" for the system turn), else None.
        known_ids: ids that the reply has already, when it is continued; header included.
    """

    request: GenerateRequest
    generation: Generation
    system_prompt: str | None
    unknown: list[str | None] = field(default_factory=list)
    known_ids: list[int] = field(default_factory=list)

    def new_tokens(self, fingerprint: str, started: RequestStarted) -> ReplyTokens:
        """The ids that ``started`` tells of messages sent without any, and the reply's header."""
        tokens = ReplyTokens(fingerprint, len(started.generation_ids), system_prompt=self.system_prompt)
        if len(started.segments) != len(self.unknown):
            return tokens
        for message_id, segment in zip(self.unknown, started.segments, strict=True):
            if message_id == "":
                tokens.system_ids = pack(segment)
            elif message_id is not None:
                tokens.segments[message_id] = pack(segment)
        return tokens


def build_prompt(path: PromptPath, reply: Message, info: dict[str, Any], fingerprint: str) -> Prompt:
    """The request for ``reply``.

    Args:
        path: the branch up to its question, or up to the reply itself when it is continued.

    Raises:
        RequestError: a sampling value without meaning.
        SessionError: the reply to continue has no ids of this model.
    """
    continues = path.messages[-1].id == reply.id
    messages, unknown = prompt_messages(path)
    known_ids = path.token_ids.get(reply.id, [])
    if continues and not known_ids:
        raise SessionError("Another model wrote this reply, so it cannot be continued here; regenerate it instead.")
    params = effective_params(path.session.params, info.get("sampling_defaults") or {})
    if params.get("seed") is None:
        params["seed"] = secrets.randbits(_SEED_BITS)
    run = (reply.generation.run if reply.generation else 0) + 1
    request = GenerateRequest(
        params=SamplingParams(**params),
        request_id=f"{reply.id}-{run}",
        messages=messages,
        add_generation_prompt=not continues,
        labels={"session": reply.session_id, "message": reply.id},
    )
    generation = Generation(
        reply.id,
        run,
        model=info.get("model"),
        model_fingerprint=fingerprint,
        params={name: value for name, value in params.items() if name != "seed"},
        seed=params["seed"],
        started_at=now(),
    )
    return Prompt(request, generation, path.session.system_prompt, unknown, known_ids)


def prompt_messages(path: PromptPath) -> tuple[list[dict[str, Any]], list[str | None]]:
    """A branch as the engine's prompt builder takes it, and what of it has no ids yet (see ``Prompt.unknown``)."""
    messages: list[dict[str, Any]] = []
    unknown: list[str | None] = []
    if path.session.system_prompt is not None:
        ids = path.system_ids or None
        messages.append({"role": "system", "content": path.session.system_prompt, "token_ids": ids})
        unknown.append(None if ids else "")
    for one in path.messages:
        if one.role == "assistant" and not one.content:
            continue
        ids = path.token_ids.get(one.id) or None
        messages.append({"role": one.role, "content": one.content, "token_ids": ids})
        unknown.append(None if ids else one.id)
    return messages, unknown
