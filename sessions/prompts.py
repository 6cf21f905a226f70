"""From a stored branch to the request that the engine gets, and from its answer to the ids to store."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from ..engine.generate_request import GenerateRequest, RequestStarted
from ..engine.sampling_params import SamplingParams
from .errors import SessionError
from .fingerprints import engine_facts
from .given import Given
from .ids import now
from .rows import Generation, Message, PromptPath, ReplyTokens, pack
from .sampling import effective_params, merged_params
from .sent_files import sent_text
from .summaries import ASIDE, INSTRUCTION, SUMMARY, bounded, calm, carried_by

_SEED_BITS = 48


@dataclass
class Prompt:
    """A request and what belongs to it.

    Attributes:
        message_ids: id of each message of the request; "" for the system turn, ``ASIDE`` for an instruction.
        far: those that are sent as their length only.
    """

    request: GenerateRequest
    generation: Generation
    system_prompt: str | None
    message_ids: list[str] = field(default_factory=list)
    far: frozenset[str] = frozenset()

    @property
    def continues(self) -> bool:
        """Whether the last message is the reply itself."""
        return not self.request.add_generation_prompt

    def reply_begins(self, started: RequestStarted) -> list[int]:
        """Ids of the prompt that are the reply's: its header, or what it has so far; empty if nobody can tell."""
        if not self.continues:
            return started.generation_ids
        return (self.request.messages or [])[-1]["token_ids"] or (started.segments[-1] if started.segments else [])

    def new_tokens(self, fingerprint: str, started: RequestStarted) -> ReplyTokens:
        """The ids that ``started`` tells of messages sent without any, and the reply's header."""
        tokens = ReplyTokens(fingerprint, len(started.generation_ids), system_prompt=self.system_prompt)
        messages = self.request.messages or []
        if len(started.segments) != len(messages):
            return tokens
        carried_to = started.kept_from if any("carried" in one for one in messages[: started.kept_from]) else None
        for index, (message_id, segment) in enumerate(zip(self.message_ids, started.segments, strict=True)):
            if messages[index]["token_ids"] is not None or message_id in self.far or message_id == ASIDE:
                continue
            if index == carried_to:  # it has the summary in this prompt, and perhaps not in the next one
                continue
            if self.continues and index == len(messages) - 1:
                tokens.header_tokens = len(segment)
            elif message_id == "":
                tokens.system_ids = pack(segment)
            elif index >= (started.kept_from or 0):
                tokens.segments[message_id] = pack(segment)
        return tokens

    def note_left_out(self, started: RequestStarted) -> None:
        """Put down what ``started`` tells of messages that did not fit into the context.

        Raises:
            SessionError: nothing fits but the instruction to sum up.
        """
        if ASIDE in self.message_ids and started.kept_from == self.message_ids.index(ASIDE):
            raise SessionError(
                "Not even the last turn of this chat fits into the context beside a summary of it, so it cannot be "
                "summed up; begin a new chat, or start with a larger --max-model-len."
            )
        if started.kept_from is not None and started.kept_from < len(self.message_ids):
            self.generation.kept_from = self.message_ids[started.kept_from]
            self.generation.left_out = started.left_out_messages
            self.generation.left_out_tokens = started.left_out_tokens


def build_prompt(
    path: PromptPath,
    reply: Message,
    info: dict[str, Any],
    fingerprint: str,
    salt: str = "",
    own: dict[str, Any] | None = None,
    given: Given | None = None,
) -> Prompt:
    """The request for ``reply``.

    Args:
        path: the branch up to its question, or up to the reply itself when it is continued.
        own: sampling chosen for this reply alone, over its chat's; None in it is the model's own.
        given: what it begins with, and the sampling it goes on with in place of all other.
        salt: only chats of the same salt share cached blocks.

    Raises:
        RequestError: a sampling value without meaning.
        SessionError: the reply to continue has no answer yet, and its thinking no ids of this model.
    """
    continues = bool(path.messages) and path.messages[-1].id == reply.id
    messages, message_ids = prompt_messages(path)
    if reply.kind == SUMMARY:
        place = len(messages) - int(continues)
        messages.insert(place, question_after(path, INSTRUCTION))
        message_ids.insert(place, ASIDE)
    if continues:
        check_continuable(path, reply, fingerprint)
        if not is_own(reply, fingerprint):
            messages[-1]["token_ids"] = None
    own = given.own if given else own
    params = _params(path, reply, info, own or {}, given)
    run = (reply.generation.run if reply.generation else 0) + 1
    request = GenerateRequest(
        params=SamplingParams(**params),
        request_id=f"{reply.id}-{run}",
        messages=messages,
        add_generation_prompt=not continues,
        begins_with=given.ids if given else [],
        begun_at=path.session.prompt_date,
        trim=True,
        labels={"session": reply.session_id, "message": reply.id},
        salt=salt,
        lane=reply.session_id,
    )
    generation = Generation(
        reply.id,
        run,
        model=info.get("model"),
        model_fingerprint=fingerprint,
        params={name: value for name, value in params.items() if name != "seed"},
        seed=params["seed"],
        started_at=now(),
        engine=json.dumps(engine_facts(info)),
        own=json.dumps(own) if own else None,
        given_tokens=len(given.ids) if given else None,
    )
    return Prompt(request, generation, path.session.system_prompt, message_ids, frozenset(path.far))


def _params(
    path: PromptPath, reply: Message, info: dict[str, Any], own: dict[str, Any], given: Given | None
) -> dict[str, Any]:
    """Sampling of a run, with a seed. A summary is written calmly, and ends nowhere but where the model ends it, or the
    limit."""
    if given is not None:
        params = {name: value for name, value in given.params.items() if name != "seed"}
    else:
        chosen = calm(path.session.params) if reply.kind == SUMMARY else path.session.params
        params = effective_params(merged_params(chosen, own), info.get("sampling_defaults") or {})
    if reply.kind == SUMMARY:
        params = bounded(params, params if given else own)
    if params.get("seed") is None:
        params["seed"] = secrets.randbits(_SEED_BITS)
    return params


def is_own(reply: Message, fingerprint: str) -> bool:
    """Whether a reply's ids are those that this model sampled, not those of a text that was closed and sent."""
    return reply.generation is not None and reply.generation.model_fingerprint == fingerprint


def check_continuable(path: PromptPath, reply: Message, fingerprint: str) -> None:
    """Refuse to go on with thinking that cannot be sent: without ids, only an answer is sent as text.

    Args:
        path: the branch that ends with ``reply``.

    Raises:
        SessionError: the reply has no answer yet, and its thinking no ids of this model.
    """
    if not reply.content and not (is_own(reply, fingerprint) and path.token_ids.get(reply.id)):
        raise SessionError("Another model's thinking cannot be continued; regenerate the reply instead.")


def prompt_messages(path: PromptPath) -> tuple[list[dict[str, Any]], list[str]]:
    """A branch as the engine's prompt builder takes it, and the messages' ids ("" for the system turn)."""
    messages: list[dict[str, Any]] = []
    message_ids: list[str] = []
    if path.session.system_prompt is not None:
        messages.append(_message("system", path.session.system_prompt, path.system_ids))
        message_ids.append("")
    for one in path.messages:
        if one.id in path.far:
            messages.append({**_message(one.role, "", None), "num_tokens": path.far[one.id]})
            message_ids.append(one.id)
            continue
        if one.role == "assistant" and one.empty:
            continue
        messages.append(_message(one.role, sent_text(one), path.token_ids.get(one.id)))
        message_ids.append(one.id)
    if path.summary is not None:
        first = next((place for place, one in enumerate(messages) if one["role"] == "user"), None)
        if first is not None:
            _carry(messages[first], path.summary)
    places = {message_id: place for place, message_id in enumerate(message_ids)}
    for message, message_id in zip(messages, message_ids, strict=True):
        place = places.get(path.kept_from.get(message_id, ""))
        if place is not None and message["role"] == "assistant":
            message["kept_from"] = place
    return messages, message_ids


def question_after(path: PromptPath, text: str) -> dict[str, Any]:
    """A question at the end of a branch, as the engine's prompt builder takes it."""
    question = _message("user", text, None)
    if path.summary is not None and all(one.role != "user" for one in path.messages):
        _carry(question, path.summary)
    return question


def sent_from(messages: list[dict[str, Any]], start: int, cut: int) -> list[dict[str, Any]]:
    """The messages of a prompt that leaves out those from ``start``, behind the system turn, to ``cut``."""
    sent = messages[cut:]
    carried = next((one["carried"] for one in messages[start:cut] if "carried" in one), None)
    if carried and sent:
        sent[0] = {**sent[0], "content": carried + sent[0]["content"], "token_ids": None}
    return messages[:start] + sent


def _carry(question: dict[str, Any], summary: Message) -> None:
    question["carried"] = carried_by(summary)
    if "num_tokens" not in question:
        question["content"] = question["carried"] + question["content"]


def _message(role: str, content: str, token_ids: list[int] | None) -> dict[str, Any]:
    return {"role": role, "content": content, "token_ids": token_ids or None}
