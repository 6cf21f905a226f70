"""From what a caller sends to the prompt that the engine runs. Lives in the engine process, beside the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .context_policy import build_to_fit, room_for
from .generate_request import GenerateRequest, RequestStarted
from .prompt import BuiltPrompt, PromptMessage


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

    def _chat(self, request: GenerateRequest, messages: list[dict[str, Any]]) -> RequestStarted:
        turns = [
            PromptMessage(one["role"], one["content"], one.get("token_ids"), one.get("kept_from")) for one in messages
        ]

        def build(part: Sequence[PromptMessage]) -> BuiltPrompt:
            return self._engine.prompt_builder.build(part, continue_last=not request.add_generation_prompt)

        if request.trim and self._engine.config.context_policy == "trim":
            info = self._engine.info()
            pool_tokens = info.get("capacity", info["num_blocks"] * info["block_size"])
            room = room_for(info["max_model_len"], pool_tokens, request.params.max_tokens)
            built = build_to_fit(build, turns, room, lambda text: len(self._engine.tokenizer.encode(text)))
        else:
            built = build(turns)
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
        )
