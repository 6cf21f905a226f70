"""From what a caller sends to the prompt that the engine runs. Lives in the engine process, beside the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .chat_date import date_variables
from .computed_before import MissReason
from .context_policy import build_to_fit, room_for
from .errors import ContextLengthError
from .generate_request import GenerateRequest, RequestStarted
from .prompt import BuiltPrompt, PromptMessage
from .scheduler import common_prefix


class Prompting:
    """Builds prompts with one engine's tokenizer, prompt builder and limits.

    Args:
        engine: an ``Engine`` or what behaves like one.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def start(self, request: GenerateRequest) -> RequestStarted:
        """The prompt of a request.

        Raises:
            RequestError: the chat's newest turn, or its system prompt, is too long.
            ChatTemplateError: the model's template does not take this chat.
        """
        if request.messages is not None:
            return self._chat(request, request.messages)
        ids = request.prompt_token_ids
        if ids is None:
            assert request.prompt is not None
            ids = self._engine.tokenizer.encode_prompt(request.prompt)
        return RequestStarted(request.request_id, ids)

    def beginning(self, request: GenerateRequest) -> list[int]:
        """The ids that every chat which begins with the request's messages begins with: what is worth pinning.

        Raises:
            ChatTemplateError: as ``start``.
        """
        messages = request.messages
        if messages is None:
            return self.start(request).prompt_token_ids
        first, second = (
            self.start(replace(request, messages=[*messages, {"role": "user", "content": text}])).prompt_token_ids
            for text in ("A", "1")
        )
        return first[: common_prefix(first, second, len(first))]

    def probe(self, request: GenerateRequest) -> dict[str, Any]:
        """What a request would find cached if it were sent now, and where and why the rest begins.

        Beside what ``Engine.probe`` says, for a chat: ``token_id``, the first token not found; ``message_index`` and
        ``message_role`` of the message that it is in (None in the reply's header); ``kept_from``,
        ``left_out_messages`` and ``left_out_tokens`` (see ``RequestStarted``).

        Raises:
            RequestError, ChatTemplateError: as ``start``.
        """
        started = self.start(request)
        found = self._engine.probe(started.prompt_token_ids, request.salt)
        if request.messages is None:
            return {**found, "message_index": None, "message_role": None}
        miss = found.get("first_difference")
        index = None if miss is None else _message_at(started.segments, miss)
        reason = found.get("reason")
        if miss is not None:
            reason = _reason_in_chat(reason, request.messages, started, index, miss)
        return {
            **found,
            "reason": reason,
            "message_index": index,
            "message_role": None if index is None else request.messages[index]["role"],
            "token_id": None if miss is None else started.prompt_token_ids[miss],
            "kept_from": started.kept_from,
            "left_out_messages": started.left_out_messages,
            "left_out_tokens": started.left_out_tokens,
        }

    def _chat(self, request: GenerateRequest, messages: list[dict[str, Any]]) -> RequestStarted:
        turns = [PromptMessage.of(one) for one in messages]
        builder = self._engine.prompt_builder
        variables = dict(request.template_args)
        if builder.writes_dates:
            variables = {**date_variables(request.begun_at), **variables}
        if variables:
            builder = builder.with_variables(variables)

        def build(part: Sequence[PromptMessage]) -> BuiltPrompt:
            return builder.build(part, continue_last=not request.add_generation_prompt)

        if request.trim and self._engine.config.context_policy == "trim":
            info = self._engine.info()
            pool_tokens = info.get("capacity", info["num_blocks"] * info["block_size"])
            room = room_for(info["max_model_len"], pool_tokens, request.params.max_tokens)
            built = build_to_fit(build, turns, room, lambda text: len(self._engine.tokenizer.encode(text)))
        else:
            if any(one.num_tokens is not None for one in turns):
                raise _too_long(turns, self._engine.info()["max_model_len"])
            built = build(turns)
        splitter = builder.reasoning(built, continue_last=not request.add_generation_prompt)
        left_out = built.left_out
        has_system = bool(turns) and turns[0].role == "system"
        return RequestStarted(
            request.request_id,
            built.token_ids,
            built.segments,
            built.generation_ids,
            built.first_difference,
            built.note,
            kept_from=left_out.first_kept if left_out else int(has_system),
            left_out_messages=left_out.messages if left_out else 0,
            left_out_tokens=left_out.tokens if left_out else 0,
            rewritten=built.rewritten,
            reasoning_state=splitter.state if splitter else None,
            reasoning_held=splitter.held if splitter else "",
        )


def _message_at(segments: list[list[int]], token: int) -> int | None:
    """Index of the message that a prompt's token is in; None for the header of the reply."""
    end = 0
    for index, segment in enumerate(segments):
        end += len(segment)
        if token < end:
            return index
    return None


def _ends_last_reply(messages: list[dict[str, Any]], segments: list[list[int]], index: int, token: int) -> bool:
    """Whether a token is the last one of the newest reply: it was sampled, but never fed."""
    end = sum(len(segment) for segment in segments[: index + 1])
    return index == len(messages) - 2 and messages[index]["role"] == "assistant" and token == end - 1


def _too_long(turns: Sequence[PromptMessage], context: int) -> ContextLengthError:
    """For a chat whose beginning came by its length only, because it is far longer than the context."""
    tokens = sum(len(one.token_ids or ()) if one.num_tokens is None else one.num_tokens for one in turns)
    return ContextLengthError(
        f"The prompt has at least {tokens:,} tokens, but the context holds {context:,} with the reply. "
        "Begin a new chat."
    )


def _reason_in_chat(
    reason: MissReason | None, messages: list[dict[str, Any]], started: RequestStarted, index: int | None, miss: int
) -> MissReason | None:
    """The engine's reason, where the chat itself does not tell a better one."""
    if reason in ("caching_off", "evicted"):
        return reason
    if index is None or index == len(messages) - 1 or _ends_last_reply(messages, started.segments, index, miss):
        return "new"
    if started.left_out_messages and index == started.kept_from:
        return "trimmed"
    if any(place <= index for place in started.rewritten):
        return "template"
    return reason
